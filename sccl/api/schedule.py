"""Load, verify, display, and save schedules."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_arguments, check_wrapped_kind
from sccl.api.machine import Topology
from sccl.core import schedule as core
from sccl.core.cost import format_bytes, format_us
from sccl.core.files.disk import write_pieces_atomically
from sccl.core.files.schedules import load_schedule, text_pieces
from sccl.core.formatting import format_count
from sccl.judge import violations
from sccl.transform.levels import algorithm_from_schedule
from sccl.view.text.markup import heading, paragraph


@dataclass(frozen=True, slots=True, repr=False)
class Schedule:
    """Transfers with their times, for a collective on a machine at one size.

    Attributes:
        value: Schedule of :mod:`sccl.core.schedule`.
        bound_us: Lower bound for schedules of these chunks, in microseconds. None: unknown.
        ended: Reason why the search ended early. Empty: it did not.
        intact: Whether its file is unchanged since sccl wrote it.

    Examples:
        >>> import sccl
        >>> schedule = sccl.tacos("allgather", "ring:4", size=1 << 20)
        >>> schedule
        Schedule(allgather on ring:4, 1 MiB per rank in C=1: 85.2861 us; lower bound attained)
        >>> schedule.violations()
        []
    """

    value: core.Schedule
    bound_us: float | None = None
    ended: str = ""
    intact: bool = True

    def __post_init__(self) -> None:
        check_wrapped_kind(self, core.Schedule, "sccl.Schedule.load, or sccl.tacos")

    @classmethod
    @check_arguments
    def load(cls, path: str | PathLike[str]) -> Schedule:
        """Return the schedule in a file. :meth:`violations` verifies it.

        Raises:
            InputError: The file cannot be read, or is not a schedule.

        Examples:
            >>> import sccl
            >>> schedule = sccl.tacos("allgather", "ring:4", size=1 << 20)
            >>> sccl.Schedule.load(schedule.save("schedule.json")).num_sends
            12
        """
        value, intact = load_schedule(Path(path))
        return cls(value, intact=intact)

    @property
    def name(self) -> str:
        """Return the names of its collective and its machine."""
        return f"{self.collective} on {self.value.topology.name}"

    @property
    def collective(self) -> str:
        """Return the name of its collective."""
        return self.value.collective.name

    @property
    def topology(self) -> Topology:
        """Return its machine."""
        return Topology(self.value.topology)

    @property
    def chunks(self) -> int:
        """Return C, the number of chunks of a rank's buffer."""
        return self.value.collective.chunks

    @property
    def alpha(self) -> str:
        """Return the model of alpha: ``"travels"`` or ``"occupies"``."""
        return self.value.model.value

    @property
    def num_sends(self) -> int:
        """Return the number of transfers over links."""
        return self.value.num_sends

    @property
    def finish_us(self) -> float:
        """Return the arrival time of the last chunk, in microseconds."""
        return self.value.clock.us(self.value.finish)

    @property
    def proved(self) -> bool:
        """Return whether the schedule attains the lower bound."""
        return self.bound_us is not None and self.finish_us <= self.bound_us

    def violations(self) -> list[str]:
        """Return all violations that the independent verifier finds. A valid schedule has none.

        Examples:
            >>> import sccl
            >>> sccl.tacos("allgather", "ring:4", size=1 << 20).violations()
            []
        """
        return [f"{violation.kind}: {violation.message}" for violation in violations(self.value)]

    def to_algorithm(self) -> Algorithm:
        """Return a verified algorithm with the same sends, ordered by steps.

        Raises:
            InputError: Steps cannot express the order of its transfers.

        Examples:
            >>> import sccl
            >>> sccl.tacos("allgather", "ring:4", size=1 << 20).to_algorithm()
            Algorithm(allgather on ring:4: C=1 S=2 R=2)
        """
        return Algorithm(algorithm_from_schedule(self.value))

    @check_arguments
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the schedule to a JSON file and return its path.

        Raises:
            InputError: The file cannot be written.

        Examples:
            >>> import sccl
            >>> sccl.tacos("allgather", "ring:4", size=1 << 20).save("schedule.json").name
            'schedule.json'
        """
        write_pieces_atomically(Path(path), (piece.encode() for piece in text_pieces(self.value)))
        return Path(path)

    def __repr__(self) -> str:
        return f"Schedule({self._summary})"

    @property
    def _summary(self) -> str:
        sizes = self.value.chunk_bytes
        size = sum(sizes) if isinstance(sizes, tuple) else sizes * self.chunks
        basis = "in all" if isinstance(sizes, tuple) else "per rank"
        head = (
            f"{self.name}, {format_bytes(size)} {basis} in C={self.chunks}: "
            f"{format_us(self.finish_us)}"
        )
        return "; ".join(filter(None, (head, self._gap_text, self.ended)))

    @property
    def _gap_text(self) -> str:
        if self.bound_us is None:
            return ""
        above = self.finish_us / self.bound_us - 1
        return "lower bound attained" if self.proved else f"gap {above:.2%} to the lower bound"

    def _repr_html_(self) -> str:
        alpha = "keeps links busy" if self.alpha == "occupies" else "travels"
        return heading(self._summary) + paragraph(
            f"{format_count(self.num_sends, 'transfer')}; alpha {alpha}"
        )
