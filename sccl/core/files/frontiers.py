"""Frontiers as plain values of files, and back.

Fields that earlier versions did not write are filled in before a file is read; everything else is
as the published shape has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import msgspec
from msgspec import UNSET

from sccl.core.answer import Origin
from sccl.core.candidate import Range
from sccl.core.cost import Costs
from sccl.core.files.bounds import bounds_of_wire, bounds_to_wire, limits_of_wire, limits_to_wire
from sccl.core.files.fields import cost_of_text, seconds_of_wire, seconds_to_wire
from sccl.core.files.frontier_shapes import ClassWire, FoundWire, FrontierWire, UnsweptWire
from sccl.core.files.older_frontiers import completed, older_class
from sccl.core.files.points import (
    candidate_of_wire,
    open_to_wire,
    origin_of_text,
    point_of_wire,
    point_to_wire,
    refuted_to_wire,
)
from sccl.core.frontier import ClassFrontier, Frontier, Open, Refuted, Unswept
from sccl.errors import FormatError, ParameterError

# --- writing -------------------------------------------------------------------------------------


def frontier_to_plain(frontier: Frontier) -> dict[str, Any]:
    """Return a frontier as plain JSON values, its kind first."""
    text = msgspec.json.encode(_frontier_to_wire(frontier))  # so that lists are lists
    found: dict[str, Any] = msgspec.json.decode(text)
    halves = {"halves": [frontier_to_plain(half) for half in frontier.halves]}
    return {"schema": 1, "kind": "frontier"} | found | (halves if frontier.several else {})


def _frontier_to_wire(frontier: Frontier) -> FrontierWire:
    """Return the shape of a frontier without its halves."""
    f, of_limits = frontier, frontier.covered is None
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
        complete=f.complete,
        every_k=UNSET if of_limits and not f.several else f.every_k,
        stopped=f.stopped,
        seconds=seconds_to_wire(f.seconds),
        points=tuple(
            point_to_wire(p, of_limits=of_limits, among=name, above=f.above_every(p))
            for name, p in f.stairs
        ),
        limits=() if f.several else limits_to_wire(f.classes[0].limits),
        **_candidates_to_wire(f),
        every=limits_to_wire(f.every) or UNSET,
        classes=tuple(_class_to_wire(one, f) for one in f.classes) if f.several else UNSET,
        unswept=_unswept_to_wire(f) if f.several else UNSET,
    )


def _covered_to_wire(frontier: Frontier) -> dict[str, Any]:
    covered = frontier.covered
    return {} if covered is None else asdict(covered) | {"solver": frontier.solver}


def _candidates_to_wire(frontier: Frontier) -> dict[str, Any]:
    """Return open and refuted candidates; limits of one class have none."""
    if frontier.covered is None and not frontier.several:
        return {}
    return {
        "open": tuple(map(open_to_wire, frontier.open)),
        "unsat": tuple(map(refuted_to_wire, frontier.refuted)),
    }


def _unswept_to_wire(frontier: Frontier) -> tuple[UnsweptWire, ...]:
    return tuple(UnsweptWire(name=one.name, why=one.why) for one in frontier.unswept)


def _class_to_wire(one: ClassFrontier, frontier: Frontier) -> ClassWire:
    of_limits = frontier.covered is None
    return ClassWire(
        name=one.name,
        collective=one.collective or frontier.collective,
        scope=one.scope,
        steps=UNSET if one.steps is None else one.steps,
        bandwidth=UNSET if one.bandwidth is None else str(one.bandwidth),
        complete=one.complete,
        every_k=one.every_k,
        seconds=seconds_to_wire(one.seconds),
        limits=limits_to_wire(one.limits),
        points=tuple(point_to_wire(point, of_limits=of_limits) for point in one.points),
    )


# --- reading -------------------------------------------------------------------------------------


def frontiers_of_plain(plain: Mapping[str, Any], where: str) -> tuple[Frontier, ...]:
    """Return the frontier in plain JSON values. In older files, other classes follow it.

    Args:
        where: name in messages.

    Raises:
        FormatError: it is something else.
    """
    try:
        wire = msgspec.convert(completed(plain), FrontierWire)
        return _frontiers_of_wire(wire)
    except (msgspec.ValidationError, ParameterError) as error:
        raise FormatError(
            f"{where}: {error}; expected a frontier as 'sccl pareto --json' prints it"
        ) from error


def _frontiers_of_wire(wire: FrontierWire) -> tuple[Frontier, ...]:
    classes = wire.classes or ()
    covered = _covered_of_wire(wire)
    if any(one.name for one in classes):
        named = (one for one in classes if one.name)
        parts = tuple(_class_of_wire(one, wire.collective, covered) for one in named)
        halves = tuple(_half_of_wire(half) for half in wire.halves or ())
        return (replace(_frontier_of_wire(wire, parts), halves=halves),)
    own = _half_of_wire(wire)
    return (own, *(older_class(_class_of_wire(one, own.collective, None), own) for one in classes))


def _half_of_wire(wire: FoundWire) -> Frontier:
    """Return the frontier of a question that has one class."""
    covered = _covered_of_wire(wire)
    default = None if wire.every_k is True else covered
    own = ClassFrontier(
        name="",
        scope=wire.scope,
        steps=wire.bounds.steps,
        bandwidth=cost_of_text(wire.bounds.bandwidth),
        points=tuple(point_of_wire(point, covered, default) for point in wire.points),
        limits=limits_of_wire(wire.limits),
        complete=wire.complete,
        within=default,
        seconds=seconds_of_wire(wire.seconds),
    )
    return _frontier_of_wire(wire, (own,))


def _class_of_wire(one: ClassWire, collective: str, covered: Range | None) -> ClassFrontier:
    restricted = covered if one.every_k is False else None
    return ClassFrontier(
        name=one.name or "",
        scope=one.scope,
        steps=one.steps or None,
        bandwidth=cost_of_text(one.bandwidth) if one.bandwidth else None,
        points=tuple(point_of_wire(point, covered, restricted) for point in one.points),
        limits=limits_of_wire(one.limits),
        complete=one.complete,
        within=restricted,
        collective="" if one.collective == collective else one.collective or "",
        seconds=seconds_of_wire(one.seconds),
    )


def _frontier_of_wire(wire: FoundWire, classes: tuple[ClassFrontier, ...]) -> Frontier:
    costs = None
    if wire.gb_per_s:
        costs = Costs(wire.alpha_us, wire.gb_per_s, wire.slowest_link is True)
    return Frontier(
        topology=wire.topology,
        collective=wire.collective,
        root=wire.root,
        costs=costs,
        bounds=bounds_of_wire(wire.bounds),
        classes=classes,
        covered=_covered_of_wire(wire),
        solver=wire.solver or "",
        open=tuple(
            Open(
                candidate_of_wire(c),
                c.reason or "",
                origin_of_text(c.origin) if c.origin else None,
            )
            for c in wire.open or ()
        ),
        refuted=tuple(
            Refuted(
                candidate_of_wire(c),
                c.evidence or "",
                seconds_of_wire(c.seconds),
                origin_of_text(c.origin or Origin.HERE),
            )
            for c in wire.unsat or ()
        ),
        unswept=tuple(Unswept(one.name, one.why) for one in wire.unswept or ()),
        every=limits_of_wire(wire.every or ()),
        stopped=wire.stopped,
        seconds=seconds_of_wire(wire.seconds),
    )


def _covered_of_wire(wire: FoundWire) -> Range | None:
    """Return the range of a sweep; None for limits, which are over all k."""
    if wire.k is UNSET and any(point.limit for point in wire.points):
        return None
    k = None if wire.k is UNSET else wire.k
    return Range(k, wire.max_steps or None, wire.max_chunks or None)
