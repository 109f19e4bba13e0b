"""Build bundles: the lowered algorithms of a generated project, with switch points by size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sccl.codegen.ir import Landing, Program
from sccl.codegen.passes import compile_program
from sccl.codegen.switch_points import (
    ModeledProgram,
    Protocols,
    Selection,
    SwitchPoint,
    choose_switch_points,
    longest_block,
)
from sccl.codegen.targets.codegen_options import gpu_slot_bytes
from sccl.core.algorithm import Algorithm
from sccl.core.cost import Costs
from sccl.core.files.disk import shorten_name, slugify
from sccl.core.topology import ASCENDING, BusIds, Topology, is_ascending
from sccl.errors import ParameterError

ROOTED = ("broadcast", "gather", "reduce", "scatter")
NAMED_COLLECTIVES = ("allgather", "allreduce", "alltoall", "reducescatter", *ROOTED)

CostFunction = Callable[[Topology], Costs]
"""Function from a machine to its costs of a step and of a byte."""

SAVED_INSTRUCTIONS = 32
"""Smallest saving of instructions per thread block that justifies a coarser program: 16 us."""

_PROTOCOL_RESTRICTIONS = {
    "a": "a choice by measurement (a), which only host projects",
    "p": "packets (p), which only kernels of GPU targets",
}


@dataclass(frozen=True, slots=True)
class LoweredAlgorithm:
    """An algorithm with its eager and its direct program.

    Attributes:
        label: Name in messages, which has only letters, digits, dots, and hyphens.
    """

    label: str
    algorithm: Algorithm
    eager: Program
    direct: Program

    @property
    def parts(self) -> int:
        """Return the number of parts of a block."""
        return self.eager.layout.parts


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """A collective of a bundle.

    Attributes:
        identifier: Name in generated code.
    """

    identifier: str
    algorithms: tuple[LoweredAlgorithm, ...]
    switches: tuple[SwitchPoint, ...]

    @property
    def combining(self) -> bool:
        """Return whether the collective reduces."""
        return self.algorithms[0].algorithm.collective.combining

    @property
    def rooted(self) -> bool:
        """Return whether the collective has a root."""
        return self.algorithms[0].algorithm.collective.root is not None


@dataclass(frozen=True, slots=True)
class Bundle:
    """Collectives of a generated project.

    Attributes:
        bus_ids: PCI bus ids of the ranks' GPUs, if the algorithms' machines list them.
    """

    ranks: int
    entries: tuple[BundleEntry, ...]
    bus_ids: BusIds = ()

    @property
    def slot_bytes(self) -> int:
        """Return the bytes of a scratch slot on GPUs."""
        return gpu_slot_bytes(
            _max_slots(lowering for e in self.entries for lowering in e.algorithms)
        )

    def selection(self) -> Selection:
        """Return the switch points of all collectives."""
        return Selection({entry.identifier: entry.switches for entry in self.entries})


def build_bundle(
    algorithms: Sequence[Algorithm],
    *,
    serial: bool,
    protocols: Protocols,
    costs: CostFunction = Costs.from_topology,
) -> Bundle:
    """Build the bundle of algorithms for one number of ranks.

    Args:
        serial: Whether every rank is a single thread.
        protocols: Default protocols by the bytes of a part, until a measurement replaces them.
        costs: Function that returns the costs of an algorithm's machine.

    Raises:
        ParameterError: No algorithm is given, ranks or GPUs differ, or two custom collectives have
            the same name in C.
        JudgeError: An algorithm fails verification.
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
        by_name.setdefault(c_identifier(algorithm.collective.name), []).append(algorithm)
    lowered: dict[str, list[LoweredAlgorithm]] = {}
    for name, members in sorted(by_name.items()):
        if len({a.collective.name for a in members}) > 1:
            raise ParameterError(
                f"two custom collectives have the same C name {name}: rename one of them"
            )
        members.sort(key=lambda a: (a.collective.root or 0, a.steps, a.bandwidth_cost))
        lowered[name] = [_lower_algorithm(a, serial=serial) for a in members]
        lowered[name] += [] if serial else _coarsened_programs(lowered[name])
    slot_bytes = gpu_slot_bytes(
        _max_slots(lowering for each in lowered.values() for lowering in each)
    )
    entries = []
    for name, each in lowered.items():
        modeled = [_model_program(lowering, costs, slot_bytes) for lowering in each]
        entries.append(BundleEntry(name, tuple(each), choose_switch_points(modeled, protocols)))
    return Bundle(sizes[0], tuple(entries), _common_bus_ids(algorithms))


def _max_slots(algorithms: Iterable[LoweredAlgorithm]) -> int:
    return max(lowering.direct.scratch_slots for lowering in algorithms)


def _coarsened_programs(algorithms: Sequence[LoweredAlgorithm]) -> list[LoweredAlgorithm]:
    # Fewer parts need fewer instructions, which dominate the time of small buffers.
    from sccl.codegen.chunk_coarsening import coarsen_chunks  # noqa: PLC0415 - loads NumPy

    labels = {lowering.label for lowering in algorithms}
    added = []
    for lowering in algorithms:
        length = longest_block(lowering.eager)
        if length < SAVED_INSTRUCTIONS:
            continue
        few = _lower_algorithm(coarsen_chunks(lowering.algorithm), serial=False)
        if few.label not in labels and longest_block(few.eager) <= length - SAVED_INSTRUCTIONS:
            labels.add(few.label)
            added.append(few)
    return added


def _common_bus_ids(algorithms: Sequence[Algorithm]) -> BusIds:
    """Return the GPU of each rank according to the machines.

    Raises:
        ParameterError: Two machines contradict each other.
    """
    machines = [a.topology for a in algorithms if a.topology.pci_bus_ids]
    said = {t.pci_bus_ids: repr(t.name) for t in machines}
    listed = [bus_ids for bus_ids in said if isinstance(bus_ids, tuple)]
    if len(listed) > 1 or (ASCENDING in said and not all(map(is_ascending, listed))):
        raise ParameterError(
            f"the topologies {' and '.join(said.values())} contradict one another: their "
            "pci_bus_ids assign a rank to different GPUs; generate one bundle for each"
        )
    return listed[0] if listed else next(iter(said), ())


def with_selection(bundle: Bundle, selection: Selection, protocols: Protocols) -> Bundle:
    """Return the bundle with the switch points of a selection for the collectives that it names.

    Raises:
        ParameterError: The selection names a collective, algorithm or protocol that the bundle
            lacks.
    """
    identifiers = [entry.identifier for entry in bundle.entries]
    if unknown := sorted(set(selection.switches) - set(identifiers)):
        raise ParameterError(
            f"select names {unknown[0]}, but the files contain only {', '.join(identifiers)}"
        )
    entries = []
    for old in bundle.entries:
        switches = selection.switches.get(old.identifier, old.switches)
        if any(s.index >= len(old.algorithms) for s in switches):
            raise ParameterError(
                f"select names an algorithm of {old.identifier} beyond the last, "
                f"expected 0 to {len(old.algorithms) - 1} (by root, steps and R/C)"
            )
        usable = "ed" + "".join(letter for letter, _ in protocols if letter not in "ed")
        if unusable := [s.protocol for s in switches if s.protocol not in usable]:
            raise ParameterError(
                f"select names {_PROTOCOL_RESTRICTIONS[unusable[0]]} have: expected "
                f"{' or '.join(usable)} for "
                f"{old.identifier}"
            )
        by_size = tuple(sorted(switches, key=lambda s: s.from_bytes))
        entries.append(replace(old, switches=by_size))
    return replace(bundle, entries=tuple(entries))


def c_identifier(name: str) -> str:
    """Return the name of a collective in C: MPI's own name, or a custom name with a prefix."""
    if name in NAMED_COLLECTIVES:
        return name
    safe = re.sub(r"[^a-z0-9]+", "_", name.lower())
    return f"custom_{shorten_name(safe, 40, '_')}"


def safe_label(algorithm: Algorithm) -> str:
    """Return a name for an algorithm that is safe in messages and in code."""
    c = algorithm.collective
    root = f"-root{c.root}" if c.root else ""
    return (
        f"{slugify(c.name)}-{slugify(algorithm.topology.name)}-c{c.chunks}-s{algorithm.steps}"
        f"-r{algorithm.rounds}{root}"
    )


def _lower_algorithm(algorithm: Algorithm, *, serial: bool) -> LoweredAlgorithm:
    return LoweredAlgorithm(
        safe_label(algorithm),
        algorithm,
        compile_program(algorithm, Landing.SCRATCH, serial=serial),
        compile_program(algorithm, Landing.OUTPUT, serial=serial),
    )


def _model_program(
    lowered: LoweredAlgorithm, costs_of: CostFunction, slot_bytes: int
) -> ModeledProgram:
    algorithm = lowered.algorithm
    instructions = longest_block(lowered.eager)
    return ModeledProgram(
        root=algorithm.collective.root or 0,
        steps=algorithm.steps,
        rounds=algorithm.rounds,
        chunks=algorithm.collective.chunks,
        parts=lowered.parts,
        costs=costs_of(algorithm.topology),
        instructions=instructions,
        slot_bytes=slot_bytes if instructions and lowered.direct.scratch_slots else None,
    )
