"""Matrices of GPUs as ``nvidia-smi topo -m`` prints them, and as people paste them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from sccl.core.ids import Edge

PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")


@dataclass(frozen=True, slots=True)
class Shown:
    """A machine and the layout of its matrix.

    Attributes:
        gpus: Number of GPUs.
        words: Word of each pair, the lower GPU first.
        nics: Number of columns and rows of NICs.
        gap: Separator of the words of a line. If empty, blanks fill eight characters.
        margin: Prefix of each line.
    """

    gpus: int
    words: dict[Edge, str]
    nics: int
    gap: str
    margin: str

    def text(self) -> str:
        """Return the matrix, with affinities, an empty cell and the legend."""
        names = [*(f"GPU{i}" for i in range(self.gpus)), *(f"mlx5_{i}" for i in range(self.nics))]
        lines = [self._line(["", *names, "CPU Affinity", "NUMA Affinity"])]
        for i, name in enumerate(names):
            cells = [self._word(i, j) for j in range(len(names))]
            behind = ["0-19,40-59", "", "N/A"] if i < self.gpus else ["", ""]
            lines.append(self._line([name, *cells, *behind]))
        return "\n".join([*lines, "", "Legend:", "", "  X    = Self", ""])

    def _word(self, i: int, j: int) -> str:
        if i == j:
            return " X "
        return self.words[min(i, j), max(i, j)] if max(i, j) < self.gpus else PATHS[(i + j) % 5]

    def _line(self, cells: list[str]) -> str:
        padded = (cell if self.gap else cell.ljust(7) + " " for cell in cells)
        return self.margin + self.gap.join(padded).rstrip(" ")


@st.composite
def shown(draw: st.DrawFn, max_gpus: int = 9) -> Shown:
    """Return any words for the pairs of some GPUs, written in any of the ways."""
    gpus = draw(st.integers(2, max_gpus))
    word = st.one_of(st.sampled_from(PATHS), st.integers(1, 18).map(lambda n: f"NV{n}"))
    pairs = [(a, b) for a in range(gpus) for b in range(a + 1, gpus)]
    told = draw(st.lists(word, min_size=len(pairs), max_size=len(pairs)))
    words = dict(zip(pairs, told, strict=True))
    gap, margin = draw(st.sampled_from(["\t", ""])), draw(st.sampled_from(["", "    ", "> "]))
    return Shown(gpus, words, draw(st.integers(0, 3)), gap, margin)


@dataclass(frozen=True, slots=True)
class ShownByRocm:
    """A machine of AMD GPUs and the layout of its tables.

    Attributes:
        words: Type of link, weight and hops of each pair, the lower GPU first.
        numa: NUMA node of each GPU.
        bus_ids: Names of the GPUs in the newer tool, empty for the older one.
        ends: Suffix of each line.
    """

    words: dict[Edge, tuple[str, int, int]]
    numa: tuple[int, ...]
    bus_ids: tuple[str, ...]
    ends: str

    def text(self) -> str:
        """Return the tables, between banners as wide as they may be."""
        gpus = len(self.numa)
        names = self.bus_ids or tuple(f"GPU{i}" for i in range(gpus))
        titles = ["LINK TYPE TABLE:", "WEIGHT TABLE:", "HOPS TABLE:"]
        if not self.bus_ids:
            banners = (f"{what} between two GPUs" for what in ("Link Type", "Weight", "Hops"))
            titles = [f"{'=' * 20} {banner} {'=' * 21}" for banner in banners]
        lines = [f"{'=' * 9} ROCm System Management Interface {'=' * 9}", ""]
        for table, title in enumerate(titles):
            lines += [title, " " * 13 + " ".join(names)]
            for i, name in enumerate(names):
                cells = [self._cell(table, i, j) for j in range(gpus)]
                lines.append(f"{name:<13}" + "".join(f"{cell:<13}" for cell in cells).rstrip())
            lines.append("")
        if not self.bus_ids:
            lines.append(f"{'=' * 30} Numa Nodes {'=' * 30}")
            lines += [f"GPU[{i}]\t\t: (Topology) Numa Node: {n}" for i, n in enumerate(self.numa)]
        return "".join(line + self.ends for line in lines)

    def _cell(self, table: int, i: int, j: int) -> str:
        if i == j:
            return "SELF" if self.bus_ids and not table else "0"
        return str(self.words[min(i, j), max(i, j)][table])


_XGMI_OR_PCIE = [
    ("XGMI", 15, 1),
    ("XGMI", 30, 1),
    ("PCIE", 20, 1),
    ("PCIE", 40, 2),
    ("PCIE", 72, 3),
]


@st.composite
def shown_by_rocm(draw: st.DrawFn) -> ShownByRocm:
    """Return any links for the pairs of some GPUs, in the tables of either tool."""
    gpus = draw(st.integers(2, 9))
    pairs = [(a, b) for a in range(gpus) for b in range(a + 1, gpus)]
    word = st.sampled_from(_XGMI_OR_PCIE)
    told = draw(st.lists(word, min_size=len(pairs), max_size=len(pairs)))
    numa = draw(st.lists(st.integers(0, 3), min_size=gpus, max_size=gpus))
    bus_ids = (
        tuple(f"0000:{2 * i + 5:02x}:00.0" for i in range(gpus)) if draw(st.booleans()) else ()
    )
    ends = draw(st.sampled_from(["\n", "   \n", "\r\n"]))
    return ShownByRocm(dict(zip(pairs, told, strict=True)), tuple(numa), bus_ids, ends)
