"""Create the groups of torch that carry calls outside bundles, one for each type of device.

A group over gloo is created at once. Those of other devices are created on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.peers import CallError

CPU = torch.device("cpu")

GroupFactory = Callable[[Any, int, int, timedelta], Any]
"""Function that creates a group from its store, this rank's place, the size, and a timeout."""


def gloo_group(store: Any, rank: int, size: int, timeout: timedelta, device: Any = None) -> Any:
    """Create a group over gloo with all method names of torch's groups.

    Args:
        store: Store of the group.
        rank: Place of this rank.
        size: Number of ranks.
        timeout: Timeout of calls.
        device: gloo device. None: the device of torch's default interface.
    """
    if device is None:  # torch then reads GLOO_SOCKET_IFNAME
        backend = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    else:
        options = dist.ProcessGroupGloo._Options()  # noqa: SLF001 - torch has no other
        options._devices = [device]  # noqa: SLF001 - torch has no other
        options._timeout = timeout  # noqa: SLF001 - torch has no other
        backend = dist.ProcessGroupGloo(store, rank, size, options)
    kind = dist.ProcessGroup.BackendType.GLOO
    return _attach_backend(dist.ProcessGroup(store, rank, size), kind, CPU, backend)


def nccl_group(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """Create a group over NCCL with all method names of torch's groups.

    Raises:
        CallError: This torch has no NCCL, or finds no GPU.
    """
    if not dist.is_nccl_available() or not torch.cuda.is_available():
        lacks = "sees no GPU" if dist.is_nccl_available() else "has no NCCL"
        raise CallError(
            f"NCCL carries calls with tensors on cuda, and this torch {lacks}: give tensors on "
            "the CPU"
        )
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timeout  # noqa: SLF001 - torch has no other
    backend = dist.ProcessGroupNCCL(store, rank, size, options)
    cuda, kind = torch.device("cuda"), dist.ProcessGroup.BackendType.NCCL
    return _attach_backend(dist.ProcessGroup(store, rank, size), kind, cuda, backend)


def _attach_backend(group: Any, kind: Any, device: torch.device, backend: Any) -> Any:
    group._set_default_backend(kind)  # noqa: SLF001 - torch has no other
    group._register_backend(device, kind, backend)  # noqa: SLF001 - torch has no other
    return group


def _cuda_context(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.stream(torch.cuda.current_stream(device))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """The way to carry calls of tensors on a type of device.

    Attributes:
        name: Name of the backend.
        make: Function that creates a group of ranks.
        context: Function from a device to a context. Calls made later in this context use the
            stream that is current now.
        streams: Whether devices have streams, with which futures synchronize.
    """

    name: str
    make: GroupFactory
    context: Callable[[torch.device], AbstractContextManager[Any]] = lambda _: nullcontext()
    streams: bool = False


DEVICES = {"cuda": DeviceKind("nccl", nccl_group, _cuda_context, streams=True)}
"""Carriers by type of device, except the CPU. CPU calls use gloo, and plans may split them."""


def device_kind(device: torch.device) -> DeviceKind:
    """Return the way to carry calls of tensors on a device.

    Raises:
        CallError: The type of device is not supported.
    """
    if device.type not in DEVICES:
        raise CallError(
            f"tensors on {device.type} are not served: give them on {', '.join(['cpu', *DEVICES])}"
        )
    return DEVICES[device.type]


def backend_label(device: torch.device) -> str:
    """Return the name of the backend for tensors on a device."""
    return "gloo" if device == CPU else device_kind(device).name


def stream_devices(device: torch.device) -> list[torch.device]:
    """Return the devices with which a future of results on a device synchronizes."""
    kind = DEVICES.get(device.type)
    return [device] if kind is not None and kind.streams else []


def call_device(arguments: Sequence[Any]) -> torch.device:
    """Return the device of a call: that of its first tensor, or of a barrier's options.

    Args:
        arguments: Arguments of the call. Lists of tensors may be empty on some ranks.
    """
    for argument in arguments:
        while isinstance(argument, list | tuple) and argument:
            argument = argument[0]  # noqa: PLW2901 - first nested element
        device = getattr(argument, "device", None)
        if isinstance(device, torch.device):
            return CPU if device.type == "cpu" else device  # there is only one CPU device
    return CPU
