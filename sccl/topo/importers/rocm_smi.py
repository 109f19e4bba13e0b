"""Read ``rocm-smi --showtopo`` or ``amd-smi topology``: the links of each pair of AMD GPUs.

A weight of 15 is one hop over xGMI, 30 is two: the pair then passes another GPU and has no direct
link. Over PCIe each end weighs 20 and the path between CPUs the rest (ROCm/rocm-systems, issue
5763). The table of hops has 1 for every pair on xGMI, at any distance. A bandwidth is a range, from
one link to all links of a pair, where 0-0 is a pair without a direct link (ROCm/rocm_smi_lib,
rocm_smi.py, --shownodesbw). Without it, the number of xGMI links of a pair is not known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

from sccl.core.formatting import format_count
from sccl.core.ids import Edge
from sccl.errors import FormatError, InputError
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.gpu_pairs import (
    NODE,
    SOCKETS,
    SWITCH,
    GpuPairs,
    Speeds,
    build_machine,
    gpus_text,
)
from sccl.topo.importers.common.gpus import (
    XGMI,
    Gpu,
    check_partitions,
    describe_impossible_links,
    describe_speed,
    parse_gpu,
)
from sccl.topo.importers.common.rocm_tables import (
    HOPS,
    LINKS,
    SPEEDS,
    WEIGHT,
    Tables,
    has_titles,
    parse_tables,
)
from sccl.topo.importers.common.unused_fields import unused_names

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

_NO_BANDWIDTH = (0, 0)
"""Bandwidth of a pair without a direct link."""

_SAME_SWITCH, _SAME_CPU = 20, 40
"""Weights of a PCIe path with one end, and with two ends and nothing between CPUs."""

_DEFAULT_PCIE = 4
"""PCIe generation if the GPU model is unknown."""


def sniff(text: str) -> bool:
    """Return whether a line is the title of such a table."""
    return has_titles(text)


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that tables describe.

    Raises:
        InputError: They are invalid, or no row has a pair of GPUs.
    """
    tables = parse_tables(text)
    gpu = None if hints.gpu is None else parse_gpu(hints.gpu)
    if gpu is not None and gpu.link != XGMI:
        raise InputError(
            f"{gpu.name} is not an AMD GPU, and the tables come from ROCm SMI: give another --gpu"
        )
    links = _links(tables)
    lanes, lane = _lanes(tables, links)
    bus_ids = tables.gpus if ":" in tables.gpus[0] else ()
    if lanes:
        check_partitions(bus_ids)
    counts = GpuPairs(len(tables.gpus), lanes, {}, ())
    kind = gpu or _guess_gpu(counts, links)
    if lanes and not lane:
        _check_links(counts, gpu)
    speeds = Speeds(
        XGMI,
        lane or (kind.gb_per_s if kind else 0.0),
        sum(lanes.values()),
        kind.pcie if kind else _DEFAULT_PCIE,
    )
    places = tuple(tables.numa.get(gpu, "") for gpu in range(len(tables.gpus)))
    pairs = GpuPairs(len(tables.gpus), lanes, _paths(tables, links), places)
    built = build_machine(pairs, speeds, hints, ABOUT)
    return Imported(
        replace(built.topology, pci_bus_ids=bus_ids),
        (*_understood_notes(tables, links, lanes), *built.understood),
        (
            *_assumption_notes(tables, lanes, kind, lane, hints),
            *(f"questioned: {line}" for line in _link_warnings(counts, [gpu] if gpu else [])),
            *built.assumed,
        ),
    )


def _links(tables: Tables) -> dict[Edge, str]:
    """Return the type of link of each pair: XGMI, PCIE, or the word for an unknown one.

    Some listings have types instead of weights. If there are only weights, 15 and its multiples
    are xGMI.

    Raises:
        FormatError: A pair has no row, or its word is invalid.
    """
    if LINKS not in tables.rows and WEIGHT not in tables.rows:
        raise FormatError(
            "it has no table of link types and no table of weights: give the whole output of "
            "rocm-smi --showtopo"
        )
    words = tables.words(LINKS) or tables.words(WEIGHT)
    links = {pair: _parse_link(word, pair) for pair, word in words.items()}
    untold = [pair for pair in combinations(range(len(tables.gpus)), 2) if pair not in links]
    if untold:
        a, b = untold[0]
        missing = sorted({gpu for pair in untold for gpu in pair})
        raise FormatError(
            f"rows of {gpus_text(missing)} are missing, and no other row has the link between "
            f"GPU{a} "
            f"and GPU{b}: give the whole output"
        )
    return links


def _parse_link(word: str, pair: Edge) -> str:
    if word in {_XGMI, _PCIE} or word in _UNKNOWN:
        return word
    weight = _parse_number(word)
    if weight is None:
        raise FormatError(
            f"{word[:40]!r} stands where GPU{pair[0]} and GPU{pair[1]} are joined, expected "
            f"{_XGMI}, {_PCIE}, {', '.join(sorted(_UNKNOWN))} or a weight"
        )
    return _PCIE if weight % _HOP else _XGMI


def _parse_number(word: str) -> int | None:
    return int(word) if len(word) < 7 and word.isascii() and word.isdigit() else None


def _weights(tables: Tables) -> dict[Edge, int]:
    """Return the weights of pairs that have one in the table."""
    words = {pair: _parse_number(word) for pair, word in tables.words(WEIGHT).items()}
    return {pair: weight for pair, weight in words.items() if weight is not None}


def _lanes(tables: Tables, links: dict[Edge, str]) -> tuple[dict[Edge, int], float]:
    """Return the lanes of pairs that xGMI joins directly, and a lane's GB/s (0: unknown).

    The bandwidth of a lane is the smallest lower end of the ranges, if ranges are known.
    """
    speeds = _bandwidths(tables)
    direct = [pair for pair, link in links.items() if link == _XGMI and _is_direct(tables, pair)]
    lows = [
        speeds[pair][0] or speeds[pair][1] for pair in direct if speeds.get(pair, _NO_BANDWIDTH)[1]
    ]
    if not lows:
        return dict.fromkeys(direct, 1), 0.0
    lane = min(lows)
    return {
        pair: max(1, round(speeds.get(pair, _NO_BANDWIDTH)[1] / lane)) for pair in direct
    }, lane / 1000


def _is_direct(tables: Tables, pair: Edge) -> bool:
    """Return whether a pair of type XGMI has a direct link according to the tables."""
    weight, speed = _weights(tables).get(pair), _bandwidths(tables).get(pair)
    if weight is not None:
        return weight <= _HOP
    return speed is None or speed != _NO_BANDWIDTH


def _bandwidths(tables: Tables) -> dict[Edge, tuple[int, int]]:
    """Return the ranges of bandwidths of pairs, MB/s. Empty: no pair has one."""
    words = tables.words(SPEEDS)
    ranges = {pair: _parse_range(word) for pair, word in words.items()}
    speeds = {pair: speed for pair, speed in ranges.items() if speed is not None}
    return speeds if any(speed != _NO_BANDWIDTH for speed in speeds.values()) else {}


def _parse_range(word: str) -> tuple[int, int] | None:
    """Parse the ends of a range ``50000-100000`` in MB/s, None if the text is no range."""
    low, dash, high = word.partition("-")
    ends = _parse_number(low), _parse_number(high)
    return (ends[0], ends[1]) if dash and ends[0] is not None and ends[1] is not None else None


def _guess_gpu(pairs: GpuPairs, links: dict[Edge, str]) -> Gpu | None:
    """Guess a GPU that can have these links, None if there is no xGMI."""
    if not pairs.lanes:
        return None
    far = list(links.values()).count(_XGMI) > len(pairs.lanes)
    names = ("mi250x", "mi50") if far and pairs.gpus >= 8 else ("mi50",) if far else ()
    kinds = [parse_gpu(name) for name in (*names, "mi210", "mi300x", "mi250x", "mi300a")]
    fits = (kind for kind in kinds if not _link_warnings(pairs, [kind]))
    return next(fits, kinds[0])


def _link_warnings(pairs: GpuPairs, gpus: list[Gpu]) -> list[str]:
    each = range(pairs.gpus)
    links = [pairs.count_links(gpu) for gpu in each]
    peers = [sum(gpu in pair for pair in pairs.lanes) for gpu in each]
    return describe_impossible_links(XGMI, links, peers, gpus)


def _check_links(pairs: GpuPairs, gpu: Gpu | None) -> None:
    """Check that no GPU has more links than its model allows.

    Raises:
        InputError: One has.
    """
    for question in _link_warnings(pairs, [gpu] if gpu else []):
        advice = (
            "give another --gpu"
            if gpu
            else "if GPUs are partitions that share links, set the devices to one partition each "
            "(rocm-smi --setcomputepartition SPX); if weights are missing, print them, too"
        )
        raise InputError(f"{question}: {advice}")


def _paths(tables: Tables, links: dict[Edge, str]) -> dict[Edge, int]:
    """Return the distance classes of PCIe paths, by weight, hops, or NUMA nodes."""
    weights = _weights(tables)
    hops = {pair: _parse_number(word) for pair, word in tables.words(HOPS).items()}
    paths = {}
    for pair in (pair for pair, link in links.items() if link == _PCIE):
        a, b = (tables.numa.get(gpu) for gpu in pair)
        far = weights.get(pair) or (hops.get(pair) or 0) * _SAME_SWITCH
        if not far:
            far = _SAME_CPU + (a != b)
        paths[pair] = NODE if far <= _SAME_CPU else SOCKETS
        if far <= _SAME_SWITCH:
            paths[pair] = SWITCH
    return paths


def _understood_notes(tables: Tables, links: dict[Edge, str], lanes: dict[Edge, int]) -> list[str]:
    count = ", ".join(
        f"{format_count(n, 'pair')} {w}" for w, n in sorted(Counter(links.values()).items())
    )
    lines = [
        f"{format_count(len(tables.gpus), 'GPU')}: {count}",
        f"tables of {', '.join(tables.rows)}" + (", NUMA nodes" if tables.numa else ""),
    ]
    through = list(links.values()).count(_XGMI) - len(lanes)
    if through:
        by = f"weight {_HOP}" if _weights(tables) else "some bandwidth"
        others = "of more" if _weights(tables) else "of none"
        lines.append(
            f"{format_count(len(lanes), 'pair')} of {by}, joined directly; {through} {others}, "
            "which pass other GPUs and have no direct link"
        )
    if tables.errors:
        lines.append(f"{format_count(tables.errors, 'line')} of errors, ignored")
    if tables.unused:
        lines.append(f"not used: {unused_names(tables.unused)}")
    if tables.unread:
        many, first = format_count(len(tables.unread), "line"), tables.unread[0]
        lines.append(f"not used: {many} within tables that are no rows, the first is line {first}")
    return lines


def _assumption_notes(
    tables: Tables,
    lanes: dict[Edge, int],
    kind: Gpu | None,
    lane: float,
    hints: Hints,
) -> list[str]:
    lines = []
    if set(_links(tables).values()) & _UNKNOWN:
        lines.append("pairs of unknown type have no direct link")
    if kind is None:
        return [*lines, "the GPU model is not in the output: --gpu sets it"]
    weights, speeds = _weights(tables), _bandwidths(tables)
    untold = [pair for pair in lanes if pair not in weights and pair not in speeds]
    if untold:
        lines.append(
            f"{format_count(len(untold), 'pair')} of type XGMI without weight and bandwidth "
            "assumed to have a direct link"
        )
    if differ := [
        p for p in weights if p in speeds and (p in lanes) != (speeds[p] != _NO_BANDWIDTH)
    ]:
        lines.append(
            f"weights and bandwidths disagree on direct links ({len(differ)} pairs, the first is "
            f"{gpus_text(differ[0])}): the weights are used"
        )
    if lane:
        lines.append(f"an xGMI lane has the lowest bandwidth in the file, {lane:g} GB/s")
        single_links = sum(not speeds.get(pair, _NO_BANDWIDTH)[1] for pair in lanes)
        if single_links:
            lines.append(
                f"{format_count(single_links, 'pair')} without a bandwidth has one xGMI link"
            )
        return lines
    if lanes:
        lines.append(
            "a pair has one xGMI link: the file does not give the number, change it in the machine"
        )
        guess = "" if hints.gpu else f"GPU model: {kind.name}, by the number of links of each: "
        lines.append(f"{guess}{describe_speed(kind)}; --gpu overrides it")
    return lines
