"""Restrict a machine by a sketch, for synthesizers without support for sketches.

TACCL (NSDI 2023), section 3.1: a sketch restricts a machine to a logical topology. Here this is a
separate machine with the links of the allowed routes. If the sketch gives a sender only a part of
the bandwidth, its links are slower. If a switch no longer joins its ranks completely, several
switches replace it, so that only the allowed routes exist. A plan on this machine is converted to
links of the full machine and verified there. Its lower bound is for the restricted machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sccl.core.clock import Clock
from sccl.core.graphs import connected_components
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.packed_schedule import PackedSchedule
from sccl.core.schedule import Schedule, ScheduleFilter
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import ParameterError, TopologyError, UnreachableError
from sccl.solvers.effort import Effort
from sccl.synth.common.contract import Feature, Notify, Request, Synthesizer
from sccl.synth.network.routes import LinkPath, build_routes
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.sketches.sketch import HyperedgePolicy, Sketch


@dataclass(frozen=True)
class RestrictedMachine:
    """The part of a machine that a sketch allows.

    Raises:
        ParameterError: The sketch requires more than that some links are removed, or slower.
        TopologyError: The machine contradicts the sketch, or its switches provide excluded routes.
    """

    sketch: Sketch
    full_topology: Topology

    def __post_init__(self) -> None:
        for entry, rule in _unsupported_entries(
            self.sketch, self.full_topology.ranks // self.sketch.nodes
        ):
            raise ParameterError(
                f"sketch {self.sketch.name}: {entry} asks {rule}, which TACCL alone keeps to: ask "
                "'sccl synth taccl', or leave it out"
            )

    @cached_property
    def _routes(self) -> tuple[tuple[LinkPath, int], ...]:
        """Return the allowed routes of the machine, and the time factor of each."""
        crossings = build_routes(self.full_topology, Clock.from_topology(self.full_topology, 1))
        factors = MachineSketch(self.sketch, self.full_topology).route_factors(
            crossings.src, crossings.dst
        )
        paths = zip(crossings.paths(), factors.tolist(), strict=True)
        return tuple((path, factor) for path, factor in paths if factor)

    @cached_property
    def _joined_links(self) -> dict[int, int]:
        """Return a representative of each allowed link, equal for links that routes join."""
        nodes = sorted({link for path, _ in self._routes for link in path})
        pairs = ((path[0], link) for path, _ in self._routes for link in path[1:])
        components = connected_components(nodes, pairs)
        return dict(sorted((k, first) for first, links in components.items() for k in links))

    @cached_property
    def _switches(self) -> dict[tuple[int, int], int]:
        """Return the new node of each (switch, representative of the links that it joins)."""
        ranks, places = self.full_topology.ranks, set()
        for link, root in self._joined_links.items():
            places |= {
                (node, root) for node in self.full_topology.links[link].edge if node >= ranks
            }
        return {place: ranks + number for number, place in enumerate(sorted(places))}

    @cached_property
    def topology(self) -> Topology:
        """Return the restricted machine.

        Raises:
            TopologyError: Its switches provide routes that the sketch excludes.
        """
        machine, edges = self.full_topology, self._link_edges
        if not edges:
            raise TopologyError(
                f"sketch {self.sketch.name}, on {machine.name!r}: it removes all links: give a "
                "sketch that permits some"
            )
        link_numbers = {k.edge: number for number, k in enumerate(machine.links)}
        slower = self._slowdowns()
        left = replace(
            machine,
            name=f"{machine.name} within sketch {self.sketch.name}",
            links=tuple(
                self._scaled_link(machine.links[link], edge, slower[link])
                for link, edge in edges.items()
            ),
            switches=tuple(self._split_switches()),
            budgets=tuple(
                replace(budget, edges=kept, gb_per_s=speed)
                for budget, speed in zip(machine.budgets, machine.budget_speeds(), strict=True)
                if (
                    kept := tuple(
                        edges[link_numbers[e]] for e in budget.edges if link_numbers[e] in edges
                    )
                )
            ),
        )
        self._check_routes(left)
        return left

    @cached_property
    def _link_edges(self) -> dict[int, tuple[int, int]]:
        """Return the ends of each remaining link."""
        ranks, edges = self.full_topology.ranks, {}
        for link, root in self._joined_links.items():
            src, dst = (
                node if node < ranks else self._switches[node, root]
                for node in self.full_topology.links[link].edge
            )
            edges[link] = (src, dst)
        return edges

    def _scaled_link(self, link: Link, edge: tuple[int, int], slower: int) -> Link:
        return replace(link, src=edge[0], dst=edge[1], gb_per_s=link.gb_per_s / slower)

    def _split_switches(self) -> Iterable[Switch]:
        seen: set[int] = set()
        for node, root in self._switches:
            switch = self.full_topology.switches[node - self.full_topology.ranks]
            yield replace(switch, name=f"{switch.name}, {root}") if node in seen else switch
            seen.add(node)

    def _slowdowns(self) -> dict[int, int]:
        """Return the time factor of each link: on a slower route, only the first link has it.

        Raises:
            TopologyError: Routes with the same first link have different factors.
        """
        first: dict[int, set[int]] = {}
        for path, factor in self._routes:
            first.setdefault(path[0], set()).add(factor)
        for link, factors in first.items():
            if len(factors) > 1:
                edge = self.full_topology.links[link].edge
                raise self._sketch_error(
                    f"internode_sketch.beta_split: link {edge[0]} -> {edge[1]} is on routes with "
                    "different factors, expected one factor for all of them"
                )
        return {link: max(first.get(link, {1})) for link in self._joined_links}

    def _check_routes(self, left: Topology) -> None:
        """Check that the restricted machine has no route that the sketch excludes.

        Raises:
            TopologyError: It has one.
        """
        if not left.switches:
            return
        crossings, numbers = build_routes(left, Clock.from_topology(left, 1)), self.full_links(left)
        allowed_paths = {path for path, _ in self._routes}
        for path in crossings.paths():
            if tuple(int(numbers[link]) for link in path) not in allowed_paths:
                src, dst = left.links[path[0]].src, left.links[path[-1]].dst
                raise self._sketch_error(
                    f"route {src} -> {dst} is excluded, but the switches of the other routes "
                    "provide it"
                )

    def _sketch_error(self, reason: str) -> TopologyError:
        return TopologyError(
            f"sketch {self.sketch.name}, on {self.full_topology.name!r}: {reason}, which only "
            "'sccl synth taccl' supports: use it, or give another sketch"
        )

    def full_links(self, left: Topology) -> NDArray[np.int32]:
        """Return the link of the full machine for each link of the restricted one."""
        number = {edge: link for link, edge in self._link_edges.items()}
        return np.array([number[k.edge] for k in left.links], dtype=np.int32)

    def lift_result(self, result: Solution) -> Solution:
        """Return a result on the restricted machine, converted to the whole one."""
        plan = result.plan
        if isinstance(plan, PackedSchedule):
            plan = plan.partial_schedule(ScheduleFilter())
        assert isinstance(plan, Schedule)
        link = self.full_links(plan.topology)[plan.link]
        order = np.lexsort((link, plan.chunk, plan.start))
        schedule = replace(
            plan,
            topology=self.full_topology,
            start=plan.start[order],
            end=plan.end[order],
            chunk=plan.chunk[order],
            link=link[order],
            reduce=plan.reduce[order],
            message=None if plan.message is None else plan.message[order],
        )
        scope = f"{result.bound.scope}, within sketch {self.sketch.name}"
        return Solution(schedule, result.objective, replace(result.bound, scope=scope))


def _unsupported_entries(sketch: Sketch, local: int) -> Iterable[tuple[str, str]]:
    """Yield each entry that no machine can express, with its meaning, except symmetries."""
    for place, edge in enumerate(sketch.hyperedges):
        if edge.policy is not HyperedgePolicy.FREE:
            entry = f"intranode_sketch.switch_hyperedge_strategy[{place}]"
            yield entry, f"for {edge.policy.value} of connections"
    relays = sketch.relays
    if relays is None:
        return
    entry = "chunk_to_relay_map" if relays.relay_map else "gpus_to_sender_rev_map"
    senders = {n for n in range(local) if relays.receivers(n, local)}
    if any(not senders <= (relays.senders(n) or senders) for n in range(local)):
        yield f"internode_sketch.{entry}", "the senders of a node"
    if relays.local_first:
        yield "internode_sketch.enforce_ordering", "in which order chunks leave a node"


class SketchRestriction:
    """A synthesizer whose schedules obey a sketch: it plans on the restricted machine."""

    def __init__(self, by: Synthesizer, sketch: Sketch) -> None:
        """Wrap a synthesizer."""
        self.synthesizer, self.sketch = by, sketch
        self.NAME: str = by.NAME
        self.SOURCE: str = by.SOURCE
        self.FEATURES: Feature = by.FEATURES
        self.Options: type[Any] = by.Options

    def plan(self, request: Request, options: Any, effort: Effort, notify: Notify) -> Outcome:
        """Return the outcome on the restricted machine, converted to the full one.

        Raises:
            InputError: The sketch or the options do not fit the request.
            KeyboardInterrupt: The user interrupted before there was a schedule.
        """
        restricted = RestrictedMachine(self.sketch, request.topology)
        left = replace(request, topology=restricted.topology)
        try:
            outcome = self.synthesizer.plan(left, options, effort, notify)
        except UnreachableError as error:
            raise UnreachableError(
                f"sketch {self.sketch.name}, on {request.topology.name!r}: its routes do not "
                "deliver all chunks: permit more routes in intranode_conn and internode_conn"
            ) from error
        match outcome:
            case Solution():
                return restricted.lift_result(outcome)
            case Inconclusive(best=Solution() as best):
                return replace(outcome, best=restricted.lift_result(best))
            case _:
                return outcome
