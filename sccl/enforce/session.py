"""What this process does with what its groups are called for, as the environment asks of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from sccl.enforce.described import Described
from sccl.enforce.recorder import Recorder

DEBUG = "SCCL_DEBUG"
"""1: say once of each kind of call who serves it."""

RECORD = "SCCL_RECORD"
"""A folder, into which every rank writes what it did."""


class Session:
    """Of a process one, as the order of its calls is one over all of its groups."""

    def __init__(self) -> None:
        self._debug = os.environ.get(DEBUG, "") not in ("", "0")
        self._said: set[str] = set()
        self._recorder: Recorder | None = None
        self._first: Any = None

    def joined(self, group: Any, _store: Any, _timeout: timedelta) -> None:
        """Take note of a group that was made: the first is that of all ranks."""
        if self._first is not None:
            return
        self._first = group
        folder = os.environ.get(RECORD, "")
        if folder and self._recorder is None:
            self._recorder = Recorder(Path(folder), group.rank(), group.size())

    def left(self, group: Any) -> None:
        """Take note of a group that is destroyed."""
        if group is self._first:
            self._first = None
            if self._recorder is not None:
                self._recorder.write()

    def step(self) -> None:
        """Take note that a step begins."""
        if self._recorder is not None:
            self._recorder.mark("step")

    def call(
        self, group: Any, does: str, describe: Callable[[], Described], carry: Callable[[], Any]
    ) -> Any:
        """Return the work of a call.

        Args:
            does: as in :data:`~sccl.enforce.releases.NAMES`.
            describe: reads its arguments.
            carry: lets the group's own gloo do it.
        """
        if self._debug:
            self._say(f"{does}: gloo")
        if self._recorder is not None:
            return self._recorder.call(group.ranks, describe(), carry)
        return carry()

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            sys.stderr.write(f"sccl: rank {os.environ.get('RANK', '?')}: {line}\n")


@cache
def session() -> Session:
    """Return that of this process."""
    return Session()
