"""Load, verify, display, plot, and export algorithms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from sccl.api.arguments import check_arguments, check_wrapped_kind
from sccl.api.chart import Chart
from sccl.api.machine import Topology, text_console
from sccl.core import algorithm as core
from sccl.core.cost import Costs
from sccl.core.files.algorithms import algorithm_to_wire, load_algorithm
from sccl.core.files.disk import check_can_write, write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.symmetric import AnyAlgorithm
from sccl.errors import ParameterError
from sccl.judge import violations
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.view import charts
from sccl.view.text.markup import heading, paragraph, table
from sccl.view.text.plan_text import print_algorithm, utilization_rows

ChartKind = Literal["utilisation", "arrival", "topology"]

_MAX_SENDS = 100_000  # up to which a table of steps counts them


@dataclass(frozen=True, slots=True, repr=False)
class Algorithm:
    """An algorithm for a collective on a machine: rounds per step, and sends.

    Attributes:
        value: Algorithm of :mod:`sccl.core`.
        intact: Whether its file is unchanged since sccl wrote it. If not, its claims are ignored.

    Examples:
        >>> import sccl
        >>> algorithm = sccl.pareto("allgather", "ring:4").points[0].algorithm
        >>> algorithm
        Algorithm(allgather on ring:4: C=2 S=2 R=3)
        >>> algorithm.violations()
        []
    """

    value: AnyAlgorithm
    intact: bool = True

    def __post_init__(self) -> None:
        check_wrapped_kind(self, AnyAlgorithm, "sccl.Algorithm.load, or the algorithm of a point")

    @classmethod
    @check_arguments
    def load(cls, path: str | PathLike[str]) -> Algorithm:
        """Return the algorithm in a file. :meth:`violations` verifies it.

        Raises:
            InputError: The file cannot be read, or is not an algorithm.

        Examples:
            >>> import sccl
            >>> algorithm = sccl.baseline("ring", "allgather", "ring:4")
            >>> sccl.Algorithm.load(algorithm.save("ring.json"))
            Algorithm(allgather on ring:4: C=1 S=3 R=3)
        """
        return cls(*load_algorithm(Path(path)))

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
    def steps(self) -> int:
        """Return S, the number of steps (latency cost)."""
        return self.value.steps

    @property
    def rounds(self) -> int:
        """Return R, the sum of the rounds of all steps."""
        return self.value.rounds

    @property
    def rounds_per_step(self) -> tuple[int, ...]:
        """Return the number of rounds of each step."""
        return self.value.rounds_per_step

    @property
    def bandwidth_cost(self) -> Fraction:
        """Return R/C, the bandwidth cost."""
        return self.value.bandwidth_cost

    @property
    def sends(self) -> tuple[core.Send, ...]:
        """Return every send, sorted by step and chunk.

        Raises:
            TooLargeError: The algorithm has too many sends for a list.
        """
        return expand_algorithm(self.value).sends

    @property
    def claims(self) -> tuple[str, ...]:
        """Return the proved claims of optimality within :attr:`scope`. An edited file has none."""
        return self.value.proved if self.intact else ()

    @property
    def scope(self) -> str:
        """Return the class of algorithms that its claims refer to."""
        return self.value.scope

    @check_arguments
    def time_us(self, size_bytes: float) -> float:
        """Return its modeled time for a buffer, in microseconds.

        The time follows from alpha and beta of the machine. If links differ in alpha, each step
        costs the largest one, so the result is an upper bound.

        Args:
            size_bytes: Size of the buffer, which has C chunks.

        Raises:
            ParameterError: The size is negative, or not a number.

        Source: SCCL section 3.6.

        Examples:
            >>> import sccl
            >>> algorithm = sccl.baseline("ring", "allgather", "ring:4")
            >>> round(algorithm.time_us(1_000_000), 1)
            122.1
        """
        if not (math.isfinite(size_bytes) and size_bytes >= 0):
            raise ParameterError(
                f"size_bytes is {size_bytes}, expected a finite number of 0 or more"
            )
        costs = Costs.from_topology(self.value.topology)
        return costs.time_us(self.steps, self.bandwidth_cost, size_bytes)

    def violations(self) -> list[str]:
        """Return all violations that the independent verifier finds. A valid algorithm has none.

        Examples:
            >>> import sccl
            >>> sccl.baseline("ring", "allgather", "ring:4").violations()
            []
        """
        return [f"{violation.kind}: {violation.message}" for violation in violations(self.value)]

    @check_arguments
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the algorithm to a JSON file and return its path.

        Raises:
            InputError: The file cannot be written.

        Examples:
            >>> import sccl
            >>> sccl.baseline("ring", "allgather", "ring:4").save("ring.json").name
            'ring.json'
        """
        write_atomically(Path(path), to_text(algorithm_to_wire(self.value)))
        return Path(path)

    def show(self) -> None:
        """Print the sends, the topology matrix, and the utilization of links.

        Examples:
            >>> import sccl
            >>> sccl.baseline("ring", "allgather", "ring:4").show()  # doctest: +ELLIPSIS
            allgather on ring:4: C=1 S=3 R=3, R/C=3
            send 0 from 0 to 1 at step 0
            ...
        """
        print_algorithm(text_console(), self.value, intact=self.intact)

    @check_arguments
    def plot(self, what: ChartKind = "utilisation") -> Chart:
        """Return a heat map of link loads or chunk arrivals, or a drawing of the machine.

        Args:
            what: ``"utilisation"``, ``"arrival"``, or ``"topology"``.

        Raises:
            ParameterError: There is no such chart.

        Examples:
            >>> import sccl
            >>> sccl.baseline("ring", "allgather", "ring:4").plot("arrival").title
            'allgather on ring:4, arrival'
        """
        if what not in (builders := charts.ALGORITHM_CHARTS):
            raise ParameterError(f"there is no chart {what!r}, expected {', '.join(builders)}")
        return Chart(builders[what](expand_algorithm(self.value)), f"{self.name}, {what}")

    @check_arguments
    def explore(self, path: str | PathLike[str]) -> Path:
        """Write a page that plays the algorithm step by step in a browser, and return its path.

        Raises:
            InputError: It is too large for a page, fails verification, or the file cannot be
                written.

        Examples:
            >>> import sccl
            >>> sccl.baseline("ring", "allgather", "ring:4").explore("ring.html").name
            'ring.html'
        """
        from sccl.view.explorer.explorer_plans import explorer_algorithms  # noqa: PLC0415 - few ask for a page
        from sccl.view.explorer.page_html import render_page  # noqa: PLC0415

        check_can_write(Path(path))
        write_atomically(
            Path(path), render_page(explorer_algorithms([(self.name, self.value, self.intact)]))
        )
        return Path(path)

    @check_arguments
    def codegen(
        self, folder: str | PathLike[str], target: str = "host", *, force: bool = False
    ) -> Path:
        """Write a project that runs the algorithm, and return its folder.

        Args:
            target: ``"host"`` (C++ for MPI processes), ``"cuda"``, or ``"hip"``.
            force: Whether to write into the folder even if it has other contents.

        Raises:
            InputError: There is no such target, the algorithm fails verification, or the folder
                cannot be written.

        Examples:
            >>> import sccl
            >>> folder = sccl.baseline("ring", "allgather", "ring:4").codegen("ring")
            >>> (folder / "Makefile").exists()
            True
        """
        from sccl.codegen.projects import write_project_of  # noqa: PLC0415 - few write projects

        return write_project_of(
            {self.name: self.value}, Path(folder), target, force=force
        ).directory

    def __repr__(self) -> str:
        return f"Algorithm({self.name}: {self._costs})"

    @property
    def _costs(self) -> str:
        return f"C={self.chunks} S={self.steps} R={self.rounds}"

    def _repr_html_(self) -> str:
        title = heading(f"{self.name}: {self._costs}, R/C = {self.bandwidth_cost}")
        claims = ", ".join(self.claims)
        note = paragraph(f"proved optimal: {claims}; class: {self.scope}") if claims else ""
        return title + note + table(*self._steps_table())

    def _steps_table(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Return the head and the rows of a table of steps."""
        if self.value.num_sends > _MAX_SENDS:
            return ("Step", "Rounds"), list(enumerate(self.rounds_per_step))
        head = ("Step", "Rounds", "Sends", "Link utilization")
        return head, utilization_rows(expand_algorithm(self.value))
