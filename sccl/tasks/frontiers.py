"""Frontiers read back from JSON, as charts and the explorer want them; and frontiers of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec

from sccl.core.algorithm import Algorithm
from sccl.core.cost import Costs
from sccl.core.files import read_text
from sccl.core.words import counted, proved_for
from sccl.errors import FormatError
from sccl.pareto import completeness, within
from sccl.view import CostPoint, FrontierData
from sccl.view.shown import Candidate, Sweep

_Steps = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_NOT_THE_END = "Not the end: more steps may give a smaller R/C."
_Cost = Annotated[str, msgspec.Meta(pattern=r"^[1-9][0-9]{0,14}(/[1-9][0-9]{0,14})?$")]


class _Bounds(msgspec.Struct):
    steps: _Steps
    bandwidth: _Cost
    scope: str = ""


class _Limit(msgspec.Struct):
    steps: _Steps
    lower: _Cost


class _Candidate(msgspec.Struct):
    steps: _Steps
    bandwidth_cost: _Cost
    chunks: int
    rounds: int
    reason: str = ""
    evidence: str = ""


class _Point(msgspec.Struct):
    steps: _Steps
    proved: bool
    every_k: bool | None = None
    bandwidth_cost: _Cost | None = None
    limit: _Cost | None = None
    attained: bool = True
    optimal: tuple[str, ...] = ()
    file: str | None = None
    chunks: int | None = None
    rounds: int | None = None


class _Class(msgspec.Struct):
    """A class of algorithms beyond that of a limit frontier."""

    points: tuple[_Point, ...]
    limits: tuple[_Limit, ...]
    scope: str
    complete: bool = False
    collective: str = ""
    bandwidth: _Cost | None = None


class _Frontier(msgspec.Struct):
    topology: str
    collective: str
    bounds: _Bounds
    points: tuple[_Point, ...]
    complete: bool = False
    every_k: bool = False
    k: int | None = None
    max_chunks: int | None = None
    stopped: str = ""
    limits: tuple[_Limit, ...] = ()
    open: tuple[_Candidate, ...] = ()
    unsat: tuple[_Candidate, ...] = ()
    classes: tuple[_Class, ...] = ()
    root: int | None = None
    alpha_us: float | None = None
    gb_per_s: float | None = None
    slowest_link: bool = False


@dataclass(frozen=True, slots=True)
class Known:
    """A frontier that was read.

    Attributes:
        name: the question.
        charts: for charts; that of the sweep, then those of other classes.
        sweeps: for the explorer, what is said beside the points; likewise.
    """

    name: str
    charts: tuple[FrontierData, ...]
    sweeps: tuple[Sweep, ...]


def read_frontier(file: Path) -> Known:
    """Return the frontier in a file that ``sccl pareto --out`` or ``--json`` wrote.

    Raises:
        InputError: it cannot be read, or is something else.
    """
    text = read_text(file)
    try:
        plain = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FormatError(f"{file}: not JSON ({error})") from error
    return known(plain, str(file))


def known(plain: Mapping[str, Any], where: str) -> Known:
    """Return the frontier of what ``sccl pareto --json`` prints.

    Args:
        where: what to call it in a message.

    Raises:
        FormatError: it is something else.
    """
    try:
        found = msgspec.convert(plain, _Frontier)
    except msgspec.ValidationError as error:
        raise FormatError(
            f"{where}: {error}; expected a frontier as 'sccl pareto --json' prints it"
        ) from error
    sweep = Sweep(
        found.topology,
        found.collective,
        found.root,
        tuple(Candidate(c.chunks, c.steps, c.rounds, c.evidence) for c in found.unsat),
        tuple(Candidate(c.chunks, c.steps, c.rounds, c.reason) for c in found.open),
        _limits(found.limits),
        _summary(found),
        files=_files(found.points),
        restricted=_restricted(found),
        approached=_approached(found.points),
    )
    name = _name(found.collective, found.topology, found.root)
    return Known(
        name, _charts(found, name), (sweep, *(_sweep_of(found, one) for one in found.classes))
    )


def _sweep_of(found: _Frontier, one: _Class) -> Sweep:
    """Return what a limit frontier says of another class: of its own collective, or another's."""
    other = one.collective not in ("", found.collective)
    first = one.points[0] if one.points else None
    known = first is not None and "latency" in first.optimal and one.bandwidth is not None
    return Sweep(
        found.topology,
        one.collective or found.collective,
        found.root,
        (),
        (),
        _limits(one.limits),
        completeness("") if one.complete else _NOT_THE_END,
        None if other else one.scope,
        (first.steps, Fraction(one.bandwidth or 0)) if first and known else None,
        _files(one.points),
        _approached(one.points),
    )


def _restricted(found: _Frontier) -> tuple[tuple[str, str], ...]:
    """Return the files of points that are proved for some k or C only, and what is said of them."""
    each = ((point.file, _within(found, point)) for point in found.points if point.proved)
    return tuple((Path(file).name, proved_for(words)) for file, words in each if file and words)


def _files(points: Sequence[_Point]) -> tuple[str, ...]:
    return tuple(Path(point.file).name for point in points if point.file)


def _approached(points: Sequence[_Point]) -> tuple[tuple[int, Fraction], ...]:
    return tuple((p.steps, Fraction(p.limit)) for p in points if p.limit and not p.attained)


def _charts(found: _Frontier, name: str) -> tuple[FrontierData, ...]:
    over_every_k = any(point.limit for point in found.points)
    first = FrontierData(
        name=f"{name}, limits" if over_every_k else name,  # beside the sweep of one k
        points=tuple(_point(p, _within(found, p)) for p in found.points),
        min_steps=found.bounds.steps,
        bandwidth=Fraction(found.bounds.bandwidth),
        limits=_limits(found.limits),
        refuted=tuple((c.steps, Fraction(c.bandwidth_cost)) for c in found.unsat),
        open=tuple((c.steps, Fraction(c.bandwidth_cost)) for c in found.open),
        scope=found.bounds.scope,
        alpha_us=found.alpha_us,
        gb_per_s=found.gb_per_s,
        slowest_link=found.slowest_link,
    )
    others = (
        FrontierData(
            name=f"{name}, {one.scope}",
            points=tuple(_point(p, "") for p in one.points),
            limits=_limits(one.limits),
            scope=one.scope,
            alpha_us=found.alpha_us,
            gb_per_s=found.gb_per_s,
            slowest_link=found.slowest_link,
        )
        for one in found.classes
    )
    return (first, *others)


def _name(collective: str, topology: str, root: int | None) -> str:
    return f"{collective}{f' (root {root})' if root else ''} on {topology}"


def _limits(limits: Sequence[_Limit]) -> tuple[tuple[int, Fraction], ...]:
    return tuple((x.steps, Fraction(x.lower)) for x in limits)


def _within(found: _Frontier, point: _Point) -> str:
    """Return what the proof of a point is restricted to; empty: it is for every k and C."""
    any_k = found.every_k if point.every_k is None else point.every_k
    return "" if any_k or point.limit else within(found.k, found.max_chunks)


def _point(point: _Point, within: str) -> CostPoint:
    cost = Fraction(point.limit or point.bandwidth_cost or "0")
    if not point.proved:
        return CostPoint(point.steps, cost, point.chunks, point.rounds, "best found")
    if not point.attained:
        return CostPoint(point.steps, cost, None, None, "approached")
    return CostPoint(point.steps, cost, point.chunks, point.rounds, "proved", within)


def _summary(found: _Frontier) -> str:
    """Return how far a frontier is known, in a sentence."""
    if found.stopped == "interrupted":
        return "Interrupted: this is the part that was found."
    if found.complete:
        over_all = found.every_k or any(point.limit for point in found.points)
        return completeness("" if over_all else within(found.k, found.max_chunks))
    if found.open:
        return f"{counted(len(found.open), 'candidate')} open: each may hide a better algorithm."
    return _NOT_THE_END


def of_folder(frontiers: Iterable[Path], algorithms: Iterable[Algorithm]) -> list[FrontierData]:
    """Return the frontiers of a folder: as they were written, else as its algorithms make them.

    Of one question a sweep's frontier goes before its limits: the algorithms are that one's.
    """
    found: dict[str, list[FrontierData]] = {}
    for file in sorted(frontiers, key=lambda file: (file.stem.endswith("-limits"), file)):
        read = read_frontier(file)
        found.setdefault(read.name, list(read.charts))
    for one in of_algorithms(list(algorithms)):
        found.setdefault(one.name, [one])
    return [one for _, charts in sorted(found.items()) for one in charts]


def of_algorithms(algorithms: Sequence[Algorithm]) -> list[FrontierData]:
    """Return a frontier per collective and topology; what bounds are met, the algorithms say.

    Machines of one name whose lanes are not equally fast are told apart: their R/C do not compare.
    """
    groups: dict[tuple[str, float], list[Algorithm]] = {}
    for a in sorted(algorithms, key=lambda a: (a.steps, a.bandwidth_cost)):
        name = _name(a.collective.name, a.topology.name, a.collective.root)
        groups.setdefault((name, Costs.of(a.topology).gb_per_s), []).append(a)
    found = []
    for (name, _), group in sorted(groups.items(), key=itemgetter(0)):
        best: list[Algorithm] = []  # without those that others dominate
        for a in group:
            if not best or a.bandwidth_cost < best[-1].bandwidth_cost:
                best.append(a)
        met = {word: a for a in best for word in a.proved}
        steps, bandwidth = met.get("latency"), met.get("bandwidth")
        found.append(
            FrontierData(
                name=name,
                points=tuple(map(_point_of, best)),
                min_steps=steps.steps if steps else None,
                bandwidth=bandwidth.bandwidth_cost if bandwidth else None,
                **asdict(Costs.of(group[0].topology)),
            )
        )
    return found


def _point_of(a: Algorithm) -> CostPoint:
    proved = "pareto" in a.proved
    return CostPoint(
        a.steps,
        a.bandwidth_cost,
        a.collective.chunks,
        a.rounds,
        "proved" if proved else "best found",
    )
