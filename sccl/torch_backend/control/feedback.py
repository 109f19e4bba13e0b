"""Evaluate the measurements of ranks under a plan, and decide when to plan again.

Source: SYNDICATE (NSDI 2023) section 4.4, Replanning: plan again if waits consistently exceed 5 %
of iterations. The tolerance of claimed periods, the minimal gain of a switch, and the return to the
previous plan are additions.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Annotated

import msgspec
from msgspec import Meta

from sccl.core.files.shapes import NonNegative, Part
from sccl.torch_backend.control.ledger import Ledger
from sccl.training.types.workload_ops import MAX_OP_US

CONSECUTIVE_ITERATIONS = 20
"""Number of consecutive iterations that must support an action."""

MAX_WAIT = 0.05
MAX_DEVIATION = 0.10
MIN_GAIN = 0.03
WARM_UP = 3
"""Number of ignored iterations after a switch."""

_MAX_MOTIFS = 4096
"""Largest number of motif times in a report."""

MotifKey = tuple[str, str, int, int]
"""Collective, option, ranks, and bytes of equal motifs."""

_Us = Annotated[float, Meta(ge=0, le=MAX_OP_US)]


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

    iteration: NonNegative
    version: NonNegative
    period_us: _Us
    waited_us: _Us
    idle_us: _Us = 0.0
    motifs: Annotated[tuple[MotifTime, ...], Meta(max_length=_MAX_MOTIFS)] = ()


class IterationSummary(Part, frozen=True):
    """The last iteration of which all ranks have told."""

    iteration: NonNegative
    version: Annotated[NonNegative, "Version of the active plan; 0: none."]
    period_us: float
    waited: Annotated[float, Meta(ge=0), "Fraction of the time that a rank waited."]


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
        self.motifs: dict[MotifKey, deque[float]] = defaultdict(
            lambda: deque(maxlen=CONSECUTIVE_ITERATIONS)
        )
        self.unread = 0

    def read(self) -> list[IterationSummary]:
        """Return the iterations for which all ranks have reported since the last call.

        Raises:
            StoreError: The store cannot be reached.
        """
        for rank in range(self._ledger.ranks):
            self._since[rank], texts = self._ledger.reports(rank, self._since[rank])
            for text in texts:
                self._accept_report(rank, text)
        keys = sorted(k for k, of in self._open.items() if len(of) == self._ledger.ranks)
        iterations = [_summarize(k, self._open.pop(k).values()) for k in keys]
        for old in [k for k in self._open if keys and k < keys[-1]]:  # one report was missed
            del self._open[old]
        return iterations

    def cost_table(self) -> str:
        """Return the median times of motifs, as a table of costs for ``sccl train plan``."""
        lines = ["collective,option,ranks,bytes,us"]
        for key, times in sorted(self.motifs.items()):
            if "," not in key[0] + key[1] and '"' not in key[0] + key[1]:
                lines.append(",".join(map(str, (*key, round(median(times), 3)))))
        return "\n".join(lines) + "\n"

    def _accept_report(self, rank: int, text: bytes) -> None:
        try:
            report = msgspec.json.decode(text, type=IterationReport)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.unread += 1
            return
        self._open[report.iteration][rank] = report
        for motif in report.motifs:
            key = (motif.collective, motif.option, motif.ranks, motif.size_bytes)
            self.motifs[key].append(motif.us)


def _summarize(iteration: int, reports: Iterable[IterationReport]) -> IterationSummary:
    listed = list(reports)
    return IterationSummary(
        iteration,
        min(report.version for report in listed),
        max(report.period_us for report in listed),
        max(report.waited_us / report.period_us if report.period_us else 0.0 for report in listed),
    )


class ReplanDecision(Enum):
    """The action that measurements suggest."""

    KEEP = "nothing"
    REPLAN = "plan anew"
    ROLL_BACK = "go back to the plan before"


@dataclass(frozen=True, slots=True)
class ReplanAdvice:
    """An action, with its reason as a clause."""

    decision: ReplanDecision
    reason: str = ""


class ReplanPolicy:
    """Suggests actions from consecutive iterations. It uses neither a clock nor a store.

    Attributes:
        measured_us: Median period of the last iterations under this plan. None: too few iterations.
    """

    def __init__(self) -> None:
        self.measured_us: float | None = None
        self._version = 0
        self._claimed_us: float | None = None
        self._before_us: float | None = None
        self._last: deque[IterationSummary] = deque(maxlen=CONSECUTIVE_ITERATIONS)
        self._skip = 0
        self._is_advised = False

    def on_switch(self, version: int, claimed_us: float | None, *, back: bool = False) -> None:
        """Begin with a plan that becomes active at some iteration.

        Args:
            version: Version of the plan.
            claimed_us: Claimed period. None: the plan claims none.
            back: Whether it is a previous plan, which is not compared with the last one.
        """
        self._before_us, self.measured_us = None if back else self.measured_us, None
        self._version, self._claimed_us = version, claimed_us
        self._last.clear()
        self._skip, self._is_advised = WARM_UP, False

    def observe(self, seen: IterationSummary) -> ReplanAdvice:
        """Return the suggested action after an iteration. Each action is suggested once."""
        if seen.version != self._version:
            return ReplanAdvice(ReplanDecision.KEEP)
        if self._skip:
            self._skip -= 1
            return ReplanAdvice(ReplanDecision.KEEP)
        self._last.append(seen)
        if len(self._last) < CONSECUTIVE_ITERATIONS:
            return ReplanAdvice(ReplanDecision.KEEP)
        self.measured_us = median(entry.period_us for entry in self._last)
        if self._is_advised:
            return ReplanAdvice(ReplanDecision.KEEP)
        advice = self._advise(self.measured_us)
        self._is_advised = advice.decision is not ReplanDecision.KEEP
        return advice

    def on_replan(self) -> None:
        """Note that a search for a plan has ended, so that measurements may suggest another one."""
        self._last.clear()
        self._is_advised = False

    def improves(self, predicted_us: float) -> bool:
        """Return whether a plan with this claimed period should be proposed."""
        measured = self.measured_us
        return measured is not None and predicted_us < measured * (1 - MIN_GAIN)

    def _advise(self, measured: float) -> ReplanAdvice:
        if self._before_us is not None and measured >= self._before_us:
            before = self._before_us
            self._before_us = None
            why = f"{measured:.0f} us per iteration, {before:.0f} us with the previous plan"
            return ReplanAdvice(ReplanDecision.ROLL_BACK, why)
        waits = [entry.waited for entry in self._last]
        if min(waits) > MAX_WAIT:
            return ReplanAdvice(
                ReplanDecision.REPLAN,
                f"ranks wait {median(waits):.0%} of an iteration, {CONSECUTIVE_ITERATIONS} in a "
                "row",
            )
        claimed = self._claimed_us
        if claimed and all(
            abs(entry.period_us - claimed) > MAX_DEVIATION * claimed for entry in self._last
        ):
            return ReplanAdvice(
                ReplanDecision.REPLAN,
                f"{measured:.0f} us per iteration, {claimed:.0f} us planned",
            )
        return ReplanAdvice(ReplanDecision.KEEP)


def encode_report(report: IterationReport) -> bytes:
    """Return the encoding of a report in the store."""
    return msgspec.json.encode(report)


def merge_times(times: Iterable[tuple[MotifKey, float]]) -> tuple[MotifTime, ...]:
    """Return the median time of each group of equal motifs, from times in microseconds."""
    grouped: dict[MotifKey, list[float]] = defaultdict(list)
    for key, us in times:
        grouped[key].append(us)
    return tuple(
        MotifTime(collective=c, option=o, ranks=n, size_bytes=b, us=median(us))
        for (c, o, n, b), us in sorted(grouped.items())[:_MAX_MOTIFS]
    )
