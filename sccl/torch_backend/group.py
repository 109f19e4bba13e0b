"""Implement the process group ``sccl``, which intercepts a job's calls. Torch's groups carry them.

The group has a method for each name of a collective in any supported release of torch, because DDP,
ZeRO, and FSDP2 use different names.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.bundles.host_service import CallContext, HostService
from sccl.torch_backend.calls.call_description import DESCRIBERS
from sccl.torch_backend.calls.works import wrap_named
from sccl.torch_backend.device import CPU, call_device, device_kind, gloo_group
from sccl.torch_backend.gloo_types import list_all_to_all, wrap_all_to_all, wrap_gloo_method
from sccl.torch_backend.peers import CallError, call_error, format_ranks, process_peers
from sccl.torch_backend.session import Session, current_session
from sccl.torch_backend.torch_releases import METHOD_NAMES, POINT_TO_POINT

Method = Callable[..., Any]


_OPEN: weakref.WeakSet[ScclGroup] = weakref.WeakSet()
"""Groups that the job has not destroyed."""

_AT_EXIT_S = 0.5
"""Time limit in seconds for unfinished calls when a job ends."""


class ScclGroup(dist.ProcessGroup):
    """A group of ranks.

    Attributes:
        ranks: Global ranks, in the order of the group.
        hosted: Bundle service of the group.
    """

    def __init__(
        self, store: Any, rank: int, ranks: tuple[int, ...], timeout: timedelta, name: str
    ) -> None:
        try:
            super().__init__(store, rank, len(ranks))
        except TypeError:  # torch 2.13 accepts no store from groups in Python
            super().__init__(rank, len(ranks))
        self.ranks = ranks
        process_peers().meet(dist.PrefixStore("peers", store), ranks, rank, timeout)
        self._inner: Any = gloo_group(dist.PrefixStore("gloo", store), rank, len(ranks), timeout)
        self._own_store, self._timeout = store, timeout
        self._elsewhere: dict[str, Any] = {}
        self._making = threading.Lock()
        self._own_name, self._description = name, "undefined"
        self.hosted: HostService
        self._session: Session = current_session()
        self._session.joined(self, store, timeout, gloo_group)
        _OPEN.add(self)

    @property
    def inner(self) -> Any:
        """Return the group that carries calls of CPU tensors outside plans and bundles.

        Raises:
            CallError: The job has destroyed the group.
        """
        if self._inner is None:
            words = format_ranks(self.ranks)
            raise CallError(f"the process group of {words} is destroyed: create another one")
        return self._inner

    def over(self, device: torch.device) -> Any:
        """Return the group that carries calls of tensors on a device. It is created on first use.

        Raises:
            CallError: No backend supports the device, or the job has destroyed the group.
        """
        inner = self.inner
        if device.type == "cpu":
            return inner
        with self._making:
            if device.type not in self._elsewhere:
                store = dist.PrefixStore(device.type, self._own_store)
                self._elsewhere[device.type] = device_kind(device).make(
                    store, self.rank(), self.size(), self._timeout
                )
            return self._elsewhere[device.type]

    # The base class has no name for groups in Python, and FSDP2 needs one.
    def _set_group_name(self, name: str) -> None:
        self._own_name = name

    def _set_group_desc(self, desc: str) -> None:
        self._description = desc

    @property
    def group_name(self) -> str:
        """Return the name of the group in the job."""
        return self._own_name

    @property
    def group_desc(self) -> str:
        """Return the description that the creator gave to the group."""
        return self._description

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the name of the backend."""
        return "sccl"

    def name(self) -> str:
        """Return the name of the backend."""
        return "sccl"

    def shutdown(self) -> None:
        """Finish all calls, because the job destroys the group, or ends."""
        if self._inner is None:
            return
        _OPEN.discard(self)
        self._session.left(self)
        for inner in (*self._elsewhere.values(), self._inner):
            inner.shutdown()
        # gloo's threads end with its group. A thread that releases a tensor needs Python, and if
        # Python has ended by then, the process crashes.
        self._inner = None
        self._elsewhere.clear()

    def abort(self) -> None:
        """End all calls immediately."""
        if self._inner is None:
            return
        _OPEN.discard(self)
        self._session.left(self, at_once=True)
        for inner in (*self._elsewhere.values(), self._inner):
            inner.abort()

    @property
    def _device_types(self) -> list[torch.device]:
        return [CPU]  # torch places objects there, and tensors without a device

    def _get_backend(self, device: torch.device) -> Any:
        # Torch reads the capabilities of the backend, which are fixed at construction.
        return self.over(device)._get_backend(device)  # noqa: SLF001 - torch's name

    def _start_coalescing(self, device: torch.device) -> None:
        self.over(device)._start_coalescing(device)  # noqa: SLF001 - torch's name

    def _end_coalescing(self, device: torch.device) -> Any:
        return self.over(device)._end_coalescing(device)  # noqa: SLF001 - torch's name

    def monitored_barrier(self, *args: Any, **kwargs: Any) -> None:
        """Wait for all ranks, and report missing ones."""
        self.inner.monitored_barrier(*args, **kwargs)

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of calls."""
        self._timeout = timeout
        self.hosted.set_timeout(timeout)
        for inner in (*self._elsewhere.values(), self.inner):
            inner.set_timeout(timeout)


def _gloo_method(does: str, name: str) -> Method:
    """Return a function that calls gloo's method with tensors that gloo handles correctly."""
    describe = DESCRIBERS[does]
    if does in POINT_TO_POINT or does == "barrier":
        return _delegate_method(name)
    if does == "all_to_all_single":
        return wrap_all_to_all(name, describe)
    if does == "all_to_all":
        return list_all_to_all(_gloo_method("all_to_all_single", "all_to_all_single"))
    return wrap_gloo_method(name, describe, flat="_single" in does)


def _delegate_method(name: str) -> Method:
    def carry(group: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(group, name)(*args, **kwargs)

    return carry


def _method(does: str, name: str) -> Method:
    describe, native_method = DESCRIBERS[does], _delegate_method(name)
    over_gloo = _gloo_method(does, name)

    def method(self: ScclGroup, *args: Any, **kwargs: Any) -> Any:
        # Torch passes at most the last argument, the options, by name.
        values = (*args, *kwargs.values())

        def naming(error: BaseException) -> CallError:
            return call_error(f"{does} of {describe(*values).size}", self.ranks, error)

        device = call_device(values)
        carry = over_gloo if device.type == "cpu" else native_method
        return self._session.call(
            self,
            does,
            lambda: describe(*values),
            lambda group: wrap_named(carry(group, *args, **kwargs), naming),
            CallContext(bool(values) and not getattr(values[-1], "asyncOp", True), naming, device),
        )

    method.__name__ = name
    method.__doc__ = f"Return the work of {does}; see torch's group."
    return method


for _does, _names in METHOD_NAMES.items():
    for _name in _names:
        if hasattr(dist.ProcessGroup, _name):
            setattr(ScclGroup, _name, _method(_does, _name))


def create_group(options: Any, _own: Any = None) -> ScclGroup:
    """Create the group for ``init_process_group("sccl")`` or ``new_group``."""
    ranks = tuple(options.global_ranks_in_group) or tuple(range(options.group_size))
    # Keys of earlier ranks must not reach the ranks that torchrun starts after them.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"attempt-{attempt}", options.store)
    return ScclGroup(store, options.group_rank, ranks, options.timeout, str(options.group_id))


def end_all_groups() -> None:
    """Close all open groups when the job ends, and wait at most :data:`_AT_EXIT_S` for that."""

    def end() -> None:
        for group in list(_OPEN):
            group.shutdown()

    if _OPEN:
        thread = threading.Thread(target=end, name="sccl-end", daemon=True)
        thread.start()
        thread.join(_AT_EXIT_S)
