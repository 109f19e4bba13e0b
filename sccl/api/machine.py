"""Topologies in Python: machines one can look at, take parts out of, and add links to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from rich.console import Console

from sccl import view
from sccl.api.arguments import check_made_of, checked
from sccl.api.chart import Chart
from sccl.api.html import heading, paragraph
from sccl.core import topology as core
from sccl.core.codec import load_topology, topology_to_wire
from sccl.core.files import write_atomically
from sccl.core.text import text_of
from sccl.errors import ParameterError
from sccl.tasks.show import print_topology, size_text

_WIDTH = 160


def text_console() -> Console:
    """Return a console that prints plain text, in a notebook too."""
    return Console(highlight=False, force_jupyter=False, width=_WIDTH)


@dataclass(frozen=True, slots=True, repr=False)
class Topology:
    """A machine: ranks, directed links, and what they carry in a round.

    >>> import sccl
    >>> sccl.topology("dgx1").without(links=[(0, 4)])
    Topology(dgx1-without-0to4-4to0: 8 ranks, 30 links)

    Attributes:
        value: the topology of :mod:`sccl.core.topology`.
    """

    value: core.Topology

    def __post_init__(self) -> None:
        check_made_of(self, core.Topology, "sccl.topology, or sccl.Topology.of")

    @classmethod
    @checked
    def of(
        cls,
        name: str,
        links: Mapping[tuple[int, int], int],
        *,
        both_ways: bool = True,
        alpha_us: float = 1.0,
        gb_per_s: float = 25.0,
    ) -> Topology:
        """Return a machine whose ranks are those that links name, from 0.

        Args:
            links: lanes (chunks per round) by (src, dst).
            both_ways: whether each link is there in the other direction, too.
            alpha_us: latency of a step, microseconds.
            gb_per_s: bandwidth of a lane, 10^9 bytes per second.

        Raises:
            TopologyError: it contradicts itself.

        >>> import sccl
        >>> sccl.Topology.of("triangle", {(0, 1): 1, (1, 2): 1, (2, 0): 2})
        Topology(triangle: 3 ranks, 6 links)
        """
        _check_edges(links)
        ranks = 1 + max((node for edge in links for node in edge), default=-1)
        found = [
            core.Link(*edge, lanes, alpha_us, gb_per_s)
            for (src, dst), lanes in links.items()
            for edge in ([(src, dst), (dst, src)] if both_ways else [(src, dst)])
        ]
        return cls(core.Topology(name, ranks, tuple(found), alpha_us, gb_per_s))

    @classmethod
    @checked
    def load(cls, path: str | PathLike[str]) -> Topology:
        """Return the topology in a file.

        Raises:
            InputError: the file cannot be read, or is not a topology.
        """
        return cls(load_topology(Path(path)))

    @property
    def name(self) -> str:
        """Return its name."""
        return self.value.name

    @property
    def ranks(self) -> int:
        """Return how many ranks there are."""
        return self.value.ranks

    @property
    def links(self) -> dict[tuple[int, int], int]:
        """Return the lanes (chunks per round) of every link, by (src, dst)."""
        return self.value.lanes()

    @checked
    def without(
        self,
        links: Iterable[tuple[int, int]] = (),
        ranks: Iterable[int] = (),
        *,
        both_ways: bool = True,
    ) -> Topology:
        """Return the machine with failed parts taken out; ranks are renumbered from 0.

        Args:
            both_ways: whether a link has failed in its other direction too, if it has one.

        Raises:
            ParameterError: a link or rank to take out does not exist.
        """
        gone = set(_check_edges(links))
        if both_ways:
            gone |= {(dst, src) for src, dst in gone} & self.value.edges
        lost = list(ranks)
        for rank in lost:
            if not isinstance(rank, int):
                raise ParameterError(f"a rank is {rank!r:.60}, expected a whole number")
        return Topology(self.value.without(gone, lost))

    @checked
    def with_link(self, src: int, dst: int, lanes: int = 1, *, both_ways: bool = True) -> Topology:
        """Return the machine with a link more; where there is one, its lanes become more.

        Raises:
            TopologyError: the nodes or the lanes make no link.

        >>> import sccl
        >>> sccl.topology("ring:4").with_link(0, 2)
        Topology(ring:4-with-0to2-2to0: 4 ranks, 10 links)
        """
        edges = [(src, dst), (dst, src)] if both_ways else [(src, dst)]
        return Topology(self.value.plus(dict.fromkeys(edges, lanes)))

    @checked
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the topology to a JSON file and return its path.

        Raises:
            InputError: the file cannot be written.
        """
        write_atomically(Path(path), text_of(topology_to_wire(self.value)))
        return Path(path)

    def show(self) -> None:
        """Print links with lanes, diameter, degrees, budgets and costs."""
        print_topology(text_console(), self.value)

    def plot(self) -> Chart:
        """Return a drawing: ranks placed so that structure shows, links as wide as their lanes."""
        return Chart(view.topology_chart(self.value), self.name)

    def __repr__(self) -> str:
        return f"Topology({size_text(self.value)})"

    def _repr_html_(self) -> str:
        t = self.value
        costs = f"alpha {t.alpha_us:g} us per step, {t.gb_per_s:g} GB/s per lane and direction"
        return heading(size_text(t)) + paragraph(costs) + self.plot()._repr_html_()


def _check_edges(links: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return links as pairs of ranks.

    Raises:
        ParameterError: one is something else.
    """
    found = list(links)
    for link in found:
        pair = isinstance(link, tuple) and len(link) == 2
        if not pair or not all(isinstance(node, int) for node in link):
            raise ParameterError(f"a link is {link!r:.60}, expected (src, dst) such as (0, 4)")
    return found
