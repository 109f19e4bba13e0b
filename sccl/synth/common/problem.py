"""Convert user input to the problem that a synthesizer solves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sccl.collectives import Spec, custom_spec, resolve_collective
from sccl.core.files.collectives import load_counts
from sccl.core.files.disk import read_text
from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError
from sccl.topo import resolve_topology
from sccl.topo.machine_model import machine_model


@dataclass(frozen=True, slots=True)
class CollectiveProblem:
    """A collective on a machine.

    Attributes:
        topology: Machine with lanes of one speed and without switches, as synthesis models it.
        spec: The collective.
        notes: Changes to the machine for this, as sentences. Empty: none.
    """

    topology: Topology
    spec: Spec
    notes: tuple[str, ...]

    def require_steps(self) -> CollectiveProblem:
        """Return the problem if it can be solved in steps and rounds.

        Raises:
            CollectiveError: Chunks have different sizes.
        """
        self.spec.at(self.spec.unit).check_equal_chunks()
        return self


def build_problem(
    machine: Topology, collective: str | Spec, root: str | int | None = None
) -> CollectiveProblem:
    """Return a collective on a machine.

    Args:
        machine: The machine.
        collective: Name, file, or the collective itself.
        root: Root rank, by number or label. None: the root of the collective.

    Raises:
        InputError: The collective or root does not exist, or the machine has no exact model.
    """
    made = machine_model(machine)
    return CollectiveProblem(made.topology, build_spec(machine, collective, root), made.notes)


def counted_spec(machine: Topology, name: str, root: str | None, counts: Path) -> Spec:
    """Return a collective with counts, such as alltoallv, by its name and the file of counts.

    Raises:
        InputError: The collective, file, or root does not exist, or counts do not fit the machine.
    """
    from sccl.collectives.counts import counts_to_wire  # noqa: PLC0415 - few collectives have them

    rank = _root_rank(machine, root)
    where = str(counts)
    return custom_spec(counts_to_wire(name, load_counts(counts), machine.ranks, rank, where), where)


def build_spec(machine: Topology, collective: str | Spec, root: str | int | None = None) -> Spec:
    """Return a collective for a machine.

    Args:
        machine: The machine.
        collective: Name, file, or the collective itself.
        root: Root rank, by number or label. None: the root of the collective.

    Raises:
        InputError: The collective or root does not exist.
    """
    rank = _root_rank(machine, root)
    if isinstance(collective, str):
        return resolve_collective(collective, machine.ranks, rank)
    if rank not in (None, collective.root):
        raise ParameterError(
            f"root is {root}, but the given collective has {collective.root}: leave root out, or "
            "give the collective by name"
        )
    return collective


def _root_rank(machine: Topology, root: str | int | None) -> int | None:
    """Return the rank of a root. None: no root is given."""
    if root is None:
        return None
    from sccl.topo.node_names import parse_rank  # noqa: PLC0415 - few roots are given

    return parse_rank(machine, root)


def optional_machine(topo: str | None, profile: Path | None, nodes: int) -> Topology | None:
    """Return the given machine. None: no machine is given.

    Args:
        topo: Name or file of the machine.
        profile: TACCL's profile of one node.
        nodes: Number of nodes with this profile.

    Raises:
        InputError: Both are given, or one is no machine.
    """
    if topo is not None and profile is not None:
        raise ParameterError("--topo and --taccl-topology both give a machine: leave one out")
    if profile is None:
        return None if topo is None else resolve_topology(topo)
    from sccl.topo.importers.taccl import machine_of_profile  # noqa: PLC0415 - rarely used

    try:
        return machine_of_profile(read_text(profile), nodes, profile.stem)
    except InputError as error:
        raise type(error)(f"{profile}: {error}") from error


def required_machine(topo: str | None, profile: Path | None, nodes: int = 1) -> Topology:
    """Return the given machine, by its name or file, or by a profile of TACCL.

    Args:
        topo: Name or file of the machine.
        profile: TACCL's profile of one node.
        nodes: Number of nodes with this profile.

    Raises:
        InputError: None is given, both are, or one is no machine.
    """
    machine = optional_machine(topo, profile, nodes)
    if machine is None:
        raise ParameterError(
            "no machine is given: name one with --topo, or give a profile with --taccl-topology"
        )
    return machine
