"""Read msccl-tools' topologies: links as a matrix of chunks per round, and switches.

``links[dst][src]`` is the number of chunks per round on that link. A switch is ``[srcs, dsts,
bandwidth, name]``, and all traffic from its sources to its destinations shares it. Older files have
``sccl_type``. In an algorithm's file, the embedded topology is read. TACCL's algorithm files have
another topology, that of nodes (:mod:`.taccl_nodes`).
"""

from __future__ import annotations

from itertools import product
from typing import Annotated

import msgspec
from msgspec import Meta

from sccl.core.formatting import format_count
from sccl.core.topology import Budget, Link, Topology
from sccl.errors import FormatError, TooLargeError
from sccl.topo.importers.common import taccl_nodes
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.unused_fields import decoded_json, unused_field_paths, unused_line

NAME = "msccl-topology"
ABOUT = "topology JSON of msccl-tools"
SOURCE = "microsoft/msccl-tools, msccl/serialization.py and msccl/topologies"
EXAMPLE = '{"msccl_type": "topology", "name": "pair", "switches": [], "links": [[0, 2], [2, 0]]}'

MAX_RANKS = 1024
MAX_PAIRS = 2**20
"""Maximum number of pairs of ranks that all switches together join."""

_GB_PER_S, _ALPHA_US = 25.0, 0.7
"""Defaults for lanes and links without data: NVLink 2, with the alpha of TACCL's Table 1."""

_TYPES = frozenset({"msccl_type", "sccl_type"})
"""Fields that name the type of a file."""

_Row = Annotated[list[int], Meta(max_length=MAX_RANKS)]
_Switch = tuple[_Row, _Row, int, str]


class _File(msgspec.Struct, frozen=True):
    name: str
    links: Annotated[list[_Row], Meta(max_length=MAX_RANKS)]
    switches: Annotated[list[_Switch], Meta(max_length=4 * MAX_RANKS)] = []


class _Algorithm(msgspec.Struct, frozen=True):
    topology: _File | None = None


def sniff(text: str) -> bool:
    """Return whether a text has the type of such a topology."""
    head = text[:4096] + text[-4096:]
    return '"topology"' in head and ('"msccl_type"' in head or '"sccl_type"' in head)


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a text describes.

    Raises:
        InputError: The text is no such topology.
    """
    if taccl_nodes.is_of_taccl(text):
        return taccl_nodes.read(text, hints)
    try:
        embedded = msgspec.json.decode(text, type=_Algorithm).topology
        file = embedded or msgspec.json.decode(text, type=_File)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(f"no topology of msccl-tools ({error}); expected {EXAMPLE}") from error
    alpha_us = _ALPHA_US if hints.alpha_us is None else hints.alpha_us
    links = _links(file, alpha_us)
    topology = Topology(
        name=file.name or hints.name,
        ranks=len(file.links),
        links=links,
        alpha_us=alpha_us,
        gb_per_s=_GB_PER_S,
        budgets=_budgets(file, {link.edge for link in links}),
        source=f"imported: {ABOUT}",
    )
    lanes = sum(link.lanes for link in links)
    idle = len(file.switches) - len(topology.budgets)
    names = unused_field_paths(decoded_json(text), _Algorithm if embedded else _File, _TYPES)
    unused = (name for name in names if not embedded or name.startswith("topology."))
    understood = (
        f"{len(file.links)} ranks and {len(links)} links, {lanes} chunks per round over all",
        f"{format_count(len(file.switches), 'switch')}, each a limit on the chunks per round"
        + (f"; {idle} of them on no link's path" if idle else ""),
        *unused_line(unused),
    )
    assumed = [f"a lane is a chunk per round, of {_GB_PER_S:g} GB/s (NVLink 2)"]
    if hints.alpha_us is None:
        assumed.append(f"alpha is {alpha_us:g} us (TACCL, Table 1); --alpha-us overrides it")
    return Imported(topology, understood, tuple(assumed))


def _links(file: _File, alpha_us: float) -> tuple[Link, ...]:
    links, ranks = [], len(file.links)
    for dst, row in enumerate(file.links):
        if len(row) != ranks:
            raise FormatError(
                f"links[{dst}] has {len(row)} columns, expected {ranks}: one for each row"
            )
        for src, lanes in enumerate(row):
            if lanes < 0:
                raise FormatError(f"links[{dst}][{src}] is {lanes}, expected 0 or more lanes")
            if lanes:
                links.append(Link(src, dst, lanes, alpha_us, _GB_PER_S))
    return tuple(links)


def _budgets(file: _File, edges: set[tuple[int, int]]) -> tuple[Budget, ...]:
    """Return the budgets of switches, numbered to distinguish equal names.

    A switch between ranks without links limits nothing, as in msccl-tools.
    """
    budgets = []
    pairs = sum(len(sources) * len(goals) for sources, goals, *_ in file.switches)
    if pairs > MAX_PAIRS:
        raise TooLargeError(f"its switches join {pairs} pairs of ranks, and {MAX_PAIRS} are read")
    for i, (sources, goals, lanes, name) in enumerate(file.switches):
        shared = sorted(edges & set(product(sources, goals)))
        if lanes < 1:
            raise FormatError(f"switches[{i}] lets {lanes} chunks pass, expected 1 or more")
        if shared:
            budgets.append(Budget(f"{name} {i}", tuple(shared), lanes))
    return tuple(budgets)
