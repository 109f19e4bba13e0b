"""Describe machines, remove parts from them, and add links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sccl.api.arguments import check_arguments, check_wrapped_kind
from sccl.api.chart import Chart
from sccl.core import topology as core
from sccl.core.files.topologies import load_topology, write_topology
from sccl.errors import ParameterError
from sccl.topo import degrade
from sccl.topo.node_names import LinkName, parse_added_lanes, parse_links, parse_rank
from sccl.view import charts
from sccl.view.text.markup import heading, paragraph
from sccl.view.text.plan_text import costs_text, print_topology, size_text

if TYPE_CHECKING:
    import networkx as nx

_WIDTH = 160

Rank = int | str
"""A rank: its number, or its label on the machine (``"GPU0"``)."""

LinkLike = str | tuple[Rank, Rank] | tuple[Rank, Rank, int]
"""A link: ``(0, 4)``, ``("GPU0", "GPU4")``, ``(0, 3, 1)`` for one lane, or ``"0-4"``."""


def text_console() -> Console:
    """Return a console that prints plain text, in notebooks as well."""
    return Console(highlight=False, emoji=False, force_jupyter=False, width=_WIDTH)


@dataclass(frozen=True, slots=True, repr=False)
class Topology:
    """A machine: ranks, directed links, and the lanes of each link.

    Attributes:
        value: Topology of :mod:`sccl.core.topology`.

    Examples:
        >>> import sccl
        >>> sccl.topology("dgx1").without(links=[(0, 4)])
        Topology(dgx1-without-0to4-4to0: 8 ranks, 30 links)
    """

    value: core.Topology

    def __post_init__(self) -> None:
        check_wrapped_kind(self, core.Topology, "sccl.topology, or sccl.Topology.of")

    @classmethod
    @check_arguments
    def of(
        cls,
        name: str,
        links: Mapping[tuple[int, int], int],
        *,
        both_ways: bool = True,
        alpha_us: float = 1.0,
        gb_per_s: float = 25.0,
    ) -> Topology:
        """Return a machine with the given links. Its ranks are 0 to the largest rank of a link.

        Args:
            links: Lanes (chunks per round) by (src, dst).
            both_ways: Whether each link also exists in the other direction.
            alpha_us: Latency of a step, in microseconds.
            gb_per_s: Bandwidth of a lane, in 10^9 bytes per second.

        Raises:
            TopologyError: The description contradicts itself.

        Examples:
            >>> import sccl
            >>> sccl.Topology.of("triangle", {(0, 1): 1, (1, 2): 1, (2, 0): 2})
            Topology(triangle: 3 ranks, 6 links)
        """
        _check_edges(links)
        ranks = 1 + max((node for edge in links for node in edge), default=-1)
        directed_links = [
            core.Link(*edge, lanes, alpha_us, gb_per_s)
            for (src, dst), lanes in links.items()
            for edge in ([(src, dst), (dst, src)] if both_ways else [(src, dst)])
        ]
        return cls(core.Topology(name, ranks, tuple(directed_links), alpha_us, gb_per_s))

    @classmethod
    @check_arguments
    def load(cls, path: str | PathLike[str]) -> Topology:
        """Return the topology in a file.

        Raises:
            InputError: The file cannot be read, or is not a topology.

        Examples:
            >>> import sccl
            >>> sccl.Topology.load(sccl.topology("ring:4").save("ring.json"))
            Topology(ring:4: 4 ranks, 8 links)
        """
        return cls(load_topology(Path(path)))

    @property
    def name(self) -> str:
        """Return its name."""
        return self.value.name

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.value.ranks

    @property
    def links(self) -> dict[tuple[int, int], int]:
        """Return the lanes (chunks per round) of every link, by (src, dst)."""
        return self.value.lanes()

    @check_arguments
    def without(
        self,
        links: Iterable[LinkLike] = (),
        ranks: Iterable[Rank] = (),
        *,
        both_ways: bool = True,
    ) -> Topology:
        """Return the machine without failed parts. Ranks are renumbered from 0.

        Args:
            links: Failed links, each as ``(src, dst)``, as ``(src, dst, lanes)`` if only some lanes
                failed, or as ``"0-4"`` (both ways), ``"0>4"``, or ``"0-3:1"`` (one lane).
            ranks: Failed ranks, by number or label.
            both_ways: Whether a link ``(src, dst)`` also failed in the other direction, if it has
                one.

        Raises:
            ParameterError: A link, lane, or rank to remove does not exist.

        Examples:
            >>> import sccl
            >>> sccl.topology("dgx1").without(links=["0-3:1"]).links[0, 3]
            1
        """
        failed_ranks = [self._parse_rank(rank) for rank in ranks]
        failed_links = parse_links(
            self.value, [self._parse_link(link, both_ways) for link in links]
        )
        return Topology(
            degrade.remove_parts(
                self.value, failed_links.complete_links, failed_ranks, failed_links.lanes
            )
        )

    @check_arguments
    def with_link(
        self, src: Rank, dst: Rank, lanes: int = 1, *, both_ways: bool = True
    ) -> Topology:
        """Return the machine with an additional link. An existing link gets additional lanes.

        Raises:
            TopologyError: The nodes or the number of lanes are invalid.

        Examples:
            >>> import sccl
            >>> sccl.topology("ring:4").with_link(0, 2)
            Topology(ring:4-with-0to2-2to0: 4 ranks, 10 links)
        """
        return self.with_links([(src, dst, lanes)], both_ways=both_ways)

    @check_arguments
    def with_links(self, links: Iterable[LinkLike], *, both_ways: bool = True) -> Topology:
        """Return the machine with additional links, each as in :meth:`without`.

        Raises:
            InputError: The nodes or the number of lanes are invalid.

        Examples:
            >>> import sccl
            >>> sccl.topology("ring:4").with_links(["0-2", "1>3:2"])
            Topology(ring:4-with-0to2-1to3x2-2to0: 4 ranks, 11 links)
        """
        names = [self._parse_link(link, both_ways) for link in links]
        return Topology(degrade.add_links(self.value, parse_added_lanes(self.value, names)))

    def _parse_link(self, link: object, both_ways: bool) -> str | LinkName:
        """Return a link for :func:`sccl.topo.parse_links`.

        Raises:
            ParameterError: The value describes no link.
        """
        if isinstance(link, str):
            return link
        if not isinstance(link, tuple) or len(link) not in (2, 3):
            raise ParameterError(
                f"a link is {link!r:.60}, expected (src, dst) such as (0, 4), (0, 3, 1) for one "
                "lane of it, or '0-4'"
            )
        lanes = _require_int(link[2], "the lanes of a link are") if len(link) == 3 else None
        return LinkName(self._parse_rank(link[0]), self._parse_rank(link[1]), both_ways, lanes)

    def _parse_rank(self, rank: object) -> int:
        if isinstance(rank, str):
            return parse_rank(self.value, rank)
        return _require_int(rank, "a rank is")

    @check_arguments
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the topology to a JSON file and return its path.

        Raises:
            InputError: The file cannot be written.

        Examples:
            >>> import sccl
            >>> sccl.topology("ring:4").save("ring.json").name
            'ring.json'
        """
        write_topology(Path(path), self.value)
        return Path(path)

    def to_networkx(self) -> nx.DiGraph[int]:
        """Return the machine as a directed graph of networkx.

        Nodes are ranks, with their ``label``. Edges are links, with ``lanes``, and with
        ``alpha_us`` and ``gb_per_s`` of one lane. Shared budgets are not represented.

        Examples:
            >>> import networkx as nx, sccl
            >>> nx.diameter(sccl.topology("dgx1").to_networkx())
            2
        """
        import networkx as nx  # noqa: PLC0415 - slow to load, and rarely used

        graph = nx.DiGraph(name=self.name)
        for rank in range(self.ranks):
            graph.add_node(rank, label=self.value.label(rank))
        for link in self.value.links:
            costs = {"alpha_us": link.alpha_us, "gb_per_s": link.gb_per_s}
            graph.add_edge(*link.edge, lanes=link.lanes, **costs)
        return graph

    def show(self) -> None:
        """Print links with lanes, diameter, degrees, budgets, and costs.

        Examples:
            >>> import sccl
            >>> sccl.topology("ring:4").show()  # doctest: +ELLIPSIS
            ring:4: 4 ranks, 8 links
            alpha 0.7 us, 25 GB/s per lane and direction
            ...
        """
        print_topology(text_console(), self.value)

    def plot(self) -> Chart:
        """Return a drawing of the ranks and links, with line widths by lanes.

        Examples:
            >>> import sccl
            >>> sccl.topology("ring:4").plot().title
            'ring:4'
        """
        return Chart(charts.topology_chart(self.value), self.name)

    def __repr__(self) -> str:
        return f"Topology({size_text(self.value)})"

    def _repr_html_(self) -> str:
        costs = "".join(map(paragraph, costs_text(self.value)))
        return heading(size_text(self.value)) + costs + self.plot()._repr_html_()


def _require_int(value: object, label: str) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ParameterError(f"{label} {value!r:.60}, expected a whole number")
    return int(value)


def _check_edges(links: Iterable[tuple[int, int]]) -> None:
    """Check that links are pairs of ranks.

    Raises:
        ParameterError: A link is not a pair of ranks.
    """
    for link in links:
        pair = isinstance(link, tuple) and len(link) == 2
        if not pair or not all(isinstance(node, int) for node in link):
            raise ParameterError(f"a link is {link!r:.60}, expected (src, dst) such as (0, 4)")
