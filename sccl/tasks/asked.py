"""What is asked, and how: from what users name to what a synthesiser takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sccl.collectives import Spec
from sccl.collectives import resolve as resolve_collective
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.solvers.effort import UNIT_S, Effort
from sccl.synth.ahead import Expect
from sccl.synth.answering import How, answering, settled_symmetry
from sccl.synth.ask import Solve
from sccl.synth.ksync import backends
from sccl.synth.settings import Settings, keeping
from sccl.topo import machine_model, rank_of


@dataclass(frozen=True, slots=True)
class Asked:
    """A collective on a machine.

    Attributes:
        topology: with lanes of one speed and without switches, as synthesis takes it.
        notes: what was done to the machine for that, in words; empty: nothing.
    """

    topology: Topology
    spec: Spec
    notes: tuple[str, ...]


def asked(machine: Topology, collective: str | Spec, root: str | int | None = None) -> Asked:
    """Return a collective on a machine.

    Args:
        collective: its name or file, or itself.
        root: a rank, by number or label; None: the collective's own.

    Raises:
        InputError: there is no such collective or root, or the machine cannot be modelled exactly.
    """
    made = machine_model(machine)
    rank = None if root is None else rank_of(machine, root)
    if isinstance(collective, str):
        collective = resolve_collective(collective, machine.ranks, rank)
    elif rank not in (None, collective.root):
        raise ParameterError(
            f"root is {root}, but the collective that is given has {collective.root}: leave root "
            "out, or give the collective by name"
        )
    return Asked(made.topology, collective, made.notes)


def units_of(settings: Settings, most: float) -> float:
    """Return what may be spent on a part of a question, in units of effort."""
    return min(most, (settings.effort.timeout_s or math.inf) / UNIT_S)


def how_of(topology: Topology, spec: Spec, settings: Settings, effort: Effort) -> How:
    """Return how queries of a question are answered."""
    symmetry = settled_symmetry(topology, spec, settings.symmetry)
    return How(backends.solve, backends.check_name(settings.solver), symmetry, effort)


@contextmanager
def asking(topology: Topology, spec: Spec, settings: Settings) -> Iterator[tuple[Solve, Expect]]:
    """Answer queries of a question, and hear of those to come, for as long as the context lasts.

    Raises:
        InputError: the settings do not fit the question.
    """
    how = how_of(topology, spec, settings, settings.effort)
    with (
        keeping(settings.store, no_store=settings.no_store) as store,
        answering(how, settings.jobs, settings.cluster, store) as found,
    ):
        yield found
