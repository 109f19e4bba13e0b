"""What ``rocm-smi --showtopo`` or ``amd-smi topology`` prints: what joins each pair of AMD GPUs.

A weight of 15 is one hop over xGMI, 30 are two of them: then the pair passes another GPU and has no
link of its own. Over PCIe each end weighs 20 and what is between CPUs the rest (ROCm/rocm-systems,
issue 5763); the table of hops has 1 for all that xGMI joins, however far. How many xGMI links join
a pair is in none of the tables.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

from sccl.core.ids import Edge
from sccl.core.words import counted
from sccl.errors import FormatError, InputError
from sccl.topo.importers.contract import Hints, Imported
from sccl.topo.importers.gpus import XGMI, Gpu, gpu_of_user, speed_said
from sccl.topo.importers.pairs import NODE, SOCKETS, SWITCH, Pairs, Speeds, build, named
from sccl.topo.importers.rocm_tables import (
    HOPS,
    LINKS,
    SPEEDS,
    WEIGHT,
    Tables,
    has_titles,
    tables_of,
)

NAME = "rocm-smi"
ABOUT = "tables of rocm-smi --showtopo, or of amd-smi topology"
SOURCE = "ROCm/rocm_smi_lib, python_smi_tools; ROCm/amdsmi, CHANGELOG.md"
EXAMPLE = """\
=================== Weight between two GPUs ====================
       GPU0         GPU1         GPU2
GPU0   0            15           72
GPU1   15           0            72
GPU2   72           72           0
================== Link Type between two GPUs ==================
       GPU0         GPU1         GPU2
GPU0   0            XGMI         PCIE
GPU1   XGMI         0            PCIE
GPU2   PCIE         PCIE         0
========================== Numa Nodes ==========================
GPU[0]          : (Topology) Numa Node: 0
GPU[1]          : (Topology) Numa Node: 0
GPU[2]          : (Topology) Numa Node: 1
"""

_XGMI, _PCIE, _UNKNOWN = "XGMI", "PCIE", frozenset({"XXXX", "N/A", "UNKNOWN"})
_HOP = 15
"""Weight of one xGMI link."""

_SAME_SWITCH, _SAME_CPU = 20, 40
"""Weights of a path over PCIe that has one end, and two and nothing between CPUs."""

_PCIE_OF_MOST = 4
"""Generation of PCIe where nothing tells which GPUs they are."""


def sniff(text: str) -> bool:
    """Return whether some line is the title of such a table."""
    return has_titles(text)


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that tables describe.

    Raises:
        InputError: they do not, or a pair of GPUs is told by no row.
    """
    tables = tables_of(text)
    gpu = None if hints.gpu is None else gpu_of_user(hints.gpu)
    if gpu is not None and gpu.link != XGMI:
        raise InputError(f"{gpu.name} is no GPU of AMD, whose tables these are: give another --gpu")
    links = _links(tables)
    lanes, lane = _lanes(tables, links)
    kind = gpu or _guessed(tables, lanes)
    speeds = Speeds(
        XGMI,
        lane or (kind.gb_per_s if kind else 0.0),
        sum(lanes.values()),
        kind.pcie if kind else _PCIE_OF_MOST,
    )
    places = tuple(tables.numa.get(gpu, "") for gpu in range(len(tables.gpus)))
    pairs = Pairs(len(tables.gpus), lanes, _paths(tables, links), places)
    built = build(pairs, speeds, hints, ABOUT)
    bus_ids = tables.gpus if ":" in tables.gpus[0] else ()
    return Imported(
        replace(built.topology, pci_bus_ids=bus_ids),
        (*_told(tables, links, lanes), *built.understood),
        (*_assumed(tables, links, kind, lane, hints), *built.assumed),
    )


def _links(tables: Tables) -> dict[Edge, str]:
    """Return the type of link of each pair: XGMI, PCIE, or what stands for an unknown one.

    Some listings have types where weights should be; where there are only weights, 15 and its
    multiples are of xGMI.

    Raises:
        FormatError: a pair is told by no row, or its word is none of these.
    """
    if LINKS not in tables.rows and WEIGHT not in tables.rows:
        raise FormatError(
            "it has neither a table of link types nor one of weights: give the whole output of "
            "rocm-smi --showtopo"
        )
    words = tables.words(LINKS) or tables.words(WEIGHT)
    found = {pair: _link(word, pair) for pair, word in words.items()}
    untold = [pair for pair in combinations(range(len(tables.gpus)), 2) if pair not in found]
    if untold:
        a, b = untold[0]
        missing = sorted({gpu for pair in untold for gpu in pair})
        raise FormatError(
            f"rows of {named(missing)} are missing, and what joins GPU{a} and GPU{b} is in no "
            "other: give the whole output"
        )
    return found


def _link(word: str, pair: Edge) -> str:
    if word in {_XGMI, _PCIE} or word in _UNKNOWN:
        return word
    weight = _number(word)
    if weight is None:
        raise FormatError(
            f"{word[:40]!r} stands where GPU{pair[0]} and GPU{pair[1]} are joined, expected "
            f"{_XGMI}, {_PCIE}, {', '.join(sorted(_UNKNOWN))} or a weight"
        )
    return _PCIE if weight % _HOP else _XGMI


def _number(word: str) -> int | None:
    return int(word) if len(word) < 7 and word.isascii() and word.isdigit() else None


def _weights(tables: Tables) -> dict[Edge, int]:
    """Return the weights of pairs, where the table has them."""
    words = {pair: _number(word) for pair, word in tables.words(WEIGHT).items()}
    return {pair: weight for pair, weight in words.items() if weight is not None}


def _lanes(tables: Tables, links: dict[Edge, str]) -> tuple[dict[Edge, int], float]:
    """Return the lanes of pairs that xGMI joins directly, and a lane's GB/s; 0: not told.

    Where bandwidths are told, the least is a lane's.
    """
    weights = _weights(tables)
    direct = [p for p, link in links.items() if link == _XGMI and weights.get(p, _HOP) <= _HOP]
    told = {pair: _bandwidth(word) for pair, word in tables.words(SPEEDS).items()}
    known = [told[pair] for pair in direct if told.get(pair)]
    if len(known) < len(direct) or not known:
        return dict.fromkeys(direct, 1), 0.0
    least = min(known)
    return {pair: round(told[pair] / least) for pair in direct}, least / 1000


def _bandwidth(word: str) -> int:
    """Return the highest of ``50000-100000``, MB/s; 0 where it is not told."""
    return _number(word.rpartition("-")[2]) or 0


def _guessed(tables: Tables, lanes: dict[Edge, int]) -> Gpu | None:
    """Return a GPU that is joined so, None where no xGMI is."""
    if not lanes:
        return None
    most = max(Counter(gpu for pair in lanes for gpu in pair).values())
    if any(weight == 2 * _HOP for weight in _weights(tables).values()):
        return gpu_of_user("mi250x" if len(tables.gpus) >= 8 else "mi50")
    return gpu_of_user("mi210" if most <= 3 else "mi300x")


def _paths(tables: Tables, links: dict[Edge, str]) -> dict[Edge, int]:
    """Return how far the paths of pairs over PCIe go: by weight, hops, or NUMA nodes."""
    weights = _weights(tables)
    hops = {pair: _number(word) for pair, word in tables.words(HOPS).items()}
    found = {}
    for pair in (pair for pair, link in links.items() if link == _PCIE):
        a, b = (tables.numa.get(gpu) for gpu in pair)
        far = weights.get(pair) or (hops.get(pair) or 0) * _SAME_SWITCH
        if not far:
            far = _SAME_CPU + (a != b)
        found[pair] = NODE if far <= _SAME_CPU else SOCKETS
        if far <= _SAME_SWITCH:
            found[pair] = SWITCH
    return found


def _told(tables: Tables, links: dict[Edge, str], lanes: dict[Edge, int]) -> list[str]:
    count = ", ".join(
        f"{counted(n, 'pair')} {w}" for w, n in sorted(Counter(links.values()).items())
    )
    lines = [
        f"{counted(len(tables.gpus), 'GPU')}: {count}",
        f"tables of {', '.join(tables.rows)}" + (", NUMA nodes" if tables.numa else ""),
    ]
    through = list(links.values()).count(_XGMI) - len(lanes)
    if through:
        lines.append(
            f"{counted(len(lanes), 'pair')} of weight {_HOP}, joined directly; {through} of more, "
            "which pass other GPUs and have no link of their own"
        )
    if tables.errors:
        lines.append(f"{counted(tables.errors, 'line')} of errors, passed over")
    return lines


def _assumed(
    tables: Tables, links: dict[Edge, str], kind: Gpu | None, lane: float, hints: Hints
) -> list[str]:
    lines = []
    types = set(links.values())
    if types & _UNKNOWN:
        lines.append("what joins pairs of unknown type is not told: they have no link of their own")
    if kind is None:
        return [*lines, "which GPUs these are is not told: --gpu says it"]
    if _XGMI in types and not _weights(tables):
        lines.append(
            "weights are not available: every pair of type XGMI is taken to be joined directly"
        )
    if lane:
        return [*lines, f"an xGMI lane is the least bandwidth that is told, {lane:g} GB/s"]
    lines.append("a pair has one xGMI link: how many there are is not told, change it in the file")
    guess = "" if hints.gpu else f"the GPUs are {kind.name}, by how many each is joined to: "
    lines.append(f"{guess}{speed_said(kind)}; --gpu says otherwise")
    return lines
