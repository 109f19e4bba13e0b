"""Frontiers as plain values of files, and back.

Fields that earlier versions did not write are filled in before a file is read; everything else is
as the published shape has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from sccl.core.candidate import SweepRange
from sccl.core.cost import Costs
from sccl.core.files.bounds import (
    bounds_from_wire,
    bounds_to_wire,
    limits_from_wire,
    limits_to_wire,
)
from sccl.core.files.fields import cost_from_text, seconds_from_wire, seconds_to_wire
from sccl.core.files.frontier_points import (
    open_from_wire,
    open_to_wire,
    point_from_wire,
    point_to_wire,
    refuted_from_wire,
    refuted_to_wire,
)
from sccl.core.files.frontier_shapes import (
    ClassWire,
    FrontierWire,
    QuestionFrontierWire,
    UnsweptWire,
)
from sccl.core.files.legacy_frontiers import fill_missing_fields, legacy_class_frontier
from sccl.core.frontier import (
    ClassFrontier,
    Frontier,
    SkippedClass,
    StepLimitFrontier,
    SweepFrontier,
)
from sccl.core.stop import StopReason
from sccl.errors import FormatError, ParameterError

# --- writing -------------------------------------------------------------------------------------


def frontier_to_plain(frontier: Frontier) -> dict[str, Any]:
    """Return a frontier as plain JSON values, its kind first."""
    text = msgspec.json.encode(_frontier_to_wire(frontier))  # so that lists are lists
    plain: dict[str, Any] = msgspec.json.decode(text)
    halves = {"halves": [frontier_to_plain(half) for half in frontier.halves]}
    return {"schema": 1, "kind": "frontier"} | plain | (halves if frontier.is_multiclass else {})


def _frontier_to_wire(frontier: Frontier) -> FrontierWire:
    """Return the shape of a frontier without its halves."""
    f, of_limits = frontier, not isinstance(frontier, SweepFrontier)
    assert f.costs is not None
    assert f.bounds is not None
    return FrontierWire(
        topology=f.topology,
        collective=f.collective,
        root=f.root,
        **asdict(f.costs),
        **_covered_to_wire(f),
        scope=f.scope,
        bounds=bounds_to_wire(f.bounds),
        complete=f.is_complete,
        every_k=UNSET if of_limits and not f.is_multiclass else f.covers_all_k,
        stopped=str(f.stop_reason),
        seconds=seconds_to_wire(f.seconds),
        points=tuple(
            point_to_wire(p, of_limits=of_limits, among=name, above=f.gap_to_any_class(p))
            for name, p in f.non_dominated
        ),
        limits=() if f.is_multiclass else limits_to_wire(f.classes[0].limits),
        **_candidates_to_wire(f),
        every=limits_to_wire(f.any_class_limits) or UNSET,
        classes=tuple(_class_to_wire(part, f) for part in f.classes) if f.is_multiclass else UNSET,
        unswept=_unswept_to_wire(f) if f.is_multiclass else UNSET,
    )


def _covered_to_wire(frontier: Frontier) -> dict[str, Any]:
    if not isinstance(frontier, SweepFrontier):
        return {}
    return asdict(frontier.covered) | {"solver": frontier.solver}


def _candidates_to_wire(frontier: Frontier) -> dict[str, Any]:
    """Return open and refuted candidates; limits of one class have none."""
    if not isinstance(frontier, SweepFrontier) and not frontier.is_multiclass:
        return {}
    return {
        "open": tuple(map(open_to_wire, frontier.open)),
        "unsat": tuple(map(refuted_to_wire, frontier.refuted)),
    }


def _unswept_to_wire(frontier: Frontier) -> tuple[UnsweptWire, ...]:
    return tuple(UnsweptWire(name=entry.name, why=str(entry.reason)) for entry in frontier.skipped)


def _class_to_wire(part: ClassFrontier, frontier: Frontier) -> ClassWire:
    of_limits = not isinstance(frontier, SweepFrontier)
    return ClassWire(
        name=part.name,
        collective=part.collective or frontier.collective,
        scope=part.scope,
        steps=UNSET if part.steps is None else part.steps,
        bandwidth=UNSET if part.bandwidth is None else str(part.bandwidth),
        complete=part.is_complete,
        every_k=part.covers_all_k,
        seconds=seconds_to_wire(part.seconds),
        limits=limits_to_wire(part.limits),
        points=tuple(point_to_wire(point, of_limits=of_limits) for point in part.points),
    )


# --- reading -------------------------------------------------------------------------------------


def frontiers_from_plain(plain: Mapping[str, Any], where: str) -> tuple[Frontier, ...]:
    """Return the frontier in plain JSON values. In older files, other classes follow it.

    Args:
        where: name in messages.

    Raises:
        FormatError: it is something else.
    """
    try:
        wire = msgspec.convert(fill_missing_fields(plain), FrontierWire)
        return _frontiers_from_wire(wire)
    except (msgspec.ValidationError, ParameterError) as error:
        raise FormatError(
            f"{where}: {error}; expected a frontier as 'sccl pareto --json' prints it"
        ) from error


def _frontiers_from_wire(wire: FrontierWire) -> tuple[Frontier, ...]:
    classes = wire.classes or ()
    covered = _covered_from_wire(wire)
    if any(part.name for part in classes):
        named = (part for part in classes if part.name)
        parts = tuple(_class_from_wire(part, wire.collective, covered) for part in named)
        return (_frontier_from_wire(wire, parts, wire.halves or ()),)
    frontier = _half_from_wire(wire)
    return (
        frontier,
        *(
            legacy_class_frontier(_class_from_wire(part, frontier.collective, None), frontier)
            for part in classes
        ),
    )


def _half_from_wire(wire: QuestionFrontierWire) -> SweepFrontier | StepLimitFrontier:
    """Return the frontier of a question that has one class."""
    covered = _covered_from_wire(wire)
    default = None if wire.every_k is True else covered
    part = ClassFrontier(
        name="",
        scope=wire.scope,
        steps=wire.bounds.steps,
        bandwidth=cost_from_text(wire.bounds.bandwidth),
        points=tuple(point_from_wire(point, covered, default) for point in wire.points),
        limits=limits_from_wire(wire.limits),
        is_complete=wire.complete,
        within=default,
        seconds=seconds_from_wire(wire.seconds),
    )
    return _frontier_from_wire(wire, (part,))


def _class_from_wire(wire: ClassWire, collective: str, covered: SweepRange | None) -> ClassFrontier:
    restricted = covered if wire.every_k is False else None
    return ClassFrontier(
        name=wire.name or "",
        scope=wire.scope,
        steps=wire.steps or None,
        bandwidth=cost_from_text(wire.bandwidth) if wire.bandwidth else None,
        points=tuple(point_from_wire(point, covered, restricted) for point in wire.points),
        limits=limits_from_wire(wire.limits),
        is_complete=wire.complete,
        within=restricted,
        collective="" if wire.collective == collective else wire.collective or "",
        seconds=seconds_from_wire(wire.seconds),
    )


def _frontier_from_wire(
    wire: QuestionFrontierWire,
    classes: tuple[ClassFrontier, ...],
    halves: Sequence[QuestionFrontierWire] = (),
) -> SweepFrontier | StepLimitFrontier:
    covered = _covered_from_wire(wire)
    make: Callable[..., SweepFrontier | StepLimitFrontier] = StepLimitFrontier
    if covered is not None:
        sweeps = (_half_from_wire(half) for half in halves)
        make = partial(
            SweepFrontier,
            covered=covered,
            solver=wire.solver or "",
            open=tuple(map(open_from_wire, wire.open or ())),
            refuted=tuple(map(refuted_from_wire, wire.unsat or ())),
            halves=tuple(half for half in sweeps if isinstance(half, SweepFrontier)),
        )
    costs = None
    if wire.gb_per_s:
        costs = Costs(wire.alpha_us, wire.gb_per_s, wire.slowest_link is True)
    return make(
        topology=wire.topology,
        collective=wire.collective,
        root=wire.root,
        costs=costs,
        bounds=bounds_from_wire(wire.bounds),
        classes=classes,
        skipped=tuple(
            SkippedClass(entry.name, StopReason.parse(entry.why)) for entry in wire.unswept or ()
        ),
        any_class_limits=limits_from_wire(wire.every or ()),
        stop_reason=StopReason.parse(wire.stopped),
        seconds=seconds_from_wire(wire.seconds),
    )


def _covered_from_wire(wire: QuestionFrontierWire) -> SweepRange | None:
    """Return the range of a sweep; None for limits, which are over all k."""
    is_sweep = wire.k is not UNSET or wire.solver is not UNSET
    if not is_sweep and all(point.limit for point in wire.points):
        return None
    k = None if wire.k is UNSET else wire.k
    return SweepRange(k, wire.max_steps or None, wire.max_chunks or None)
