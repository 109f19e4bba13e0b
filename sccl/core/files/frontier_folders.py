"""Read frontiers from files, or build them from algorithms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from sccl.core.algorithm import Algorithm
from sccl.core.cost import Costs
from sccl.core.files.disk import read_text
from sccl.core.files.frontier_shapes import FrontierWire
from sccl.core.files.frontiers import frontiers_from_plain
from sccl.core.files.outputs import Inputs
from sccl.core.frontier import ClassFrontier, Frontier, Point, StepLimitFrontier
from sccl.errors import FormatError


class FrontierOutput(FrontierWire, frozen=True, kw_only=True):
    """The JSON output of 'sccl pareto'."""

    schema: Annotated[Literal[1], "Version of this shape."] = 1
    kind: Literal["frontier"] = "frontier"
    sccl: Annotated[str, "The version of sccl."]
    inputs: Inputs


def read_frontiers(file: Path) -> tuple[Frontier, ...]:
    """Read the frontier in a file that ``sccl pareto --output`` or ``--json`` wrote.

    Files of earlier versions may contain further frontiers, of other classes.

    Raises:
        InputError: The file cannot be read, or contains no frontier.
    """
    text = read_text(file)
    try:
        plain = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FormatError(f"{file}: not JSON ({error})") from error
    return frontiers_from_plain(plain, str(file))


def question_ids(frontiers: Sequence[Frontier]) -> set[str]:
    """Return the names of all problems whose algorithms occur in frontiers."""
    run = {
        _frontier_name(part.collective, frontier.topology, None)
        for frontier in frontiers
        for part in frontier.classes
        if part.collective
    }
    return {frontier.name for frontier in frontiers} | run


def frontiers_of_folder(files: Iterable[Path], algorithms: Iterable[Algorithm]) -> list[Frontier]:
    """Return the frontiers of a folder: from their files, or else from its algorithms.

    For one problem, a sweep's frontier comes before its limits, because the algorithms belong to
    it.
    """
    by_name: dict[str, tuple[Frontier, ...]] = {}
    all_frontiers = [read_frontiers(file) for file in sorted(files)]
    for read in sorted(all_frontiers, key=lambda read: isinstance(read[0], StepLimitFrontier)):
        by_name.setdefault(read[0].name, read)
    also = question_ids([frontier for read in by_name.values() for frontier in read])
    for frontier in frontiers_of_algorithms(list(algorithms)):
        if frontier.name not in also:
            by_name.setdefault(frontier.name, (frontier,))
    return [frontier for _, read in sorted(by_name.items()) for frontier in read]


def frontiers_of_algorithms(algorithms: Sequence[Algorithm]) -> list[Frontier]:
    """Return one frontier per collective and topology.

    The algorithms state which bounds they attain.

    Machines with the same name and lanes of different speeds are separate, because their R/C are
    not comparable.
    """
    questions: dict[tuple[str, float], list[Algorithm]] = {}
    for a in sorted(algorithms, key=lambda a: (a.steps, a.bandwidth_cost)):
        name = _frontier_name(a.collective.name, a.topology.name, a.collective.root)
        questions.setdefault((name, Costs.from_topology(a.topology).gb_per_s), []).append(a)
    return [
        _frontier_of_question(several)
        for _, several in sorted(questions.items(), key=itemgetter(0))
    ]


def _frontier_of_question(several: Sequence[Algorithm]) -> Frontier:
    best: list[Algorithm] = []  # without those that others dominate
    for a in several:
        if not best or a.bandwidth_cost < best[-1].bandwidth_cost:
            best.append(a)
    met = {word: a for a in best for word in a.proved}
    steps, bandwidth = met.get("latency"), met.get("bandwidth")
    part = ClassFrontier(
        "",
        "",
        steps.steps if steps else None,
        bandwidth.bandwidth_cost if bandwidth else None,
        tuple(map(_point_of, best)),
    )
    topology, collective = several[0].topology, several[0].collective
    costs = Costs.from_topology(topology)
    return Frontier(topology.name, collective.name, collective.root, costs, None, (part,))


def _frontier_name(collective: str, topology: str, root: int | None) -> str:
    return f"{collective}{f' (root {root})' if root else ''} on {topology}"


def _point_of(a: Algorithm) -> Point:
    return Point(
        a.steps,
        a.bandwidth_cost,
        a.collective.chunks,
        a.rounds,
        is_proved="pareto" in a.proved,
        algorithm=a,
    )
