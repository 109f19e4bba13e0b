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
"""Makes a group, of a store that is its own, this rank's place, how many there are, and a time."""


def gloo_group(store: Any, rank: int, size: int, timeout: timedelta, device: Any = None) -> Any:
    """Return a group over gloo, which has all names of methods that torch's groups have.

    Args:
        device: of gloo. None: that of the interface which torch takes by itself.
    """
    if device is None:  # then torch looks at GLOO_SOCKET_IFNAME
        backend = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    else:
        options = dist.ProcessGroupGloo._Options()  # noqa: SLF001 - torch has no other
        options._devices = [device]  # noqa: SLF001 - likewise
        options._timeout = timeout  # noqa: SLF001 - likewise
        backend = dist.ProcessGroupGloo(store, rank, size, options)
    kind = dist.ProcessGroup.BackendType.GLOO
    return _attach_backend(dist.ProcessGroup(store, rank, size), kind, CPU, backend)


def nccl_group(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """Return a group over NCCL, likewise.

    Raises:
        CallError: this torch has no NCCL, or sees no GPU.
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
    group._register_backend(device, kind, backend)  # noqa: SLF001 - likewise
    return group


def _cuda_context(device: torch.device) -> AbstractContextManager[Any]:
    return torch.cuda.stream(torch.cuda.current_stream(device))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """The way to carry calls of tensors on a type of device.

    Attributes:
        name: Name of the backend.
        make: Function that creates a group of ranks.
        here: Function from a device to a context in which a later call is submitted to the current
            stream of this thread.
        streams: Whether it has streams, which futures must know.
    """

    name: str
    make: GroupFactory
    here: Callable[[torch.device], AbstractContextManager[Any]] = lambda _: nullcontext()
    streams: bool = False


DEVICES = {"cuda": DeviceKind("nccl", nccl_group, _cuda_context, streams=True)}
"""By type of device; of the CPU there is none, whose calls go over gloo, split as plans say."""


def device_kind(device: torch.device) -> DeviceKind:
    """Return how calls of tensors on a device are carried.

    Raises:
        CallError: they are not.
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
    """Return the devices that a future of results on a device must know."""
    kind = DEVICES.get(device.type)
    return [device] if kind is not None and kind.streams else []


def call_device(arguments: Sequence[Any]) -> torch.device:
    """Return where a call takes place: where its first tensor is, or as a barrier's options say.

    Args:
        arguments: of the call; lists of tensors may be empty on some ranks.
    """
    for argument in arguments:
        while isinstance(argument, list | tuple) and argument:
            argument = argument[0]  # noqa: PLW2901 - down to the first
        device = getattr(argument, "device", None)
        if isinstance(device, torch.device):
            return CPU if device.type == "cpu" else device  # there is only one, under any number
    return CPU
