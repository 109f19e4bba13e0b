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
from sccl.core.candidate import Range
from sccl.core.cost import Costs
from sccl.core.files.disk import read_text
from sccl.core.words import counted, proved_for
from sccl.errors import FormatError
from sccl.synth.frontier import completeness
from sccl.view import CostPoint, FrontierData
from sccl.view.shown import Candidate, ShownClass, Sweep
from sccl.view.text.classes import state_of_class, unswept_words

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
    """A class of algorithms; without a name: beyond that of an older limit frontier."""

    points: tuple[_Point, ...]
    limits: tuple[_Limit, ...]
    scope: str
    name: str = msgspec.field(name="class", default="")
    steps: int | None = None
    complete: bool = False
    every_k: bool = True
    collective: str = ""
    bandwidth: _Cost | None = None


class _Unswept(msgspec.Struct):
    name: str = msgspec.field(name="class")
    why: str


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
    unswept: tuple[_Unswept, ...] = ()
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
        also: other questions whose algorithms some class of it runs.
    """

    name: str
    charts: tuple[FrontierData, ...]
    sweeps: tuple[Sweep, ...]
    also: tuple[str, ...] = ()


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
    named = tuple(one for one in found.classes if one.name)
    parts: tuple[_Class | _Frontier, ...] = named or (found,)
    sweep = Sweep(
        found.topology,
        found.collective,
        found.root,
        tuple(Candidate(c.chunks, c.steps, c.rounds, c.evidence) for c in found.unsat),
        tuple(Candidate(c.chunks, c.steps, c.rounds, c.reason) for c in found.open),
        _limits(found.limits),
        _summary(found),
        files=_files(p for part in parts for p in part.points),
        restricted=_restricted(found, parts),
        approached=() if named else _approached(found.points),
        classes=tuple(_shown_class(found, one) for one in named),
    )
    name = _name(found.collective, found.topology, found.root)
    older = (_sweep_of(found, one) for one in found.classes if not one.name)
    charts = tuple(_chart_of_class(found, name, one) for one in named) or _charts(found, name)
    also = {one.collective for one in named} - {"", found.collective}
    others = tuple(_name(one, found.topology, None) for one in sorted(also))
    return Known(name, charts, (sweep, *older), others)


def _shown_class(found: _Frontier, one: _Class) -> ShownClass:
    return ShownClass(
        one.name,
        one.scope,
        _files(one.points),
        _limits(one.limits),
        _approached(one.points),
        state_of_class(one.complete, "" if one.every_k else _searched(found)),
    )


def _chart_of_class(found: _Frontier, name: str, one: _Class) -> FrontierData:
    """Return the chart of one class of several: bounds are those of all algorithms."""
    return FrontierData(
        name=f"{name}, {one.name}",
        points=tuple(_point(p, _within(found, p)) for p in one.points),
        min_steps=found.bounds.steps,
        bandwidth=Fraction(found.bounds.bandwidth),
        limits=_limits(one.limits),
        scope=one.scope,
        question=name,
        of_class=one.name,
        alpha_us=found.alpha_us,
        gb_per_s=found.gb_per_s,
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


def _restricted(
    found: _Frontier, parts: Iterable[_Class | _Frontier]
) -> tuple[tuple[str, str], ...]:
    """Return the files of points that are proved for some k or C only, and what is said of them."""
    points = (point for part in parts for point in part.points if point.proved)
    each = ((point.file, _within(found, point)) for point in points)
    return tuple((Path(file).name, proved_for(words)) for file, words in each if file and words)


def _files(points: Iterable[_Point]) -> tuple[str, ...]:
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


def _searched(found: _Frontier) -> str:
    return Range(found.k, None, found.max_chunks).words


def _within(found: _Frontier, point: _Point) -> str:
    """Return what the proof of a point is restricted to; empty: it is for every k and C."""
    any_k = found.every_k if point.every_k is None else point.every_k
    return "" if any_k or point.limit else _searched(found)


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
    if any(one.name for one in found.classes):
        unswept = [(one.name, one.why) for one in found.unswept]
        words = (_class_words(found, one) for one in found.classes)
        return " ".join([*words, *([unswept_words(unswept)] if unswept else [])])
    if found.complete:
        over_all = found.every_k or any(point.limit for point in found.points)
        return completeness("" if over_all else _searched(found))
    if found.open:
        return f"{counted(len(found.open), 'candidate')} open: each may hide a better algorithm."
    return _NOT_THE_END


def _class_words(found: _Frontier, one: _Class) -> str:
    words = "" if one.every_k else _searched(found)
    state = state_of_class(one.complete, words)
    return f"{one.name.capitalize()}: {state.split(':')[0].rstrip('.').lower()}."


def of_folder(frontiers: Iterable[Path], algorithms: Iterable[Algorithm]) -> list[FrontierData]:
    """Return the frontiers of a folder: as they were written, else as its algorithms make them.

    Of one question a sweep's frontier goes before its limits: the algorithms are that one's.
    """
    found: dict[str, list[FrontierData]] = {}
    also: set[str] = set()
    for file in sorted(frontiers, key=lambda file: (file.stem.endswith("-limits"), file)):
        read = read_frontier(file)
        found.setdefault(read.name, list(read.charts))
        also.update(read.also)
    for one in of_algorithms(list(algorithms)):
        if one.name not in also:
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
