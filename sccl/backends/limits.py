"""How long and how a solver may work."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.errors import ParameterError

MAX_TIMEOUT_S = 10_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how a solver may work.

    Attributes:
        timeout_s: seconds after which it gives up with Unknown; None: never.
        seed: for solvers that randomise.
    """

    timeout_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not 0 < self.timeout_s <= MAX_TIMEOUT_S:
            raise ParameterError(
                f"timeout is {self.timeout_s} seconds, expected more than 0 and at most "
                f"{MAX_TIMEOUT_S}"
            )
