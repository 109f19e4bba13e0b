"""How long and how a solver may work."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.errors import ParameterError

MAX_TIMEOUT_S = 10_000_000

UNIT_S = 2.0
"""Seconds of a unit of effort, about: what a user says in seconds is spent as effort."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how a solver may work.

    Attributes:
        timeout_s: seconds after which it gives up with Unknown; None: never.
        seed: for solvers that randomise.
        units: what it may spend before it gives up with Unknown, in a unit that does not depend
            on how busy the machine is: CP-SAT's deterministic time, of one to five seconds. For
            whatever goes on otherwise when a search has found nothing. None: no end.
    """

    timeout_s: float | None = None
    seed: int = 0
    units: float | None = None

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise ParameterError(
                f"timeout is {self.timeout_s} seconds, expected more than 0 and at most "
                f"{MAX_TIMEOUT_S}"
            )
