"""Read the output of ``nvidia-smi topo -m``: a word for each pair of GPUs, and of GPUs and NICs.

Missing rows are allowed if the present rows determine the other pairs. MetaX prints such a matrix
too, with MX for its links, without their number.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

from sccl.core.formatting import format_count
from sccl.core.ids import Edge
from sccl.core.topology import ASCENDING
from sccl.errors import FormatError, InputError
from sccl.topo.chassis_network import Nic
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.gpu_pairs import (
    GpuPairs,
    Speeds,
    build_machine,
    check_cards,
    gpus_text,
)
from sccl.topo.importers.common.gpus import (
    GPUS,
    METAX,
    NVLINK,
    Gpu,
    describe_speed,
    max_links,
    parse_gpu,
)
from sccl.topo.importers.common.nvidia_matrix import MX, PATHS, Matrix, has_gpu_row, parse_matrix
from sccl.topo.importers.common.unused_fields import unused_names

NAME = "nvidia-smi"
ABOUT = "matrix of nvidia-smi topo -m"
SOURCE = "NVIDIA, nvidia-smi manual page, section on topo; its legend"
EXAMPLE = """\
\tGPU0\tGPU1\tGPU2\tmlx5_0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV2\tSYS\tPIX\t0-19\t0
GPU1\tNV2\t X \tSYS\tPIX\t0-19\t0
GPU2\tSYS\tSYS\t X \tSYS\t20-39\t1
mlx5_0\tPIX\tPIX\tSYS\t X \t\t
"""

_GPUS_BY_LINKS = tuple(map(parse_gpu, ("v100", "h800", "a100", "h100", "b200")))
_FOUR_LINK_GPUS = parse_gpu("p100"), parse_gpu("a6000")
"""GPUs with four links: linked to several GPUs, and linked to one GPU over a bridge."""

_MAX_LINKS = max_links(NVLINK)
_PAIR, _BOARD = 2, 4
"""Number of GPUs of a pair, and of a board whose GPUs are all directly joined."""

_UNKNOWN_PCIE = 4
"""PCIe generation if the GPU model is unknown."""

_METAX_GB_PER_S = 25.0


def sniff(text: str) -> bool:
    """Return whether a line is the row of a GPU, with an X on the diagonal."""
    return has_gpu_row(text)


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a matrix describes.

    Raises:
        InputError: The text is no matrix, or a needed row is missing.
    """
    matrix = parse_matrix(text)
    check_cards(len(matrix.nics))
    gpu = None if hints.gpu is None else parse_gpu(hints.gpu)
    pairs, filled = _read_pairs(matrix, gpu.links if gpu and gpu.links else _MAX_LINKS)
    if gpu is not None:
        _check_gpu(gpu, matrix)
    links = _max_gpu_links(pairs, gpu)
    kind = gpu or (None if _is_metax(matrix) else _guess_gpu(pairs, links))
    built = build_machine(pairs, _speeds(kind, matrix, pairs, links), hints, ABOUT)
    topology = replace(built.topology, pci_bus_ids=() if _is_metax(matrix) else ASCENDING)
    assumed = (
        *_row_notes(matrix, filled),
        *_gpu_notes(kind, matrix, pairs, hints),
        *_alternative_notes(pairs, gpu, links),
        *built.assumed,
    )
    nics = tuple(
        Nic(name, gpus, None, None) for name, gpus in _nearest_gpus(matrix).items() if gpus
    )
    return Imported(topology, (*_understood_notes(matrix), *built.understood), assumed, nics)


def _read_pairs(matrix: Matrix, links: int) -> tuple[GpuPairs, tuple[Edge, ...]]:
    """Return the links of each pair, and the pairs without a row, which switches must join.

    Raises:
        FormatError: A pair has no row, and no switches join it.
    """
    words = matrix.words()
    lanes = {pair: _lanes(word) for pair, word in words.items() if word not in PATHS}
    paths = {pair: PATHS[word] for pair, word in words.items() if word in PATHS}
    pairs = GpuPairs(matrix.gpus, lanes, paths, matrix.affinities)
    filled = tuple(combinations(matrix.missing, 2))
    if not filled:
        return pairs, ()
    switched = pairs.switched_gpus(links)
    for a, b in filled:
        if a not in switched or b not in switched:
            raise FormatError(
                f"rows of {gpus_text(matrix.missing)} are missing, and no other row has the link "
                f"between GPU{a} and GPU{b}: give the whole output"
            )
    max_lanes = {gpu: max(n for pair, n in lanes.items() if gpu in pair) for gpu in matrix.missing}
    more = {(a, b): min(max_lanes[a], max_lanes[b]) for a, b in filled}
    return replace(pairs, lanes=lanes | more), filled


def _lanes(word: str) -> int:
    return 1 if word == MX else int(word[2:])


def _check_gpu(gpu: Gpu, matrix: Matrix) -> None:
    for (a, b), word in matrix.words().items():
        links = gpu.links if gpu.link == NVLINK else 0
        if word.startswith("NV") and _lanes(word) > links:
            raise InputError(
                f"GPU{a} and GPU{b} are joined by {format_count(_lanes(word), 'NVLink')}, and a "
                "GPU of "
                f"the kind {gpu.name} has {links}: give another --gpu"
            )


def _max_gpu_links(pairs: GpuPairs, gpu: Gpu | None) -> int:
    """Return the maximum number of NVLinks of a GPU. If its pairs show more, they lead to switches.

    NVLinks also lead to switches if each pair has the total number of links of a GPU that occurs
    with NVSwitches. The exception is a board that joins its pairs directly with that number of
    links, since a matrix may show only some GPUs of a machine.
    """
    alike = _uniform_links(pairs)
    kinds = [gpu] if gpu else list(GPUS)
    if alike and not _is_direct_board(alike, kinds) and _switched_kinds(alike, kinds):
        return alike
    return gpu.links if gpu and gpu.links else _MAX_LINKS


def _uniform_links(pairs: GpuPairs) -> int:
    """Return the number of NVLinks per pair if it is equal for all of 3 or more GPUs, else 0."""
    counts = {*pairs.lanes.values()}
    is_complete = len(pairs.lanes) == pairs.gpus * (pairs.gpus - 1) // 2
    return max(counts) if pairs.gpus > _PAIR and is_complete and len(counts) == 1 else 0


def _is_direct_board(lanes: int, kinds: list[Gpu]) -> bool:
    """Return whether boards of four GPUs join each pair with that number of direct links."""
    return any(kind.link == NVLINK and kind.links // (_BOARD - 1) == lanes for kind in kinds)


def _switched_kinds(lanes: int, kinds: list[Gpu]) -> list[str]:
    """Return the GPUs with that number of links to NVSwitches."""
    return [kind.name for kind in kinds if kind.on_switches and kind.links == lanes]


def _alternative_notes(pairs: GpuPairs, gpu: Gpu | None, links: int) -> list[str]:
    """Describe the alternative that links read as direct links lead to switches."""
    alike = _uniform_links(pairs)
    others = _switched_kinds(alike, list(GPUS)) if alike and not gpu else []
    if not others or pairs.switched_gpus(links) or pairs.gpus >= _BOARD:
        return []
    line = (
        f"{alike} NVLinks of each pair join it directly, as on boards of four GPUs; {others[0]} "
        f"has as many in all, which lead to switches: --gpu {others[0]} reads it so"
    )
    return [line]


def _guess_gpu(pairs: GpuPairs, max_links: int) -> Gpu | None:
    """Guess the GPU from the number of NVLinks, None if there are no NVLinks."""
    if not pairs.lanes:
        return None
    links = _seen_gpu_links(pairs, max_links)
    if links == 4:
        bridged = len(pairs.lanes) == len({gpu for pair in pairs.lanes for gpu in pair}) // 2
        return _FOUR_LINK_GPUS[bridged]
    return next((gpu for gpu in _GPUS_BY_LINKS if gpu.links >= links), _GPUS_BY_LINKS[-1])


def _seen_gpu_links(pairs: GpuPairs, max_links: int) -> int:
    """Return the maximum number of NVLinks of a GPU in the matrix."""
    if pairs.switched_gpus(max_links):
        return max(pairs.lanes.values())
    return max(pairs.count_links(gpu) for gpu in range(pairs.gpus))


def _speeds(kind: Gpu | None, matrix: Matrix, pairs: GpuPairs, max_links: int) -> Speeds:
    pcie = kind.pcie if kind else _UNKNOWN_PCIE
    if _is_metax(matrix):
        return Speeds(METAX, _METAX_GB_PER_S, pairs.gpus, pcie)
    if kind is None or not kind.links:
        return Speeds(NVLINK, 0.0, _MAX_LINKS, pcie)
    links = max(min(kind.links, max_links), *pairs.lanes.values(), 0)
    return Speeds(NVLINK, kind.gb_per_s, links, pcie)


def _is_metax(matrix: Matrix) -> bool:
    return MX in matrix.words().values()


def _understood_notes(matrix: Matrix) -> tuple[str, ...]:
    count = Counter(matrix.words().values())
    each = ", ".join(f"{format_count(n, 'pair')} {word}" for word, n in sorted(count.items()))
    lines = [f"{format_count(matrix.gpus, 'GPU')}: {each}"]
    if matrix.nics:
        nearest = _nearest_gpus(matrix)
        near = [f"{name} ({gpus_text(gpus)})" for name, gpus in nearest.items() if gpus]
        rest = [name for name, gpus in nearest.items() if not gpus]
        others = f"; not nearest to any GPU: {', '.join(rest)}" if rest else ""
        nics = format_count(len(matrix.nics), "NIC")
        lines.append(f"{nics}; nearest NIC by GPU: {', '.join(near)}{others}")
    if matrix.unread:
        lines.append(f"not used: rows of {unused_names(matrix.unread)}, which are not whole")
    return tuple(lines)


def _nearest_gpus(matrix: Matrix) -> dict[str, tuple[int, ...]]:
    """Return the GPUs nearest to each NIC, by the present rows."""
    nearest_gpus: dict[str, list[int]] = {name: [] for name in matrix.nics}
    for gpu, row in matrix.rows.items():
        words = dict(zip(matrix.nics, row[matrix.gpus :], strict=False))
        paths = {name: PATHS[word] for name, word in words.items() if word in PATHS}
        for name, path in paths.items():
            if path == min(paths.values()):
                nearest_gpus[name].append(gpu)
    return {name: tuple(gpus) for name, gpus in nearest_gpus.items()}


def _row_notes(matrix: Matrix, filled: tuple[Edge, ...]) -> list[str]:
    lines = []
    if not matrix.header:
        nics = format_count(len(matrix.nics), "NIC")
        lines.append(
            f"without a header: {format_count(matrix.gpus, 'GPU')} and {nics}, by the rows"
        )
    if matrix.missing:
        said = (
            "switches join these as they join the others"
            if filled
            else "the other rows give its links"
        )
        lines.append(f"no row for {gpus_text(matrix.missing)}: {said}")
    if not _is_metax(matrix):
        lines.append("rank i is the GPU with the i-th lowest PCI bus id, the order of nvidia-smi")
    return lines


def _gpu_notes(kind: Gpu | None, matrix: Matrix, pairs: GpuPairs, hints: Hints) -> list[str]:
    if _is_metax(matrix):
        line = (
            f"a pair with MX has one link of {_METAX_GB_PER_S:g} GB/s per direction; the tool "
            "prints neither number, so change them in the file that -o writes if they differ"
        )
        return [line]
    if kind is None:
        return ["the GPU model is not in the output: --gpu sets it"]
    if not pairs.lanes:
        return []
    if hints.gpu is not None:
        return [describe_speed(kind)]
    shown = (
        f"because a GPU shows "
        f"{format_count(_seen_gpu_links(pairs, _max_gpu_links(pairs, None)), 'NVLink')}"
    )
    return [
        f"GPU model: {kind.name}, {shown}: {describe_speed(kind)}; --gpu overrides it",
        *_similar_gpus(kind),
    ]


def _similar_gpus(kind: Gpu) -> list[str]:
    """Describe other GPUs with the same number of links but another speed."""
    others: dict[float, list[str]] = {}
    for gpu in GPUS:
        if gpu.link == NVLINK and gpu.links == kind.links and gpu.gb_per_s != kind.gb_per_s:
            others.setdefault(gpu.gb_per_s, []).append(gpu.name)
    return [
        f"{', '.join(names)} would show as many, of {speed:g} GB/s"
        for speed, names in sorted(others.items())
    ]
