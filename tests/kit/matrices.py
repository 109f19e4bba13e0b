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
