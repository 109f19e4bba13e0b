"""What this process does with what its groups are called for, as the environment asks of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

DEBUG = "SCCL_DEBUG"
"""1: say once of each kind of call who serves it."""


class Session:
    """Of a process one, as the order of its calls is one over all of its groups."""

    def __init__(self) -> None:
        self._debug = os.environ.get(DEBUG, "") not in ("", "0")
        self._said: set[str] = set()

    def joined(self, group: Any, store: Any, timeout: timedelta) -> None:
        """Take note of a group that was made."""

    def left(self, group: Any) -> None:
        """Take note of a group that is destroyed."""

    def call(
        self, _group: Any, does: str, _describe: Callable[[], Any], carry: Callable[[], Any]
    ) -> Any:
        """Return the work of a call.

        Args:
            does: as in :data:`~sccl.enforce.releases.NAMES`.
            _describe: reads its arguments.
            carry: lets the group's own gloo do it.
        """
        if self._debug:
            self._say(f"{does}: gloo")
        return carry()

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            sys.stderr.write(f"sccl: rank {os.environ.get('RANK', '?')}: {line}\n")


@cache
def session() -> Session:
    """Return that of this process."""
    return Session()
