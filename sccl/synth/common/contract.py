"""The interface of a synthesizer: a folder with ``options.py`` and a planner, with these names.

:func:`sccl.synth.common.registry.plan` is the only way to call a synthesizer. It rejects requests
that the synthesizer does not support, and verifies every result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, ClassVar, Protocol

import msgspec

from sccl.collectives import Spec, collective_names
from sccl.core.outcome import Outcome
from sccl.core.sizes import MAX_SIZE_BYTES
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, ParameterError, TopologyError
from sccl.solvers.effort import Effort
from sccl.synth.common.step_limits import StepLimitsFactory


class Feature(Flag):
    """The requests that a synthesizer supports, and the properties of its results."""

    SWITCHES = auto()
    """Machines with switch nodes, without conversion."""
    UNEQUAL_LINKS = auto()
    """Lanes of different speeds, without conversion."""
    COMBINES = auto()
    """Collectives with reductions."""
    CUSTOM = auto()
    """Collectives that the user defines."""
    UNEQUAL_CHUNKS = auto()
    """Chunks of different numbers of elements, as in allgatherv and alltoallv."""
    ANYTIME = auto()
    """At a limit of effort or time it returns the best plan so far."""
    PROVES = auto()
    """Plans may attain its lower bounds, which proves them optimal."""
    STEPS = auto()
    """Plans are algorithms."""
    TIMES = auto()
    """Plans are schedules."""


@dataclass(frozen=True, slots=True)
class Request:
    """The input of a planner.

    Attributes:
        topology: The machine.
        spec: The collective.
        size_bytes: L, the size of a rank's buffer, which consists of C chunks.
        limits: Source of limits of R/C, for synthesizers that use them. None: none.

    Raises:
        ParameterError: The size is out of range.
        CollectiveError: The collective is for another number of ranks.
    """

    topology: Topology
    spec: Spec
    size_bytes: int
    limits: StepLimitsFactory | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.size_bytes <= MAX_SIZE_BYTES:
            raise ParameterError(
                f"size is {self.size_bytes} bytes, expected 1 to {MAX_SIZE_BYTES}: give another"
            )
        if self.spec.ranks != self.topology.ranks:
            raise CollectiveError(
                f"collective {self.spec.name!r} is for {self.spec.ranks} ranks, topology "
                f"{self.topology.name!r} has {self.topology.ranks}"
            )


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a synthesizer, in addition to the request. Each field has a default.

    The ``Meta`` of a field has its range and help, from which the options of the verb, the
    arguments of the Python function, and the reference derive (see :mod:`sccl.api.option_fields`).

    Attributes:
        DEFAULT_BUDGET: Budget of a search, unless the user gives another. None: there is none.
    """

    DEFAULT_BUDGET: ClassVar[float | None] = None

    def adapt_machine(self, topology: Topology) -> Topology:
        """Return the machine that these options assume.

        Raises:
            ParameterError: The machine does not fit them.
        """
        return topology


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """The best schedule so far and the lower bound, in microseconds.

    Attributes:
        us: Completion time of the best schedule. Infinite: there is none yet.
        lower_bound_us: Lower bound.
        sketch: Name of the sketch of the schedule. Empty: none.
    """

    us: float
    lower_bound_us: float
    sketch: str = ""


@dataclass(frozen=True, slots=True)
class MatchingProgress:
    """Progress: transfers found, and their maximum number, without trials of improvements."""

    sends: int
    total: int


@dataclass(frozen=True, slots=True)
class VerificationProgress:
    """Progress of verification: transfers verified so far, and their total."""

    sends: int
    total: int


Notify = Callable[[object], None]
"""Called with a synthesizer's own events and with :class:`VerificationProgress`."""


class Synthesizer(Protocol):
    """The interface of a synthesizer. Its ``options.py`` has the attributes and loads no solver.

    Attributes:
        NAME: Name in user input, which is also the name of the folder.
        SOURCE: The paper, with the section.
        FEATURES: Supported requests, and properties of results.
        Options: Its subclass of :class:`Options`.
    """

    NAME: str
    SOURCE: str
    FEATURES: Feature
    Options: type[Any]

    def plan(self, request: Request, options: Any, effort: Effort, notify: Notify) -> Outcome:
        """Return a plan, or why there is none. Equal arguments and seeds give equal results.

        Args:
            request: The request.
            options: Options of the synthesizer.
            effort: Budget. ``units`` is the limit for each query to a solver. Results may depend on
                it and on the seed. If ``timeout_s`` ends the search, the result is a
                :class:`Inconclusive`.
            notify: Called with events.

        Raises:
            InputError: The options do not fit the request.
            KeyboardInterrupt: The user interrupted before there was a plan. Later, the result is a
                :class:`Inconclusive` with the best plan so far.
        """
        ...


def check_request(synthesizer: Synthesizer, request: Request) -> None:
    """Check that a synthesizer supports a request.

    Raises:
        TopologyError: It does not support such machines.
        CollectiveError: It does not support such collectives.
    """
    name, features = synthesizer.NAME, synthesizer.FEATURES
    topology, spec = request.topology, request.spec
    where = f"topology {topology.name!r}"
    if topology.switches and Feature.SWITCHES not in features:
        raise TopologyError(
            f"{where} has switch nodes, which {name} does not take; sccl.topo.machine_model "
            "makes links with budgets of them"
        )
    if not topology.has_uniform_lanes and Feature.UNEQUAL_LINKS not in features:
        raise TopologyError(
            f"{where} has lanes of different speeds, which {name} does not take; "
            "sccl.topo.machine_model makes lanes of one speed of them"
        )
    if spec.combining and Feature.COMBINES not in features:
        raise CollectiveError(
            f"{spec.name} has reductions, which {name} does not support: give another"
        )
    if spec.counts and Feature.UNEQUAL_CHUNKS not in features:
        raise CollectiveError(
            f"{spec.name} has chunks of {min(spec.counts)} to {max(spec.counts)} elements, and "
            f"{name} takes chunks of one size: ask 'sccl synth teccl', or 'sccl synth fastest'"
        )
    if spec.name not in collective_names() and Feature.CUSTOM not in features:
        raise CollectiveError(
            f"{spec.name} is a collective of your own, and {name} takes "
            f"{', '.join(collective_names())}"
        )
