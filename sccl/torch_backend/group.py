"""Implement the process group ``sccl``: it sees a job's calls, and torch's groups carry them.

It has a method for each name of a collective in any release of torch, so that DDP, ZeRO, and FSDP2
find them all.
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
"""Time for unfinished calls when a job ends. gloo has threads that otherwise end with Python."""


class ScclGroup(dist.ProcessGroup):
    """A group of ranks.

    Attributes:
        ranks: Global ranks, in the order of the group.
        hosted: Service for calls that a bundle supports.
    """

    def __init__(
        self, store: Any, rank: int, ranks: tuple[int, ...], timeout: timedelta, name: str
    ) -> None:
        try:
            super().__init__(store, rank, len(ranks))
        except TypeError:  # torch 2.13 takes no store from groups that are made in Python
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
            CallError: There is none, or the job has destroyed the group.
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

    # The base keeps no name of a group that is made in Python, and FSDP2 asks for it.
    def _set_group_name(self, name: str) -> None:
        self._own_name = name

    def _set_group_desc(self, desc: str) -> None:
        self._description = desc

    @property
    def group_name(self) -> str:
        """Return its name in the job."""
        return self._own_name

    @property
    def group_desc(self) -> str:
        """Return its description from its creator."""
        return self._description

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """Return the name of the backend."""
        return "sccl"

    def name(self) -> str:
        """Return the name of the backend."""
        return "sccl"

    def shutdown(self) -> None:
        """Finish its work: the job destroys it, or ends."""
        if self._inner is None:
            return
        _OPEN.discard(self)
        self._session.left(self)
        for inner in (*self._elsewhere.values(), self._inner):
            inner.shutdown()
        # Its threads end with it. One that lets go of a tensor needs Python, and where Python is at
        # its end by then, the process dies of that.
        self._inner = None
        self._elsewhere.clear()

    def abort(self) -> None:
        """End its work at once."""
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
        # Torch asks for its abilities, which are those of its construction.
        return self.over(device)._get_backend(device)  # noqa: SLF001 - torch's name

    def _start_coalescing(self, device: torch.device) -> None:
        self.over(device)._start_coalescing(device)  # noqa: SLF001 - torch's name

    def _end_coalescing(self, device: torch.device) -> Any:
        return self.over(device)._end_coalescing(device)  # noqa: SLF001 - torch's name

    def monitored_barrier(self, *args: Any, **kwargs: Any) -> None:
        """Wait for all ranks, and say which don't come."""
        self.inner.monitored_barrier(*args, **kwargs)

    def set_timeout(self, timeout: timedelta) -> None:
        """Set after which time a call gives up."""
        self._timeout = timeout
        self.hosted.set_timeout(timeout)
        for inner in (*self._elsewhere.values(), self.inner):
            inner.set_timeout(timeout)


def _gloo_method(does: str, name: str) -> Method:
    """Return a call of gloo's method, which refuses some tensors, and gets others wrong."""
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
        # Torch names no arguments but the last, its options.
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
    """Return the group that torch asks for, by ``init_process_group("sccl")`` or ``new_group``."""
    ranks = tuple(options.global_ranks_in_group) or tuple(range(options.group_size))
    # Files for ranks that are gone are not for the ranks that torchrun starts after them.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"attempt-{attempt}", options.store)
    return ScclGroup(store, options.group_rank, ranks, options.timeout, str(options.group_id))


def end_all_groups() -> None:
    """End groups that the job leaves open, as it ends itself; wait for that only so long."""

    def end() -> None:
        for group in list(_OPEN):
            group.shutdown()

    if _OPEN:
        thread = threading.Thread(target=end, name="sccl-end", daemon=True)
        thread.start()
        thread.join(_AT_EXIT_S)
