"""Algorithms in Python: read, judged, shown, drawn, explored and turned into code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from sccl.api.arguments import check_made_of, checked
from sccl.api.chart import Chart
from sccl.api.html import heading, paragraph, table
from sccl.api.machine import Topology, text_console
from sccl.core import algorithm as core
from sccl.core.cost import Costs
from sccl.core.files.algorithms import algorithm_to_wire, load_algorithm
from sccl.core.files.disk import check_can_write, write_atomically
from sccl.core.files.text import text_of
from sccl.core.symmetric import AnyAlgorithm
from sccl.errors import ParameterError
from sccl.judge import violations
from sccl.tasks.codegen import write_code
from sccl.tasks.explore import shown
from sccl.topo.symmetry.expand import expand
from sccl.view import charts
from sccl.view.explorer.html import page
from sccl.view.text.show import print_algorithm, utilisation

What = Literal["utilisation", "arrival", "topology"]

_MOST_SENDS = 100_000  # up to which a table of steps counts them


@dataclass(frozen=True, slots=True, repr=False)
class Algorithm:
    """An algorithm for a collective on a machine: rounds per step, and sends.

    >>> import sccl
    >>> algorithm = sccl.pareto("allgather", "ring:4").points[0].algorithm
    >>> algorithm
    Algorithm(allgather on ring:4: C=2 S=2 R=3)
    >>> algorithm.violations()
    []

    Attributes:
        value: the algorithm of :mod:`sccl.core`.
        intact: whether its file is as sccl wrote it; else what it claims is not repeated.
    """

    value: AnyAlgorithm
    intact: bool = True

    def __post_init__(self) -> None:
        check_made_of(self, AnyAlgorithm, "sccl.Algorithm.load, or the algorithm of a point")

    @classmethod
    @checked
    def load(cls, path: str | PathLike[str]) -> Algorithm:
        """Return the algorithm in a file, right or wrong: :meth:`violations` judges it.

        Raises:
            InputError: the file cannot be read, or is not an algorithm.
        """
        return cls(*load_algorithm(Path(path)))

    @property
    def name(self) -> str:
        """Return what it does, and where."""
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
        """Return C, the chunks that a rank's buffer is cut into."""
        return self.value.collective.chunks

    @property
    def steps(self) -> int:
        """Return S, the latency cost."""
        return self.value.steps

    @property
    def rounds(self) -> int:
        """Return R, the rounds of all steps."""
        return self.value.rounds

    @property
    def rounds_per_step(self) -> tuple[int, ...]:
        """Return the rounds of each step."""
        return self.value.rounds_per_step

    @property
    def bandwidth_cost(self) -> Fraction:
        """Return R/C."""
        return self.value.bandwidth_cost

    @property
    def sends(self) -> tuple[core.Send, ...]:
        """Return every send, by step and chunk.

        Raises:
            TooLargeError: there are too many to be written out.
        """
        return expand(self.value).sends

    @property
    def claims(self) -> tuple[str, ...]:
        """Return what has been proved of it within :attr:`scope`; of an edited file nothing."""
        return self.value.proved if self.intact else ()

    @property
    def scope(self) -> str:
        """Return the class of algorithms that its claims are about."""
        return self.value.scope

    @checked
    def time_us(self, size_bytes: float) -> float:
        """Return what it takes for a buffer, microseconds, as alpha and beta of the machine say.

        Where links differ in alpha, a step is taken to cost the slowest one's: an upper bound.

        Args:
            size_bytes: of the buffer that C chunks make up.

        Raises:
            ParameterError: the size is negative, or no number.

        Source: SCCL section 3.6.
        """
        if not (math.isfinite(size_bytes) and size_bytes >= 0):
            raise ParameterError(
                f"size_bytes is {size_bytes}, expected a finite number of 0 or more"
            )
        costs = Costs.of(self.value.topology)
        return costs.time_us(self.steps, self.bandwidth_cost, size_bytes)

    def violations(self) -> list[str]:
        """Return everything that is wrong with it, as the independent judge finds it."""
        return [f"{found.kind}: {found.message}" for found in violations(self.value)]

    @checked
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the algorithm to a JSON file and return its path.

        Raises:
            InputError: the file cannot be written.
        """
        write_atomically(Path(path), text_of(algorithm_to_wire(self.value)))
        return Path(path)

    def show(self) -> None:
        """Print the sends, the topology matrix and the link utilisation."""
        print_algorithm(text_console(), expand(self.value), intact=self.intact)

    @checked
    def plot(self, what: What = "utilisation") -> Chart:
        """Return a heat map of what links carry or of when chunks arrive, or the machine.

        Args:
            what: ``"utilisation"``, ``"arrival"`` or ``"topology"``.

        Raises:
            ParameterError: there is no such chart.
        """
        if what not in (known := charts.OF_ALGORITHMS):
            raise ParameterError(f"there is no chart {what!r}, expected {', '.join(known)}")
        return Chart(known[what](expand(self.value)), f"{self.name}, {what}")

    @checked
    def explore(self, path: str | PathLike[str]) -> Path:
        """Write a page that shows it step by step, for any browser, and return its path.

        Raises:
            InputError: it is too large for a page, the judge rejects it, or the file cannot be
                written.
        """
        check_can_write(Path(path))
        write_atomically(Path(path), page(shown([(self.name, self.value, self.intact)])))
        return Path(path)

    @checked
    def codegen(
        self, folder: str | PathLike[str], target: str = "host", *, force: bool = False
    ) -> Path:
        """Write a project that runs it, and return its folder.

        Args:
            target: ``"host"`` (C++ for MPI processes), ``"cuda"`` or ``"hip"``.
            force: write into the folder whatever it holds.

        Raises:
            InputError: there is no such target, the judge rejects the algorithm, or the folder
                cannot be written.
        """
        return write_code({self.name: self.value}, Path(folder), target, force=force).directory

    def __repr__(self) -> str:
        return f"Algorithm({self.name}: {self._costs})"

    @property
    def _costs(self) -> str:
        return f"C={self.chunks} S={self.steps} R={self.rounds}"

    def _repr_html_(self) -> str:
        title = heading(f"{self.name}: {self._costs}, R/C = {self.bandwidth_cost}")
        claims = ", ".join(self.claims)
        note = paragraph(f"proved optimal: {claims}; class: {self.scope}") if claims else ""
        return title + note + table(*self._steps())

    def _steps(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Return a table of steps: its head and its rows."""
        if self.value.num_sends > _MOST_SENDS:
            return ("Step", "Rounds"), list(enumerate(self.rounds_per_step))
        head = ("Step", "Rounds", "Sends", "Link utilisation")
        return head, utilisation(expand(self.value))
