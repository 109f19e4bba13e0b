"""Record, plan, or serve the calls of a process, as its environment variables select."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

from sccl.errors import InputError
from sccl.torch_backend.bundles.host_service import CallContext, HostService, bundle_setting
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.calls.planned_calls import DeviceCarrier
from sccl.torch_backend.device import CPU, backend_label
from sccl.torch_backend.plan_switch import PlanSwitch
from sccl.torch_backend.recorder import Recorder
from sccl.torch_backend.script import (
    CLAIMED_SUFFIX,
    RECORD,
    SCRIPT,
    PlanScript,
    read_script,
)
from sccl.torch_backend.torch_releases import POINT_TO_POINT

DEBUG = "SCCL_DEBUG"
"""Environment variable. 1: print once for each kind of call how it is carried."""


class Session:
    """The state of a process, which its groups share, because a plan orders all their calls."""

    def __init__(self) -> None:
        self._debug = os.environ.get(DEBUG, "") not in ("", "0")
        self._said: set[str] = set()
        self._recorder: Recorder | None = None
        self._first: Any = None
        self.plans: PlanSwitch | None = None
        self._lives = 0  # number of groups of all ranks so far, which need separate keys

    def joined(self, group: Any, store: Any, timeout: timedelta, make: Callable[..., Any]) -> None:
        """Register a new group. The first one has all ranks.

        Args:
            group: New group.
            store: Store of the group.
            timeout: Timeout of its calls.
            make: Function that creates a group over gloo.
        """
        if self._first is None:
            self._begin(group, store, timeout, make)
        group.hosted = HostService(store, group, timeout, bundle_setting())
        if self._debug:
            why = group.hosted.refusal
            self._say(f"bundles serve {group.hosted.shown}{f': no, {why}' if why else ''}")
        if group is self._first and not group.rank():
            self._warn_of_plan(group.hosted)

    def _warn_of_plan(self, hosted: HostService) -> None:
        """Warn that the calls of a plan use gloo instead of an available bundle."""
        if self.plans is None or self.plans.enforcer is None or hosted.refusal:
            return
        sys.stderr.write(
            f"sccl: calls that the plan covers go over gloo, and without the plan a bundle serves "
            f"{hosted.shown}, which is often faster on one machine: compare the time of a step "
            "without --plan\n"
        )

    def _begin(self, group: Any, store: Any, timeout: timedelta, make: Callable[..., Any]) -> None:
        self._first = group
        folder = os.environ.get(RECORD, "")
        if folder and self._recorder is None:
            self._recorder = Recorder(Path(folder), group.rank(), group.size())
        script = _load_script(os.environ.get(SCRIPT, ""), group.size())
        self._lives += 1
        place = dist.PrefixStore(f"sccl-{self._lives}", store)
        self.plans = PlanSwitch(group, place, timeout, make, script)

    def left(self, group: Any, *, at_once: bool = False) -> None:
        """Unregister a destroyed group.

        Args:
            group: Destroyed group.
            at_once: Whether to end its calls immediately.
        """
        group.hosted.close(at_once=at_once)
        if group is self._first:
            self._first = None
            if self.plans is not None:
                self.plans.close()
                self.plans = None
            if self._recorder is not None:
                self._recorder.write()

    def step(self) -> None:
        """Record the begin of a step."""
        if self._recorder is not None:
            self._recorder.mark("step")

    def call(
        self,
        group: Any,
        does: str,
        describe: Callable[[], CallDescription],
        carry: Callable[[Any], Any],
        how: CallContext,
    ) -> Any:
        """Make a call by a plan, a bundle, or torch's group, and return its work object.

        Args:
            group: Group of the call.
            does: Operation, a key of :data:`~sccl.torch_backend.torch_releases.METHOD_NAMES`.
            describe: Function that reads the arguments.
            carry: Function that makes the call with a group of torch.
            how: Context of the call.
        """
        plans, inner = self.plans, group.over(how.device)
        if plans is not None and does not in POINT_TO_POINT:
            plans.before(group)
        unplanned = partial(self._unplanned, group, does, carry=partial(carry, inner), how=how)
        if self._recorder is None and (plans is None or plans.takes_none):
            return unplanned(describe)
        described = describe()
        on_device = None if how.device == CPU else DeviceCarrier(how.device, partial(carry, inner))
        work = None if plans is None else plans.call(group.ranks, described, carry, on_device)
        if work is not None and self._debug:
            self._say(f"{does}: {backend_label(how.device)}, {work.shown}")
        if self._recorder is None:
            return unplanned(lambda: described) if work is None else work
        return self._recorder.call(
            group.ranks, described, lambda: unplanned(lambda: described) if work is None else work
        )

    def _unplanned(
        self,
        group: Any,
        does: str,
        describe: Callable[[], CallDescription],
        carry: Callable[[], Any],
        how: CallContext,
    ) -> Any:
        work: Any = None
        if not group.hosted.refusal and how.device == CPU:
            work = group.hosted.call(does, describe(), carry, how)
        if self._debug:
            self._say(f"{does}: {backend_label(how.device) if work is None else 'bundle'}")
        return carry() if work is None else work

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            sys.stderr.write(f"sccl: rank {os.environ.get('RANK', '?')}: {line}\n")


def _load_script(path: str, ranks: int) -> PlanScript | None:
    """Load a script. If it does not fit the job, print the reason and return None."""
    if not path:
        return None
    with suppress(OSError):
        Path(path).with_suffix(CLAIMED_SUFFIX).touch()
    try:
        script = read_script(Path(path))
    except InputError as error:
        why = str(error)
    else:
        if script.ranks == ranks:
            return script
        why = f"the plan is for {script.ranks} ranks, and the job has {ranks}"
    sys.stderr.write(f"sccl: {why}: the job continues without a plan\n")
    return None


@cache
def current_session() -> Session:
    """Return the session of this process."""
    return Session()
