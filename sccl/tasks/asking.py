"""How a question is answered: from settings to what a synthesiser calls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from sccl.collectives import Spec
from sccl.core.topology import Topology
from sccl.solvers.effort import UNIT_S, Effort
from sccl.synth.ahead import Expect
from sccl.synth.answering import How, answering, settled_symmetry
from sccl.synth.ask import Solve
from sccl.synth.ksync import backends
from sccl.synth.settings import Settings, keeping


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
