"""What this process does with what its groups are called for, as the environment asks of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

from sccl.enforce.described import Described
from sccl.enforce.enforcer import Enforcer
from sccl.enforce.hosted import HostService, wished
from sccl.enforce.recorder import Recorder
from sccl.enforce.script import PlanScript, read_script
from sccl.errors import InputError

DEBUG = "SCCL_DEBUG"
"""1: say once of each kind of call who serves it."""

RECORD = "SCCL_RECORD"
"""A folder, into which every rank writes what it did."""

SCRIPT = "SCCL_SCRIPT"
"""The script of a plan, by which calls are made."""


class Session:
    """Of a process one, as the order of its calls is one over all of its groups."""

    def __init__(self) -> None:
        self._debug = os.environ.get(DEBUG, "") not in ("", "0")
        self._said: set[str] = set()
        self._recorder: Recorder | None = None
        self._first: Any = None
        self._enforcer: Enforcer | None = None
        self._plans = 0  # that were begun: what was said under one is none of the next

    def joined(self, group: Any, store: Any, timeout: timedelta, make: Callable[..., Any]) -> None:
        """Take note of a group that was made: the first is that of all ranks.

        Args:
            make: makes a group over gloo.
        """
        if self._first is None:
            self._begin(group, store, timeout, make)
        alone = self._recorder is not None or self._enforcer is not None
        group.hosted = HostService(store, group, timeout, "0" if alone else wished())
        if self._debug:
            why = group.hosted.refusal
            self._say(f"bundles serve {group.hosted.shown}{f': no, {why}' if why else ''}")

    def _begin(self, group: Any, store: Any, timeout: timedelta, make: Callable[..., Any]) -> None:
        self._first = group
        folder = os.environ.get(RECORD, "")
        if folder and self._recorder is None:
            self._recorder = Recorder(Path(folder), group.rank(), group.size())
        script = _script(os.environ.get(SCRIPT, ""), group.size())
        if script is not None:
            self._plans += 1
            place = dist.PrefixStore(f"sccl-{self._plans}", store)
            self._enforcer = Enforcer(script, group.rank(), place, timeout, make)

    def left(self, group: Any, *, at_once: bool = False) -> None:
        """Take note of a group that is destroyed.

        Args:
            at_once: what it does ends however far it is.
        """
        group.hosted.close(at_once=at_once)
        if group is self._first:
            self._first = None
            if self._enforcer is not None:
                self._enforcer.close()
                self._enforcer = None
            if self._recorder is not None:
                self._recorder.write()

    def step(self) -> None:
        """Take note that a step begins."""
        if self._recorder is not None:
            self._recorder.mark("step")

    def call(
        self,
        group: Any,
        does: str,
        describe: Callable[[], Described],
        carry: Callable[[Any], Any],
        waits: bool,
    ) -> Any:
        """Return the work of a call.

        Args:
            does: as in :data:`~sccl.enforce.releases.NAMES`.
            describe: reads its arguments.
            carry: lets a group over gloo do it.
            waits: whether who calls waits for it at once.
        """
        if self._recorder is None and self._enforcer is None:
            return self._unplanned(group, does, describe, carry, waits)
        described = describe()
        work: Any = None
        if self._enforcer is not None and described.collective and described.dtype:
            work = self._enforcer.call(group.ranks, described, carry)
        if self._debug:
            self._say(f"{does}: gloo{'' if work is None else ', as planned'}")
        if self._recorder is None:
            return carry(group.inner) if work is None else work
        own = work
        return self._recorder.call(
            group.ranks, described, lambda: carry(group.inner) if own is None else own
        )

    def _unplanned(
        self,
        group: Any,
        does: str,
        describe: Callable[[], Described],
        carry: Callable[[Any], Any],
        waits: bool,
    ) -> Any:
        work: Any = None
        if not group.hosted.refusal:
            own = partial(carry, group.inner)
            work = group.hosted.call(does, describe(), own, waits=waits)
        if self._debug:
            self._say(f"{does}: {'gloo' if work is None else 'bundle'}")
        return carry(group.inner) if work is None else work

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            sys.stderr.write(f"sccl: rank {os.environ.get('RANK', '?')}: {line}\n")


def _script(path: str, ranks: int) -> PlanScript | None:
    """Return the script that the environment names; where it is for another job, say so."""
    if not path:
        return None
    try:
        script = read_script(Path(path))
    except InputError as error:
        why = str(error)
    else:
        if script.ranks == ranks:
            return script
        why = f"the plan is for {script.ranks} ranks, and the job has {ranks}"
    sys.stderr.write(f"sccl: {why}: the job goes on without a plan\n")
    return None


@cache
def session() -> Session:
    """Return that of this process."""
    return Session()
