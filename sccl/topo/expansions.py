"""Build machines from machines: line graphs, degree expansions, Cartesian powers and products.

They keep the properties of the base machines that collectives need (Zhao et al., "Efficient
Direct-Connect Topologies for Collective Communications", NSDI 2025), so that good schedules of
small networks carry over to large ones. Links keep their alphas and speeds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

from sccl.core.ids import Edge
from sccl.core.topology import MAX_RANKS, Budget, Link, Switch, Topology
from sccl.errors import InputError, ParameterError
from sccl.topo.multihop import SHORTEST, XY, multihop_machine

_MAX_LINKS = 2**20
_MAX_NESTED = 32

TopologyResolver = Callable[[str], Topology]
"""Function that returns the machine of a name."""


@dataclass(frozen=True, slots=True)
class MachineExpansion:
    """A construction of a machine from other machines.

    Attributes:
        arguments: Description of the arguments after the colon.
        example: A valid name with arguments.
        make: Function that returns the machine for the arguments.
    """

    name: str
    arguments: str
    example: str
    description: str
    make: Callable[[str, TopologyResolver], Topology]


def expansions() -> tuple[MachineExpansion, ...]:
    """Return all constructions of machines from other machines."""
    return _EXPANSIONS


def expand_machine(text: str, resolve: TopologyResolver) -> Topology | None:
    """Return the machine of ``name:arguments``, or None if ``name`` is no expansion.

    Raises:
        InputError: The arguments do not fit, or there is no such machine.
    """
    name, _, arguments = text.partition(":")
    made = next((e for e in _EXPANSIONS if e.name == name), None)
    if made is None or not arguments:
        return None
    if text.count(":") > _MAX_NESTED:
        raise ParameterError(f"topology {text[:40]!r}... is made of more than {_MAX_NESTED} parts")
    try:
        return replace(made.make(arguments, resolve), name=text)
    except InputError:  # also a ValueError, but its message is already complete
        raise
    except ValueError as error:
        raise ParameterError(
            f"topology {text!r}: {name} expects {error}, as in {made.example!r}"
        ) from error


def line_graph(topology: Topology) -> Topology:
    """Return the line graph of a machine: its lanes become ranks, linked to the lanes that follow.

    Rank (u, v) gets a link to each rank (v, w), with the cost of lane (v, w). A machine of N ranks
    with d lanes each becomes a machine of d N ranks with d lanes each, and its diameter grows by
    one. Ranks have the order of the links, and the links as labels.

    Raises:
        ParameterError: there are switches or shared budgets, or the machine would be too large.
    """
    _check_plain(topology, "line graph")
    lanes = [link for link in topology.links for _ in range(link.lanes)]
    leaving: dict[int, list[int]] = {}
    for number, link in enumerate(lanes):
        leaving.setdefault(link.src, []).append(number)
    _check_size(
        topology, len(lanes), sum(len(leaving.get(link.dst, ())) for link in lanes), "line graph"
    )
    links = (
        Link(number, after, 1, lanes[after].alpha_us, lanes[after].gb_per_s)
        for number, link in enumerate(lanes)
        for after in leaving.get(link.dst, ())
    )
    return Topology(
        name=f"linegraph:{topology.name}",
        ranks=len(lanes),
        links=tuple(links),
        alpha_us=topology.alpha_us,
        gb_per_s=topology.gb_per_s,
        labels=_lane_labels(topology, lanes),
        source=_combine_sources("line graph", topology),
    )


def _lane_labels(topology: Topology, lanes: Sequence[Link]) -> tuple[str, ...]:
    """Return the label of each lane: its link, with a number if the link has several lanes."""
    seen: Counter[Edge] = Counter()
    labels = []
    for link in lanes:
        seen[link.edge] += 1
        lane = f":{seen[link.edge]}" if link.lanes > 1 else ""
        labels.append(f"{topology.label(link.src)}.{topology.label(link.dst)}{lane}")
    return tuple(labels)


def degree_expansion(topology: Topology, number: int) -> Topology:
    """Return the degree expansion: ``number`` copies of each rank, linked as the ranks were.

    Each copy of u has a link to each copy of v if u has one to v, so ranks and degrees grow by the
    same factor. Copy c of rank v is rank ``number * v + c``.

    Raises:
        ParameterError: there are switches or shared budgets, or the machine would be too large.
    """
    kind = "degree expansion"
    _check_plain(topology, kind)
    _check_size(topology, number * topology.ranks, number**2 * len(topology.links), kind)
    numbers = range(number)
    return replace(
        topology,
        name=f"copies:{number}:{topology.name}",
        ranks=number * topology.ranks,
        links=tuple(
            replace(link, src=number * link.src + a, dst=number * link.dst + b)
            for link in topology.links
            for a, b in product(numbers, numbers)
        ),
        chassis=(),
        labels=tuple(f"{topology.label(v)}.{c}" for v in range(topology.ranks) for c in numbers),
        pci_bus_ids=(),
        source=_combine_sources(f"{number} copies of each rank", topology),
    )


def cartesian_product(first: Topology, second: Topology) -> Topology:
    """Return the Cartesian product: a copy of each machine for every rank of the other one.

    Rank ``(a, b)`` is ``a * second.ranks + b``. It has the links of a in the first machine, to
    ranks with the same b, and those of b in the second. Switches, budgets and chassis exist once
    for each rank of the other machine. The chassis are those of the second machine if it has any,
    else those of the first.

    Raises:
        ParameterError: the machine would be too large.
    """
    ranks = first.ranks * second.ranks
    sizes = ((first, second.ranks), (second, first.ranks))
    _check_size(
        first, ranks, sum(len(t.links) * n for t, n in sizes), f"product with {second.name}"
    )
    outer = [
        _FactorCopy(first, f"(,{second.label(b)})", range(b, ranks, second.ranks))
        for b in range(second.ranks)
    ]
    inner = [
        _FactorCopy(second, f"({first.label(a)},)", range(a * second.ranks, (a + 1) * second.ranks))
        for a in range(first.ranks)
    ]
    placed, switches = [], 0
    for copy in (*outer, *inner):
        placed.append(replace(copy, first_switch=ranks + switches))
        switches += len(copy.machine.switches)
    chassis = inner if second.chassis else outer
    return Topology(
        name=f"product:{first.name}_x_{second.name}",
        ranks=ranks,
        links=tuple(link for copy in placed for link in copy.links()),
        alpha_us=first.alpha_us,
        gb_per_s=first.gb_per_s,
        budgets=tuple(b for copy in placed for b in copy.budgets()),
        switches=tuple(s for copy in placed for s in copy.switches()),
        chassis=tuple(
            tuple(copy.ranks[r] for r in members)
            for copy in chassis
            for members in copy.machine.chassis
        ),
        labels=tuple(
            f"{first.label(a)},{second.label(b)}"
            for a, b in product(range(first.ranks), range(second.ranks))
        ),
        source=_combine_sources("Cartesian product", first, second),
    )


@dataclass(frozen=True, slots=True)
class _FactorCopy:
    """A copy of one machine of a product, at one rank of the other machine.

    Attributes:
        place: The other machine's rank, as text that distinguishes the parts of this copy.
        ranks: The ranks of the product that belong to this copy, in order.
        first_switch: The node number of its first switch.
    """

    machine: Topology
    place: str
    ranks: range
    first_switch: int = 0

    def _node(self, node: int) -> int:
        rank_count = self.machine.ranks
        return self.ranks[node] if node < rank_count else self.first_switch + node - rank_count

    def _edge(self, edge: Edge) -> Edge:
        return self._node(edge[0]), self._node(edge[1])

    def links(self) -> Iterable[Link]:
        for link in self.machine.links:
            src, dst = self._edge(link.edge)
            yield replace(link, src=src, dst=dst)

    def budgets(self) -> Iterable[Budget]:
        for budget in self.machine.budgets:
            name = f"{budget.name} {self.place}"
            yield replace(budget, name=name, edges=tuple(map(self._edge, budget.edges)))

    def switches(self) -> Iterable[Switch]:
        for switch in self.machine.switches:
            yield replace(switch, name=f"{switch.name} {self.place}")


def _combine_sources(made: str, *machines: Topology) -> str:
    """Return the source text of a product: its construction, and each machine's source once."""
    said = (part for machine in machines for part in machine.source.split("; "))
    return "; ".join(dict.fromkeys([made, *said]))


def _check_plain(topology: Topology, kind: str) -> None:
    """Check that a machine has no switches and no budgets.

    Raises:
        ParameterError: It has.
    """
    if topology.switches or topology.budgets:
        has = "switches" if topology.switches else "shared budgets"
        raise ParameterError(
            f"topology {topology.name!r} has {has}, and its {kind} is not defined: give a machine "
            "of ranks and links alone"
        )


def _check_size(topology: Topology, ranks: int, links: int, kind: str) -> None:
    """Check that a machine does not exceed the limits.

    Raises:
        ParameterError: It does.
    """
    if ranks > MAX_RANKS or links > _MAX_LINKS:
        raise ParameterError(
            f"the {kind} of topology {topology.name!r} would have {ranks} ranks and {links} links, "
            f"expected at most {MAX_RANKS} and {_MAX_LINKS}: give a smaller machine"
        )


def _parse_count(text: str, minimum: int, default: int | None = None) -> tuple[int, str]:
    """Split ``2:dgx1`` into the number and the machine's name."""
    match = re.fullmatch(r"(?:([1-9][0-9]?):)?(\D.*)", text)
    number = int(match[1]) if match and match[1] else default
    if match is None or number is None or number < minimum:
        raise ValueError(f"a number from {minimum} to 99, a colon and a machine")
    return number, match[2]


def _make_line_graph(text: str, resolve: TopologyResolver) -> Topology:
    times, name = _parse_count(text, 1, 1)
    return reduce(lambda machine, _: line_graph(machine), range(times), resolve(name))


def _make_degree_expansion(text: str, resolve: TopologyResolver) -> Topology:
    number, name = _parse_count(text, 2)
    return degree_expansion(resolve(name), number)


def _make_power(text: str, resolve: TopologyResolver) -> Topology:
    exponent, name = _parse_count(text, 2)
    machine = resolve(name)
    return reduce(cartesian_product, [machine] * exponent)


def _make_multihop(text: str, resolve: TopologyResolver) -> Topology:
    how, sign, name = text.partition(":")
    if how in {XY, SHORTEST} and sign:
        return multihop_machine(resolve(name), how)
    if not text:
        raise ValueError("a machine")
    return multihop_machine(resolve(text))


def _make_product(text: str, resolve: TopologyResolver) -> Topology:
    names = text.split("_x_")
    if len(names) < 2 or not all(names):
        raise ValueError("machines with _x_ between them")
    return reduce(cartesian_product, map(resolve, names))


_EXPANSIONS = (
    MachineExpansion(
        "linegraph",
        "[TIMES:]MACHINE",
        "linegraph:2:circulant:16:3,4",
        "line graph: its lanes become ranks, each linked to the lanes that follow it",
        _make_line_graph,
    ),
    MachineExpansion(
        "copies",
        "NUMBER:MACHINE",
        "copies:2:ring:5",
        "several copies of each rank",
        _make_degree_expansion,
    ),
    MachineExpansion("power", "NUMBER:MACHINE", "power:2:dgx1", "its Cartesian power", _make_power),
    MachineExpansion(
        "routed",
        "[xy:|shortest:]MACHINE",
        "routed:torus:4x4",
        "messages pass several links in a step, loading each",
        _make_multihop,
    ),
    MachineExpansion(
        "product",
        "MACHINE_x_MACHINE..",
        "product:dgx1_x_ring:4",
        "a Cartesian product",
        _make_product,
    ),
)
