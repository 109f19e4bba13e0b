"""Where the host waits for what is not issued: all ranks agree on a cut, or go on.

A rank that stands before its next call says so in the job's store, with how many calls it has made.
When all ranks have said the same number, that is a cut: the last of them writes so. A rank that
makes a further call after all writes first that they go on. Whoever is first, wins, for all: so
they never decide differently, and no clock decides.
"""

from __future__ import annotations

from typing import Any

CUT, ON = "cut", "on"
_SHOWN = 8


class Stalls:
    """What this rank has said.

    Attributes:
        at: after how many calls it stands still; None: it does not.
    """

    def __init__(self, store: Any, rank: int, ranks: int) -> None:
        self._store, self._rank, self._ranks = store, rank, ranks
        self.at: int | None = None

    def tell(self, calls: int) -> None:
        """Say that this rank stands still after some calls; once for each number."""
        if self.at == calls:
            return
        self.at = calls
        self._store.set(f"stalled/{calls}/{self._rank}", "1")
        if self._store.add(f"stalled/{calls}", 1) == self._ranks:
            self._decide(calls, CUT)

    def decided(self) -> str:
        """Return what was decided of where this rank stands; empty: nothing yet."""
        key = f"decided/{self.at}"
        return str(self._store.get(key).decode()) if self._store.check([key]) else ""

    def go_on(self) -> str:
        """Return what is decided, as this rank is about to call again: to go on, if it can."""
        assert self.at is not None
        found = self._decide(self.at, ON)
        self.at = None
        return found

    def _decide(self, calls: int, what: str) -> str:
        return str(self._store.compare_set(f"decided/{calls}", "", what).decode())

    def others(self) -> str:
        """Return for whom it waits, in words."""
        keys = {rank: f"stalled/{self.at}/{rank}" for rank in range(self._ranks)}
        moving = [str(rank) for rank, key in keys.items() if not self._store.check([key])]
        shown = ", ".join(moving[:_SHOWN]) + (", ..." if len(moving) > _SHOWN else "")
        return f"ranks {shown} have not come as far" if moving else "all ranks stand there"
