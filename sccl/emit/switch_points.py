"""Switch points by the cost model (SCCL section 3.6): of a bundle, and of a project on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sccl.core.cost import Costs, winners
from sccl.core.files.programs import CollectiveProgramsWire, LoweredWire, ProjectWire
from sccl.core.topology import Topology
from sccl.emit.selection import Selection, SwitchPoint
from sccl.errors import InputError

Protocols = Sequence[tuple[str, int]]
"""Letters of a target's protocols, each with the bytes of a part from which it serves; first 0."""


@dataclass(frozen=True, slots=True)
class Modelled:
    """An algorithm as the cost model sees it.

    Attributes:
        parts: that a block is cut into.
        costs: what a step and a byte cost where it runs.
    """

    root: int
    steps: int
    rounds: int
    chunks: int
    parts: int
    costs: Costs

    @property
    def blocks(self) -> int:
        """Return how many blocks make up the buffer of C chunks that the cost model speaks of."""
        return self.chunks // self.parts or 1


def by_costs(algorithms: Sequence[Modelled], protocols: Protocols) -> tuple[SwitchPoint, ...]:
    """Return the switches that the cost model asks for, one root at a time.

    Args:
        algorithms: of one collective, in the order of their numbers.
        protocols: by which protocol parts go, until a measurement says better.
    """
    found: list[SwitchPoint] = []
    for root in sorted({one.root for one in algorithms}):
        own = [i for i, one in enumerate(algorithms) if one.root == root]
        points, costs = _compared([algorithms[i] for i in own])
        for span in winners(points, costs):
            index = own[span.index]
            blocks = algorithms[index].blocks
            first = int(span.from_bytes // blocks)
            end = None if span.to_bytes is None else int(span.to_bytes // blocks)
            starts = [turn * algorithms[index].parts for _, turn in protocols]
            stops = [*starts[1:], None]
            for (protocol, _), start, stop in zip(protocols, starts, stops, strict=True):
                low = max(first, start)
                if all(limit is None or low < limit for limit in (end, stop)):
                    found.append(SwitchPoint(low, index, protocol))
    return tuple(sorted(found, key=lambda s: (s.from_bytes, s.index)))


def _compared(algorithms: Sequence[Modelled]) -> tuple[list[tuple[int, Fraction]], Costs]:
    """Return (S, R/C) of algorithms in lanes of one speed, and what a step and a byte cost.

    They may be for models of a machine whose lanes differ.
    """
    costs = [one.costs for one in algorithms]
    most = Costs(max(c.alpha_us for c in costs), max(c.gb_per_s for c in costs))
    fastest = Fraction(str(most.gb_per_s))
    return [
        (one.steps, Fraction(one.rounds, one.chunks) * fastest / Fraction(str(one.costs.gb_per_s)))
        for one in algorithms
    ], most


def selection_on(
    project: ProjectWire, machine: Topology, collectives: Iterable[str] = ()
) -> Selection:
    """Return the selection of a project by the costs of a machine, perhaps a measured one.

    It is what the project would be made with for that machine.

    Args:
        collectives: whose switch points change, by identifier; empty: all.

    Raises:
        InputError: the project does not tell what its algorithms use.
        ParameterError: the machine has other ranks, or lacks a link that an algorithm may use.
    """
    chosen = dict(Selection.parse(project.selection).switches)
    wanted = set(collectives)
    for entry in project.collectives:
        if not wanted or entry.identifier in wanted:
            chosen[entry.identifier] = _switches(project, entry, machine)
    return Selection(chosen)


def _switches(
    project: ProjectWire, entry: CollectiveProgramsWire, machine: Topology
) -> tuple[SwitchPoint, ...]:
    if not isinstance(project.protocols, tuple):
        raise _older()
    own = [_modelled(one, project.ranks, machine) for one in entry.algorithms]
    return by_costs(own, project.protocols)


def _modelled(lowered: LoweredWire, ranks: int, machine: Topology) -> Modelled:
    if not isinstance(lowered.links, tuple):
        raise _older()
    lanes = {(link.src, link.dst): link.lanes for link in lowered.links}
    return Modelled(
        root=lowered.root or 0,
        steps=lowered.eager.steps,
        rounds=lowered.rounds,
        chunks=lowered.chunks,
        parts=lowered.eager.parts,
        costs=Costs.of_links(lanes, machine, lowered.topology, ranks),
    )


def _older() -> InputError:
    return InputError(
        "the project is of an older sccl and does not tell which links its algorithms use: make it "
        "again with 'sccl codegen', or leave --topo out, so that its programs are measured"
    )
