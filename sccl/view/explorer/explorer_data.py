"""The input of the explorer's script: machines, algorithms and frontiers as plain JSON values."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sccl.core.algorithm import Algorithm
from sccl.core.collective import Collective
from sccl.core.cost import Costs, fastest_by_size
from sccl.core.frontier import ClassFrontier, Frontier
from sccl.core.instance import Candidate
from sccl.core.topology import Topology
from sccl.view.completeness import BoundSummary, class_state, frontier_summary
from sccl.view.drawing.budgets import binding_budgets, shared_links
from sccl.view.drawing.layout import control_points, layout_topology

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule


@dataclass(frozen=True, slots=True)
class ExplorerAlgorithm:
    """A verified algorithm to show.

    Attributes:
        intact: whether the file is unchanged since sccl wrote it. If not, its claims are not shown.
    """

    algorithm: Algorithm
    file: str
    intact: bool
    bounds: BoundSummary


@dataclass(frozen=True, slots=True)
class ExplorerSchedule:
    """A verified schedule to show.

    Attributes:
        lower_bound_us: lower bound on the completion time for these chunks, in microseconds. None:
            unknown.
        reason: proof of the bound, or the reason why it is unknown.
    """

    schedule: Schedule
    file: str
    lower_bound_us: float | None
    reason: str


def page_data(
    shown: Sequence[ExplorerAlgorithm],
    frontiers: Sequence[Frontier],
    schedules: Sequence[ExplorerSchedule] = (),
    *,
    frontier: bool,
) -> dict[str, Any]:
    """Return the data of a page. Machines that several plans share are included once.

    Args:
        frontiers: frontiers to show with their points.
        frontier: whether to start with the frontiers instead of the first algorithm.
    """
    machines = [entry.algorithm.topology for entry in shown]
    topologies = list(dict.fromkeys([*machines, *(entry.schedule.topology for entry in schedules)]))
    return {
        "start": "frontier" if frontier and shown else "algorithm",
        "topologies": [_topology_data(t) for t in topologies],
        "algorithms": [
            *(_algorithm_data(s, topologies.index(s.algorithm.topology)) for s in shown),
            *(schedule_data(s, topologies.index(s.schedule.topology)) for s in schedules),
        ],
        "frontiers": _frontier_data_list(shown, frontiers),
    }


def plan_title(plan: Algorithm | Schedule) -> str:
    """Return the collective and machine of a plan as text."""
    return f"{plan.collective.name} on {plan.topology.name}"


def _topology_data(topology: Topology) -> dict[str, Any]:
    drawn = layout_topology(topology)
    number = {link.edge: i for i, link in enumerate(topology.links)}
    dashed, costs = shared_links(topology), Costs.from_topology(topology)
    return {
        "name": topology.name,
        "ranks": topology.ranks,
        "labels": [topology.label(r) for r in range(topology.ranks)],
        "switches": [switch.name for switch in topology.switches],
        "positions": drawn.positions,
        "radius": drawn.radius,
        "boxes": [[b.left, b.top, b.right, b.bottom, b.label] for b in drawn.boxes],
        "links": [
            {"src": link.src, "dst": link.dst, "lanes": link.lanes}
            | ({"shared": True} if link.edge in dashed else {})
            | ({"bend": _inner_controls(drawn.positions, link.edge, bend)} if bend else {})
            for link, bend in zip(topology.links, drawn.bends, strict=True)
        ],
        "budgets": [
            {"name": b.name, "lanes": b.chunks_per_round, "links": [number[e] for e in b.edges]}
            for b in binding_budgets(topology)
        ],
        **asdict(costs),
        "cost_note": costs.note,
    }


def _inner_controls(
    positions: Sequence[tuple[float, float]], edge: tuple[int, int], bend: float
) -> list[float]:
    """Return the two inner control points of a bent link, ``[x1, y1, x2, y2]``."""
    _, first, second, _ = control_points(positions[edge[0]], positions[edge[1]], bend)
    return [round(value, 6) for value in (*first, *second)]


# --- algorithms ----------------------------------------------------------------------------------


def _algorithm_data(shown: ExplorerAlgorithm, topology: int) -> dict[str, Any]:
    a, c = shown.algorithm, shown.algorithm.collective
    return {
        "topology": topology,
        "file": shown.file,
        **_collective_data(c),
        "rounds": list(a.rounds_per_step),
        "bandwidth_cost": str(a.bandwidth_cost),
        "bounds": _bounds_data(shown),
        "claims": _claim_rows(shown),
        "reasons": shown.bounds.reasons,
        **chunk_places(c),
        "sends": _step_sends(a),
    }


def _collective_data(collective: Collective) -> dict[str, Any]:
    return {
        "collective": collective.name,
        "root": collective.root,
        "combining": collective.combining,
        "chunks": collective.chunks,
        "num_chunks": collective.num_chunks,
    }


def _bounds_data(shown: ExplorerAlgorithm) -> dict[str, Any]:
    return {"steps": shown.bounds.steps, "bandwidth": str(shown.bounds.bandwidth)}


def chunk_places(collective: Collective) -> dict[str, Any]:
    """Return the initial holders and the destinations of each chunk."""
    c = collective
    return {
        "pre": [_compact_ranks(c.holders(chunk), c) for chunk in range(c.num_chunks)],
        "post": [_compact_ranks(c.destinations(chunk), c) for chunk in range(c.num_chunks)],
    }


def _compact_ranks(ranks: frozenset[Any], collective: Collective) -> list[int] | int | None:
    """Return ranks in a compact form: None for all, a number for one, else a list."""
    if len(ranks) == collective.ranks:
        return None
    return min(ranks) if len(ranks) == 1 else sorted(ranks)


def _step_sends(algorithm: Algorithm) -> list[list[int]]:
    """Return two numbers per send of each step: chunk, and link (``-1 - link`` for reductions)."""
    number = {link.edge: i for i, link in enumerate(algorithm.topology.links)}
    steps: list[list[int]] = [[] for _ in algorithm.rounds_per_step]
    for send in algorithm.sends:
        link = number[send.edge]
        steps[send.step] += (send.chunk, -1 - link if send.reduce else link)
    return steps


def _claim_rows(shown: ExplorerAlgorithm) -> list[list[str]]:
    """Return the proved properties of an algorithm, as pairs of a keyword and a sentence."""
    a = shown.algorithm
    if a.proved and not shown.intact:
        text = "The file was edited after sccl wrote it: its claims are not shown."
        return [["edited", text]]
    bounds = shown.bounds
    of_class = (a.steps != bounds.steps, a.bandwidth_cost != bounds.bandwidth)
    narrow = [" of its family" if differs else "" for differs in of_class]
    sentences = {
        "latency": f"S = {a.steps} meets the lower bound on steps{narrow[0]}.",
        "bandwidth": f"R/C = {a.bandwidth_cost} meets the lower bound on R/C{narrow[1]}.",
        "limit": f"R/C = {a.bandwidth_cost} is the limit for S = {a.steps}: no k and no C gives a "
        "lower R/C.",
        "pareto": "Every candidate of the class that would dominate it is refuted.",
    }
    claims = [[word, text] for word, text in sentences.items() if word in a.proved]
    if "pareto" not in a.proved:
        claims.append(["best found", "No proof excludes that another algorithm dominates it."])
    return [*claims, ["class", a.scope]] if a.scope else claims


# --- schedules -----------------------------------------------------------------------------------


def schedule_data(shown: ExplorerSchedule, topology: int) -> dict[str, Any]:
    """Return the page data of a schedule: times in ticks, and the length of a tick."""
    s, c, clock = shown.schedule, shown.schedule.collective, shown.schedule.clock
    sizes = s.chunk_bytes
    return {
        "topology": topology,
        "file": shown.file,
        **_collective_data(c),
        "timed": True,
        "tick_us": clock.us(1),
        "finish": s.finish,
        "alpha": s.model.value,
        "chunk_bytes": sizes if isinstance(sizes, int) else None,
        "least_us": shown.lower_bound_us,
        "reason": shown.reason,
        "lags": [clock.lag(i) for i in range(len(s.topology.links))],
        **chunk_places(c),
        "sends": _transfer_rows(s),
        "messages": None if s.message is None else s.message.tolist(),
    }


def _transfer_rows(schedule: Schedule) -> list[int]:
    """Return four numbers per row: start, end, chunk, link (``-1 - link`` for reductions)."""
    numbers: list[int] = []
    for rows in schedule.batches():
        columns = (rows.start, rows.end, rows.chunk, rows.link, rows.reduce)
        for start, end, chunk, link, reduce in zip(*(c.tolist() for c in columns), strict=True):
            numbers += (start, end, chunk, -1 - link if reduce else link)
    return numbers


# --- frontiers -----------------------------------------------------------------------------------


def _frontier_data_list(
    shown: Sequence[ExplorerAlgorithm], frontiers: Sequence[Frontier]
) -> list[dict[str, Any]]:
    """Return one frontier per machine, collective and root.

    In a frontier over several classes, a class may consist of algorithms for another collective.
    They belong to this frontier, and get no frontier of their own. Frontiers of one class without
    bounds, which older files contain, are left out: their proofs are about another collective.
    """
    questions: dict[tuple[Topology, str, int | None], list[int]] = {}
    for number, entry in enumerate(shown):
        a = entry.algorithm
        question = (a.topology, a.collective.name, a.collective.root)
        questions.setdefault(question, []).append(number)
    result = []
    for (machine, name, root), members in questions.items():
        asked = (machine.name, name, root, None)
        matching = [
            f
            for f in frontiers
            if (f.topology, f.collective, f.root, f.class_without_bounds) == asked
        ]
        if not matching and all(_is_of_class(shown[i], frontiers) for i in members):
            continue
        parts = {file for part in _named_classes(matching) for file in part.files}
        others = [
            i for i, entry in enumerate(shown)
            if entry.file in parts and entry.algorithm.topology == machine
        ]  # fmt: skip
        result.append(_frontier_data(shown, sorted({*members, *others}), matching))
    return result


def _named_classes(frontiers: Iterable[Frontier]) -> list[ClassFrontier]:
    return [part for frontier in frontiers if frontier.is_multiclass for part in frontier.classes]


def _is_of_class(entry: ExplorerAlgorithm, frontiers: Sequence[Frontier]) -> bool:
    """Return whether an algorithm belongs to a class of a frontier for another collective."""
    a = entry.algorithm
    same_machine = (f for f in frontiers if f.topology == a.topology.name)
    others = [f for f in same_machine if f.collective != a.collective.name]
    return any(entry.file in part.files for part in _named_classes(others))


def _frontier_data(
    shown: Sequence[ExplorerAlgorithm], members: Sequence[int], frontiers: Sequence[Frontier]
) -> dict[str, Any]:
    all_classes = [part for item in frontiers for part in item.classes]
    named = {file for part in all_classes for file in part.files}
    members = [i for i in members if shown[i].file in named] or members
    classes = list({part.name: part for part in _named_classes(frontiers)}.values())
    if not classes:
        members = _distinct_members(shown, members)
    algorithms = [shown[i].algorithm for i in members]
    asked = frontiers[0].collective if classes else algorithms[0].collective.name
    topology = algorithms[0].topology
    first = next(shown[i] for i in members if shown[i].algorithm.collective.name == asked)
    points = [(a.steps, a.bandwidth_cost) for a in algorithms]
    costs = Costs.from_topology(topology)
    won = fastest_by_size(points, costs)
    single_classes = [part for item in frontiers if not item.is_multiclass for part in item.classes]
    limits = {limit.steps: limit.lower for part in single_classes for limit in part.limits}
    named_points = [(p.file.name, p) for part in all_classes for p in part.points if p.file]
    methods = {file: p.found_by for file, p in named_points if p.found_by}
    restrictions = {file: p.state_text for file, p in named_points if p.is_proved and p.within}
    return {
        "topology": topology.name,
        "collective": asked,
        "root": first.algorithm.collective.root,
        "bounds": _bounds_data(first),
        "points": list(members),
        "classes": [_class_data(item, shown, members) for item in classes],
        "fastest": [[members[w.index], w.from_bytes, w.to_bytes] for w in won],
        "cost_note": costs.note,
        "limits": [[steps, str(limits[steps])] for steps in sorted(limits)],
        "found_by": [[i, methods[shown[i].file]] for i in members if shown[i].file in methods],
        "restricted": [
            [i, restrictions[shown[i].file]] for i in members if shown[i].file in restrictions
        ],
        "approached": sorted(
            {(s, str(cost)) for part in single_classes for s, cost in part.asymptotic_costs}
        ),
        "refuted": _candidate_rows(
            (x.candidate, x.evidence_text) for item in frontiers for x in item.refuted
        ),
        "open": _candidate_rows(
            (x.candidate, str(x.reason)) for item in frontiers for x in item.open
        ),
        "class": "" if classes else _claim_class(shown, members, restrictions),
        "summary": " ".join(dict.fromkeys(map(frontier_summary, frontiers))),
    }


def _class_data(
    part: ClassFrontier, shown: Sequence[ExplorerAlgorithm], members: Sequence[int]
) -> dict[str, Any]:
    return {
        "name": part.name,
        "scope": part.scope,
        "summary": str(class_state(part)),
        "points": [i for i in members if shown[i].file in part.files],
        "limits": [[limit.steps, str(limit.lower)] for limit in part.limits],
        "approached": [[steps, str(cost)] for steps, cost in part.asymptotic_costs],
    }


def _claim_class(
    shown: Sequence[ExplorerAlgorithm], members: Sequence[int], restricted: Container[str]
) -> str:
    """Return the class that claims are about: that of a restricted point, if there is one."""
    scopes = [shown[i].algorithm.scope for i in members if shown[i].file in restricted]
    return [*scopes, shown[members[0]].algorithm.scope][0]


def _distinct_members(shown: Sequence[ExplorerAlgorithm], members: Sequence[int]) -> list[int]:
    """Return one algorithm for each (C, S, R): the one with the most proved properties."""
    best: dict[tuple[int, int, int], int] = {}
    for i in members:
        a = shown[i].algorithm
        cost = a.collective.chunks, a.steps, a.rounds
        if cost not in best or len(a.proved) > len(shown[best[cost]].algorithm.proved):
            best[cost] = i
    return list(best.values())


def _candidate_rows(pairs: Iterable[tuple[Candidate, str]]) -> list[dict[str, Any]]:
    """Return distinct candidates with the reasons why they are refuted or open."""
    return [
        {"chunks": c.chunks, "steps": c.steps, "rounds": c.rounds, "reason": why}
        for c, why in dict.fromkeys(pairs)
    ]
