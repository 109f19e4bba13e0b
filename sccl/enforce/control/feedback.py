"""Evaluate the measurements of ranks under a plan, and decide when to plan again.

Source: SYNDICATE (NSDI 2023) section 4.4, Replanning: plan again if waits consistently add up to
more than 5 % of iterations. Tolerances for claims, the minimal gain of a switch, and the return to
the previous plan are additions.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Annotated

import msgspec
from msgspec import Meta

from sccl.core.workload_ops import MOST_US
from sccl.enforce.control.ledger import Ledger

IN_A_ROW = 20
"""Iterations that have to agree."""

MOST_WAIT = 0.05
MOST_OFF = 0.10
LEAST_GAIN = 0.03
WARM_UP = 3
"""Iterations after a switch that do not count."""

_Us = Annotated[float, Meta(ge=0, le=MOST_US)]


class MotifTime(msgspec.Struct, frozen=True, kw_only=True):
    """The time of equal motifs on a rank: a row of a table of costs."""

    collective: Annotated[str, Meta(max_length=40)]
    option: Annotated[str, Meta(max_length=120)]
    ranks: Annotated[int, Meta(ge=1, le=1 << 16)]
    size_bytes: Annotated[int, Meta(ge=1)]
    us: _Us


class IterationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of a rank in an iteration.

    Attributes:
        waited_us: Time in which nothing was sent because the head of the order was missing.
        idle_us: Time in which nothing was sent, for this reason or because nothing was submitted.
    """

    iteration: Annotated[int, Meta(ge=0)]
    version: Annotated[int, Meta(ge=0)]
    period_us: _Us
    waited_us: _Us
    idle_us: _Us = 0.0
    motifs: Annotated[tuple[MotifTime, ...], Meta(max_length=4096)] = ()


@dataclass(frozen=True, slots=True)
class IterationSeen:
    """An iteration of all ranks.

    Attributes:
        period_us: the longest of them.
        waited: the largest part that one of them waited.
    """

    iteration: int
    version: int
    period_us: float
    waited: float


class FeedbackReader:
    """Reads the reports of ranks, and ignores unreadable ones.

    Attributes:
        motifs: Latest times of motifs, by collective, option, ranks, and bytes.
        unread: Number of unreadable reports.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._since = [0] * ledger.ranks
        self._open: dict[int, dict[int, IterationReport]] = defaultdict(dict)
        self.motifs: dict[tuple[str, str, int, int], deque[float]] = defaultdict(
            lambda: deque(maxlen=IN_A_ROW)
        )
        self.unread = 0

    def read(self) -> list[IterationSeen]:
        """Return the iterations of which all ranks have told since the last time.

        Raises:
            StoreError: the store cannot be reached.
        """
        for rank in range(self._ledger.ranks):
            self._since[rank], texts = self._ledger.reports(rank, self._since[rank])
            for text in texts:
                self._take(rank, text)
        whole = sorted(k for k, of in self._open.items() if len(of) == self._ledger.ranks)
        found = [_seen(k, self._open.pop(k).values()) for k in whole]
        for old in [k for k in self._open if whole and k < whole[-1]]:  # one report was missed
            del self._open[old]
        return found

    def costs(self) -> str:
        """Return the median times of motifs, as a table of costs for ``sccl plan``."""
        lines = ["collective,option,ranks,bytes,us"]
        for key, times in sorted(self.motifs.items()):
            if "," not in key[0] + key[1] and '"' not in key[0] + key[1]:
                lines.append(",".join(map(str, (*key, round(median(times), 3)))))
        return "\n".join(lines) + "\n"

    def _take(self, rank: int, text: bytes) -> None:
        try:
            report = msgspec.json.decode(text, type=IterationReport)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.unread += 1
            return
        self._open[report.iteration][rank] = report
        for one in report.motifs:
            key = (one.collective, one.option, one.ranks, one.size_bytes)
            self.motifs[key].append(one.us)


def _seen(iteration: int, reports: Iterable[IterationReport]) -> IterationSeen:
    told = list(reports)
    return IterationSeen(
        iteration,
        min(one.version for one in told),
        max(one.period_us for one in told),
        max(one.waited_us / one.period_us if one.period_us else 0.0 for one in told),
    )


class Wish(Enum):
    """The action that measurements call for."""

    NOTHING = "nothing"
    PLAN = "plan anew"
    BACK = "go back to the plan before"


@dataclass(frozen=True, slots=True)
class Advice:
    """An action, with its reason as a clause."""

    wish: Wish
    why: str = ""


class Replanning:
    """Decides by iterations, one after the other. It knows no clock and no store.

    Attributes:
        measured_us: the last median period under this plan. None: too few iterations were seen.
    """

    def __init__(self) -> None:
        self.measured_us: float | None = None
        self._version = 0
        self._claimed_us: float | None = None
        self._before_us: float | None = None
        self._last: deque[IterationSeen] = deque(maxlen=IN_A_ROW)
        self._skip = 0
        self._told = False

    def switched(self, version: int, claimed_us: float | None, *, back: bool = False) -> None:
        """Take note of a plan that will be active from some iteration on.

        Args:
            claimed_us: the period that it claims. None: it claims none.
            back: whether it is one from before, which is not measured against the last.
        """
        self._before_us, self.measured_us = None if back else self.measured_us, None
        self._version, self._claimed_us = version, claimed_us
        self._last.clear()
        self._skip, self._told = WARM_UP, False

    def saw(self, seen: IterationSeen) -> Advice:
        """Return the action after an iteration. Each action is advised once."""
        if seen.version != self._version:
            return Advice(Wish.NOTHING)
        if self._skip:
            self._skip -= 1
            return Advice(Wish.NOTHING)
        self._last.append(seen)
        if len(self._last) < IN_A_ROW:
            return Advice(Wish.NOTHING)
        self.measured_us = median(one.period_us for one in self._last)
        if self._told:
            return Advice(Wish.NOTHING)
        advice = self._advice(self.measured_us)
        self._told = advice.wish is not Wish.NOTHING
        return advice

    def planned(self) -> None:
        """Take note that a plan was looked for: measurements may call for it again."""
        self._last.clear()
        self._told = False

    def worth(self, predicted_us: float) -> bool:
        """Return whether a plan that claims a period is to be proposed."""
        measured = self.measured_us
        return measured is not None and predicted_us < measured * (1 - LEAST_GAIN)

    def _advice(self, measured: float) -> Advice:
        if self._before_us is not None and measured >= self._before_us:
            before = self._before_us
            self._before_us = None
            why = f"{measured:.0f} us an iteration, and {before:.0f} us under the plan before"
            return Advice(Wish.BACK, why)
        waits = [one.waited for one in self._last]
        if min(waits) > MOST_WAIT:
            return Advice(
                Wish.PLAN, f"ranks wait {median(waits):.0%} of an iteration, {IN_A_ROW} in a row"
            )
        claimed = self._claimed_us
        if claimed and all(abs(one.period_us - claimed) > MOST_OFF * claimed for one in self._last):
            return Advice(
                Wish.PLAN, f"{measured:.0f} us an iteration, and {claimed:.0f} us are claimed"
            )
        return Advice(Wish.NOTHING)


def encoded(report: IterationReport) -> bytes:
    """Return a report as ranks write it."""
    return msgspec.json.encode(report)


def merged(times: Sequence[MotifTime], most: int = 4096) -> tuple[MotifTime, ...]:
    """Return the times of motifs that are alike as one each, their median."""
    grouped: Mapping[tuple[str, str, int, int], list[float]] = defaultdict(list)
    for one in times:
        grouped[one.collective, one.option, one.ranks, one.size_bytes].append(one.us)
    return tuple(
        MotifTime(collective=c, option=o, ranks=n, size_bytes=b, us=median(us))
        for (c, o, n, b), us in sorted(grouped.items())[:most]
    )
