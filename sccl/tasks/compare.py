"""Compare the fastest verified plan of each contender by size, next to a lower bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

from sccl.collectives import Spec
from sccl.core.contradictions import require_not_below
from sccl.core.files.disk import check_can_write, make_directory, slug
from sccl.core.topology import Topology
from sccl.errors import InputError, TopologyError
from sccl.prove.bounds import least_time
from sccl.synth.fluid.curve import LeastCurve, least_curve
from sccl.tasks.entrants import Contest, Entrant, LateError, TimedPlan, What
from sccl.tasks.files import write_plan
from sccl.tasks.subject import Subject, spec_of, subject_of

NOT_REACHED = "not reached"
"""Why somebody has no times, where the user interrupted before."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The time of a contender at a size.

    Attributes:
        plan: Description of the plan.
    """

    size_bytes: int
    us: Fraction
    plan: str

    @property
    def gb_per_s(self) -> float:
        """Return the algorithm bandwidth, size / time in 10^9 bytes per second."""
        return float(self.size_bytes / self.us / 1000) if self.us else 0.0


@dataclass(slots=True)
class System:
    """A contender and its results.

    Attributes:
        seconds: Seconds of its planning.
        rows: Results by size.
        why: Reason why some or all sizes are missing. Empty: none are.
    """

    name: str
    what: What
    about: str
    seconds: float = 0.0
    rows: dict[int, Standing] = field(default_factory=dict)
    why: str = ""


@dataclass(slots=True)
class Comparison:
    """The times of all contenders.

    Attributes:
        least: Lower bound for every chunk count.
        ended: Reason why the comparison ended early. Empty: it did not.
        plans: By size: the fastest plan and its contender.
    """

    contest: Contest
    sizes: tuple[int, ...]
    least: LeastCurve
    systems: list[System] = field(default_factory=list)
    ended: str = ""
    plans: dict[int, tuple[str, TimedPlan]] = field(default_factory=dict)

    def gap(self, row: Standing) -> float | None:
        """Return by which part of the least time a row is above it. None: that is 0."""
        least = self.least.us(row.size_bytes)
        return float(row.us / least - 1) if least else None

    def winner(self, size_bytes: int) -> System | None:
        """Return who is fastest at a size, the first of several. None: nobody has a plan."""
        rows = [system for system in self.systems if size_bytes in system.rows]
        return min(rows, key=lambda system: system.rows[size_bytes].us, default=None)


def compared_subject(machine: Topology, collective: str | Spec, root: str | int | None) -> Subject:
    """Return the compared problem, with links instead of switches if they are exactly equivalent.

    Raises:
        InputError: There is no such collective or root.
    """
    try:
        return subject_of(machine, collective, root)
    except TopologyError as error:
        note = f"compared without changes, by contenders that support such machines: {error}"
        return Subject(machine, spec_of(machine, collective, root), (note,))


def compare(
    contest: Contest,
    entrants: Sequence[Entrant],
    sizes: Sequence[int],
    told: Callable[[str], None] = lambda _: None,
    *,
    times_alone: bool = False,
) -> Comparison:
    """Return the times of all contenders by size, as far as they were computed.

    Args:
        told: Function that receives progress.
        times_alone: Whether only times are needed. Then plans with times are not verified here: the
            sends and their order already are.

    Raises:
        InputError: Some destination cannot be reached, or there are too many ranks.
        JudgeError: A plan fails verification.
        ContradictionError: A plan is faster than the lower bound of its size.
    """
    cuts = least_time(contest.topology, contest.spec, contest.model)
    found = Comparison(contest, tuple(sizes), LeastCurve(cuts))
    found.systems = [System(one.name, one.what, one.about, why=NOT_REACHED) for one in entrants]
    pairs = zip(entrants, found.systems, strict=True)
    try:
        told("the lower bound")
        found.least = least_curve(contest.topology, contest.spec, cuts, found.sizes)
        for done, (entrant, system) in enumerate(sorted(pairs, key=_quick_first)):
            system.why = ""
            _run(
                entrant,
                system,
                found,
                judged=not times_alone,
                told=partial(_tell, told, f"{done} of {len(entrants)} done"),
            )
    except KeyboardInterrupt:
        found.ended = "interrupted"
    _require_consistent(found)
    return found


def _require_consistent(found: Comparison) -> None:
    """Check that no plan takes less than the lower bound of its size.

    Raises:
        ContradictionError: one does.
    """
    for system in found.systems:
        for row in system.rows.values():
            require_not_below(
                row.us,
                found.least.us(row.size_bytes),
                result=f"the completion time of {system.name} at {row.size_bytes} bytes",
                limit=f"the lower bound on it (by {found.least.shown_by(row.size_bytes)})",
                unit="us",
            )


def _quick_first(pair: tuple[Entrant, System]) -> int:
    """Return a sort key: fast contenders first, so that an interrupt loses little."""
    return ("file", "baseline", "synthesiser").index(pair[0].what)


def _tell(told: Callable[[str], None], before: str, text: str) -> None:
    told(f"{before}; {text}")


def _run(
    entrant: Entrant,
    system: System,
    found: Comparison,
    told: Callable[[str], None],
    *,
    judged: bool,
) -> None:
    """Add the times of a contender."""
    try:
        for done, size in enumerate(found.sizes):
            told(f"{entrant.name}, {done} of {len(found.sizes)} sizes")
            fastest = entrant.fastest(size)
            if fastest is not None:
                timed = fastest.valid(f"{entrant.name!r}") if judged else fastest
                _add(timed, size, system, found)
    except (InputError, LateError) as error:
        system.why = str(error)
    except KeyboardInterrupt:
        system.why = "interrupted"
        raise
    finally:
        system.seconds = entrant.seconds
        for size, us in entrant.proved.items():
            found.least = found.least.raised(size, us)
    if not system.rows and not system.why:
        system.why = _nothing(entrant)


def _nothing(entrant: Entrant) -> str:
    if entrant.what == "file":
        return "it is a schedule of another size, and its times are for that alone"
    return "it returned no algorithm that can be written"


def _add(timed: TimedPlan, size: int, system: System, found: Comparison) -> None:
    """Add a plan, and keep it where it is the fastest so far."""
    system.rows[size] = Standing(size, timed.us, timed.about)
    if found.winner(size) is system:
        found.plans[size] = (system.name, timed)


def prepare(directory: Path) -> None:
    """Make a folder for the fastest plans.

    Raises:
        InputError: it cannot be made.
    """
    make_directory(directory)
    check_can_write(directory / "probe")


def write_fastest(directory: Path, found: Comparison) -> dict[int, Path]:
    """Write the fastest plan of each size, and return the files.

    Raises:
        InputError: one cannot be written.
    """
    files: dict[int, Path] = {}
    contest = found.contest
    for size, (name, timed) in sorted(found.plans.items()):
        words = f"{contest.spec.name} {contest.topology.name} {size} {Path(name).stem}"
        files[size] = directory / f"{slug(words)}.json"
        write_plan(files[size], timed.schedule)
    return files
