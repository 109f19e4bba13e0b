"""What is asked about: from what users name to what a synthesiser takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sccl.collectives import Spec, custom, wire_of_counts
from sccl.collectives import resolve as resolve_collective
from sccl.core.files.collectives import load_counts
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo import machine_model, rank_of


@dataclass(frozen=True, slots=True)
class Subject:
    """A collective on a machine.

    Attributes:
        topology: with lanes of one speed and without switches, as synthesis takes it.
        notes: what was done to the machine for that, in words; empty: nothing.
    """

    topology: Topology
    spec: Spec
    notes: tuple[str, ...]

    def in_steps(self) -> Subject:
        """Return it, if steps and rounds can be asked of it.

        Raises:
            CollectiveError: chunks are of sizes of their own.
        """
        self.spec.at(self.spec.unit).check_alike()
        return self


def subject_of(machine: Topology, collective: str | Spec, root: str | int | None = None) -> Subject:
    """Return a collective on a machine.

    Args:
        collective: its name or file, or itself.
        root: a rank, by number or label; None: the collective's own.

    Raises:
        InputError: there is no such collective or root, or the machine cannot be modelled exactly.
    """
    made = machine_model(machine)
    return Subject(made.topology, spec_of(machine, collective, root), made.notes)


def counted_of(machine: Topology, name: str, root: str | None, counts: Path) -> Spec:
    """Return a collective of counts, as alltoallv, by its name and the file of counts.

    Raises:
        InputError: there is no such collective, file or root, or counts are not for the machine.
    """
    rank = None if root is None else rank_of(machine, root)
    where = str(counts)
    return custom(wire_of_counts(name, load_counts(counts), machine.ranks, rank, where), where)


def spec_of(machine: Topology, collective: str | Spec, root: str | int | None = None) -> Spec:
    """Return a collective for a machine.

    Args:
        collective: its name or file, or itself.
        root: a rank, by number or label; None: the collective's own.

    Raises:
        InputError: there is no such collective or root.
    """
    rank = None if root is None else rank_of(machine, root)
    if isinstance(collective, str):
        return resolve_collective(collective, machine.ranks, rank)
    if rank not in (None, collective.root):
        raise ParameterError(
            f"root is {root}, but the collective that is given has {collective.root}: leave root "
            "out, or give the collective by name"
        )
    return collective
