"""The interface through which sweeps and certificates get limits of R/C."""

from __future__ import annotations

from typing import Protocol

from sccl.collectives import Spec
from sccl.core.bound import AlgorithmBounds
from sccl.core.instance import Instance
from sccl.core.step_limit import StepLimit, StepPrices
from sccl.core.topology import Topology
from sccl.synth.limits import SWEEP_EFFORT
from sccl.transform import Question

MAX_STEPS = 512
"""Maximum number of steps of a limit, also in certificates."""


class StepLimits(Protocol):
    """Limits of R/C of a collective on a machine."""

    def are_quick(self) -> bool:
        """Return whether they are faster than a query, so that a sweep computes them first."""
        ...

    def quick_bound(self, steps: int) -> StepLimit | None:
        """Return a lower bound for algorithms of S = ``steps``, with little effort. None: unknown.

        Raises:
            SolverError: Its solver failed.
        """
        ...

    def step_limit(self, steps: int) -> StepLimit:
        """Return the limit of R/C for S = ``steps``, or bounds around it.

        Raises:
            SolverError: Its solver failed.
            TooLargeError: There are too many ranks, links, and steps.
        """
        ...

    def count_refuted_vectors(self, question: Question) -> int:
        """Return the number of round vectors if a bound refutes all of them. 0: it does not."""
        ...

    def separating_prices(
        self, instance: Instance, rounds: tuple[int, ...], units: float
    ) -> tuple[StepPrices, float]:
        """Return prices at which all chunks cost more than the rounds of these steps buy.

        Args:
            instance: The instance.
            rounds: Rounds of each step.
            units: Limit on effort.

        Returns:
            The prices, empty if there are none, and the effort spent.
        """
        ...


class StepLimitsFactory(Protocol):
    """Creates the limits of any collective on any machine.

    For another effort than :data:`SWEEP_EFFORT`, use a ``partial`` with its units.
    """

    def __call__(
        self,
        topology: Topology,
        spec: Spec,
        bounds: AlgorithmBounds,
        units: float = SWEEP_EFFORT,
    ) -> StepLimits:
        """Return the limits of a collective.

        Args:
            topology: The machine.
            spec: The collective.
            bounds: Lower bounds on S and R/C.
            units: Effort for the limit of a number of steps.
        """
        ...
