"""Bundle: the algorithms of one generated project, lowered, and which serves which size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sccl.core.algorithm import Algorithm
from sccl.core.bus_ids import ASCENDING, BusIds, ascend
from sccl.core.cost import Costs
from sccl.core.files.disk import shortened, slug
from sccl.core.topology import Topology
from sccl.emit.selection import Selection, SwitchPoint
from sccl.emit.shared import gpu_slot_bytes
from sccl.emit.switch_points import Modelled, Protocols, by_costs, longest_block
from sccl.errors import ParameterError
from sccl.lower import Landing, Program, compiled
from sccl.lower.few_parts import keep_few_parts

ROOTED = ("broadcast", "gather", "reduce", "scatter")
NAMED = ("allgather", "allreduce", "alltoall", "reducescatter", *ROOTED)

CostsOf = Callable[[Topology], Costs]
"""What a step and a byte cost on the machine of an algorithm."""

SAVED_INSTRUCTIONS = 32
"""Fewest instructions of a thread block that a program of few parts saves: some 16 us."""

_ONLY = {
    "a": "a choice by measurement (a), which only host projects",
    "p": "packets (p), which only kernels of GPU targets",
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """An algorithm with its two programs.

    Attributes:
        label: what messages call it; letters, digits, dots and hyphens only.
    """

    label: str
    algorithm: Algorithm
    eager: Program
    direct: Program

    @property
    def parts(self) -> int:
        """Return the parts that a block is cut into."""
        return self.eager.layout.parts


@dataclass(frozen=True, slots=True)
class Entry:
    """A collective of a bundle.

    Attributes:
        identifier: its name in generated code.
    """

    identifier: str
    algorithms: tuple[Lowered, ...]
    switches: tuple[SwitchPoint, ...]

    @property
    def combining(self) -> bool:
        """Return whether it reduces."""
        return self.algorithms[0].algorithm.collective.combining

    @property
    def rooted(self) -> bool:
        """Return whether it has a root."""
        return self.algorithms[0].algorithm.collective.root is not None


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a generated project consists of.

    Attributes:
        bus_ids: which GPU each rank is, as far as the machines of the algorithms say it.
    """

    ranks: int
    entries: tuple[Entry, ...]
    bus_ids: BusIds = ()

    @property
    def slot_bytes(self) -> int:
        """Return the bytes of a slot of scratch on GPUs."""
        return gpu_slot_bytes(_most_slots(one for e in self.entries for one in e.algorithms))

    def selection(self) -> Selection:
        """Return which program serves which size."""
        return Selection({entry.identifier: entry.switches for entry in self.entries})


def bundle(
    algorithms: Sequence[Algorithm],
    *,
    serial: bool,
    protocols: Protocols,
    costs: CostsOf = Costs.of,
) -> Bundle:
    """Return the bundle of some algorithms, for one number of ranks.

    Args:
        serial: ranks are single threads.
        protocols: by which protocol parts go, until a measurement says better.
        costs: what a step and a byte cost on the machine of an algorithm.

    Raises:
        ParameterError: no algorithm is given, they are for different numbers of ranks or GPUs, or
            two custom collectives have names that look alike in C.
        JudgeError: the judge rejects one of them.
    """
    if not algorithms:
        raise ParameterError("no algorithm is given: name at least one file")
    sizes = sorted({a.topology.ranks for a in algorithms})
    if len(sizes) > 1:
        raise ParameterError(
            f"the algorithms are for {' and '.join(map(str, sizes))} ranks; a bundle is for one "
            "number of ranks, so make one bundle for each"
        )
    by_name: dict[str, list[Algorithm]] = {}
    for algorithm in algorithms:
        by_name.setdefault(identifier(algorithm.collective.name), []).append(algorithm)
    lowered: dict[str, list[Lowered]] = {}
    for name, members in sorted(by_name.items()):
        if len({a.collective.name for a in members}) > 1:
            raise ParameterError(
                f"two custom collectives are both called {name} in C: give one another name"
            )
        members.sort(key=lambda a: (a.collective.root or 0, a.steps, a.bandwidth_cost))
        lowered[name] = [_lowered(a, serial=serial) for a in members]
        lowered[name] += [] if serial else _few_parts(lowered[name])
    slot_bytes = gpu_slot_bytes(_most_slots(one for each in lowered.values() for one in each))
    entries = []
    for name, each in lowered.items():
        modelled = [_modelled(one, costs, slot_bytes) for one in each]
        entries.append(Entry(name, tuple(each), by_costs(modelled, protocols)))
    return Bundle(sizes[0], tuple(entries), _bus_ids(algorithms))


def _most_slots(algorithms: Iterable[Lowered]) -> int:
    return max(one.direct.scratch_slots for one in algorithms)


def _few_parts(algorithms: Sequence[Lowered]) -> list[Lowered]:
    """Return programs of few parts for the algorithms of which these save many instructions."""
    labels = {one.label for one in algorithms}
    added = []
    for one in algorithms:
        length = longest_block(one.eager)
        if length < SAVED_INSTRUCTIONS:
            continue
        few = _lowered(keep_few_parts(one.algorithm), serial=False)
        if few.label not in labels and longest_block(few.eager) <= length - SAVED_INSTRUCTIONS:
            labels.add(few.label)
            added.append(few)
    return added


def _bus_ids(algorithms: Sequence[Algorithm]) -> BusIds:
    """Return which GPU each rank is: what the machines say, the bus ids if some give them.

    Raises:
        ParameterError: two of them contradict each other.
    """
    machines = [a.topology for a in algorithms if a.topology.pci_bus_ids]
    said = {t.pci_bus_ids: repr(t.name) for t in machines}
    listed = [bus_ids for bus_ids in said if isinstance(bus_ids, tuple)]
    if len(listed) > 1 or (ASCENDING in said and not all(map(ascend, listed))):
        raise ParameterError(
            f"the topologies {' and '.join(said.values())} contradict one another: their "
            "pci_bus_ids make a rank different GPUs; make one bundle for each"
        )
    return listed[0] if listed else next(iter(said), ())


def with_selection(made: Bundle, selection: Selection, protocols: Protocols) -> Bundle:
    """Return the bundle with the switch points of a selection for the collectives that it names.

    Args:
        protocols: those of its target.

    Raises:
        ParameterError: it names a collective, an algorithm or a protocol that it does not have.
    """
    known = [entry.identifier for entry in made.entries]
    if unknown := sorted(set(selection.switches) - set(known)):
        raise ParameterError(
            f"select names {unknown[0]}, but the files are of {', '.join(known)} only"
        )
    entries = []
    for old in made.entries:
        switches = selection.switches.get(old.identifier, old.switches)
        if any(s.index >= len(old.algorithms) for s in switches):
            raise ParameterError(
                f"select names an algorithm of {old.identifier} beyond the last, "
                f"expected 0 to {len(old.algorithms) - 1} (by root, steps and R/C)"
            )
        usable = "ed" + "".join(letter for letter, _ in protocols if letter not in "ed")
        if unusable := [s.protocol for s in switches if s.protocol not in usable]:
            raise ParameterError(
                f"select names {_ONLY[unusable[0]]} have: expected {' or '.join(usable)} for "
                f"{old.identifier}"
            )
        by_size = tuple(sorted(switches, key=lambda s: s.from_bytes))
        entries.append(replace(old, switches=by_size))
    return replace(made, entries=tuple(entries))


def identifier(name: str) -> str:
    """Return the name of a collective in C: MPI's own stay, others get a prefix of their own."""
    if name in NAMED:
        return name
    safe = re.sub(r"[^a-z0-9]+", "_", name.lower())
    return f"custom_{shortened(safe, 40, '_')}"


def label(algorithm: Algorithm) -> str:
    """Return a name for an algorithm that is safe wherever it is printed or compiled."""
    c = algorithm.collective
    root = f"-root{c.root}" if c.root else ""
    return (
        f"{slug(c.name)}-{slug(algorithm.topology.name)}-c{c.chunks}-s{algorithm.steps}"
        f"-r{algorithm.rounds}{root}"
    )


def _lowered(algorithm: Algorithm, *, serial: bool) -> Lowered:
    return Lowered(
        label(algorithm),
        algorithm,
        compiled(algorithm, Landing.SCRATCH, serial=serial),
        compiled(algorithm, Landing.OUTPUT, serial=serial),
    )


def _modelled(lowered: Lowered, costs_of: CostsOf, slot_bytes: int) -> Modelled:
    algorithm = lowered.algorithm
    instructions = longest_block(lowered.eager)
    return Modelled(
        root=algorithm.collective.root or 0,
        steps=algorithm.steps,
        rounds=algorithm.rounds,
        chunks=algorithm.collective.chunks,
        parts=lowered.parts,
        costs=costs_of(algorithm.topology),
        instructions=instructions,
        slot_bytes=slot_bytes if instructions and lowered.direct.scratch_slots else None,
    )
