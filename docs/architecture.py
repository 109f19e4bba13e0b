"""Draw the architecture as a block diagram: ``python -m docs.architecture``.

Blocks are groups of packages. Arrows are their imports, computed from the code. An arrow that
follows from others is not drawn. All blocks import the one at the foot.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import networkx as nx

from tests.house.test_layers import FLOORS, dependency, room_of
from tests.kit.imports import imports, modules

PICTURE = Path(__file__).parent / "pictures" / "architecture.svg"

WIDTH = 960
_COLUMNS, _EDGE, _GAP = 4, 20, 24  # px: around the diagram, and between columns
_TOP, _HEIGHT, _ROW = 20, 62, 96  # px: of the first row, of a block, from a row to the next
_OFFSET = 26  # px between two arrows at one block
_BEND = 18  # px above a block, where arrows turn


@dataclass(frozen=True, slots=True)
class Block:
    """A group of packages in the diagram.

    Attributes:
        title: Purpose of the packages.
        packages: Packages and modules of ``sccl``. Their subpackages belong to the same block,
            unless another block names them.
        row: Row from the top.
        column: First column.
        columns: Number of columns.
    """

    title: str
    packages: tuple[str, ...]
    row: int
    column: int
    columns: int = 1

    @property
    def left(self) -> float:
        """Return the left edge, in pixels."""
        return _EDGE + self.column * (_column_width() + _GAP)

    @property
    def width(self) -> float:
        """Return the width, in pixels."""
        return self.columns * (_column_width() + _GAP) - _GAP

    @property
    def top(self) -> float:
        """Return the upper edge, in pixels."""
        return _TOP + self.row * _ROW

    @property
    def middle(self) -> float:
        """Return the horizontal middle, in pixels."""
        return self.left + self.width / 2


BLOCKS = {
    "commands": Block("Commands and Python API", ("cli", "api", "comparison"), 0, 0, 4),
    "pictures": Block("Pictures", ("view",), 1, 0),
    "jobs": Block("PyTorch jobs", ("torch_backend", "torch"), 1, 1),
    "code": Block("Code and export", ("codegen", "formats", "runtime"), 3, 1),
    "synthesizers": Block("Synthesizers", ("synth",), 3, 2),
    "training": Block("Training plans", ("training",), 2, 3),
    "proofs": Block("Bounds and certificates", ("prove",), 4, 2),
    "verifier": Block("Verification and simulation", ("judge", "sim", "transform"), 5, 0, 2),
    "solvers": Block("Solvers", ("solvers",), 5, 2, 2),
    "domain": Block(
        "Topologies, collectives, algorithms",
        ("topo", "collectives", "core", "training/types", "training/files", "compiled", "errors"),
        6, 0, 4,
    ),
}  # fmt: skip
"""Blocks by key, from the top."""

_ENTRY_POINTS = {"", "__main__"}


def block_of(package: str) -> str:
    """Return the key of the block of a package, such as ``synth/tacos``.

    Raises:
        ValueError: No block has the package.
    """
    for name in (package, package.partition("/")[0]):
        for key, block in BLOCKS.items():
            if name in block.packages:
                return key
    raise ValueError(f"no block of docs/architecture.py has the package {package!r}: add it to one")


def block_imports() -> nx.DiGraph:
    """Return which block imports which, function-local imports included."""
    graph = nx.DiGraph()
    graph.add_nodes_from(BLOCKS)
    for path in modules():
        package = room_of(path)
        if package in _ENTRY_POINTS:
            continue
        for name in imports(path):
            target = dependency(name)
            if name.startswith("sccl.") and target in FLOORS and target not in _ENTRY_POINTS:
                graph.add_edge(block_of(package), block_of(target))
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return graph


def drawing() -> str:
    """Return the diagram as SVG.

    Raises:
        ValueError: A block imports one that is not below it.
    """
    graph = block_imports()
    if wrong := sorted((a, b) for a, b in graph.edges if BLOCKS[a].row >= BLOCKS[b].row):
        raise ValueError(f"these blocks import others that are not below them: {wrong}")
    arrows = {(a, b) for a, b in nx.transitive_reduction(graph).edges if b != "domain"}
    arrows |= {("commands", "synthesizers")} & {*graph.edges}  # the main use, which jobs would hide
    height = _TOP + max(block.row for block in BLOCKS.values()) * _ROW + _HEIGHT + 44
    foot = f'<text class="note" x="{_EDGE}" y="{height - 16}">'
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                f'width="{WIDTH}" height="{height}" font-family="system-ui, -apple-system, '
                "'Segoe UI', Helvetica, Arial, sans-serif\">"
            ),
            "<title>Blocks of packages, and what each block imports</title>",
            _STYLE,
            f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>',
            *(_arrow(BLOCKS[a], BLOCKS[b]) for a, b in sorted(arrows)),
            *map(_block, BLOCKS.values()),
            (
                f"{foot}An arrow is an import. All blocks import the lowest one. Arrows that "
                "follow from others are not drawn.</text>"
            ),
            "</svg>\n",
        ]
    )


_STYLE = """<style>
.card { fill: #ffffff; stroke: #d0d7de; }
.box { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.2; }
.head { fill: #1b1d22; font-weight: 650; font-size: 14.5px; text-anchor: middle; }
.text { fill: #57606a; font-size: 11px; text-anchor: middle;
  font-family: ui-monospace, Menlo, Consolas, monospace; }
.note { fill: #57606a; font-size: 12.5px; }
.line { fill: none; stroke: #57606a; stroke-width: 1.5; }
.tip { fill: #57606a; }
@media (prefers-color-scheme: dark) {
  .card { fill: #0d1117; stroke: #30363d; }
  .box { fill: #161b22; stroke: #6e7681; }
  .head { fill: #f0f3f6; }
  .text, .note { fill: #9ea7b3; }
  .line { stroke: #9ea7b3; }
  .tip { fill: #9ea7b3; }
}
</style>"""


def _column_width() -> float:
    return (WIDTH - 2 * _EDGE - (_COLUMNS - 1) * _GAP) / _COLUMNS


def _block(block: Block) -> str:
    names = escape(", ".join(block.packages))
    return (
        f'<rect class="box" x="{block.left:.1f}" y="{block.top}" width="{block.width:.1f}" '
        f'height="{_HEIGHT}" rx="8"/>\n'
        f'<text class="head" x="{block.middle:.1f}" y="{block.top + 27}">'
        f"{escape(block.title)}</text>\n"
        f'<text class="text" x="{block.middle:.1f}" y="{block.top + 47}">{names}</text>'
    )


def _arrow(source: Block, target: Block) -> str:
    """Return an arrow from under one block to above another.

    It goes straight down where the blocks share columns. Otherwise it turns above the target.
    """
    shared = range(
        max(source.column, target.column),
        min(source.column + source.columns, target.column + target.columns),
    )
    start, end = source.top + _HEIGHT, target.top
    if shared:
        x = Block("", (), 0, shared[0]).middle
        path = f"M{x:.1f} {start}V{end - 8}"
    else:
        side = 1 if target.column > source.column else -1
        begin = source.middle + side * _OFFSET
        near = target.column if side > 0 else target.column + target.columns - 1
        x = Block("", (), 0, near).middle - side * _OFFSET
        path = f"M{begin:.1f} {start}V{end - _BEND}H{x:.1f}V{end - 8}"
    tip = f"M{x:.1f} {end - 1}l-5 -9h10z"
    return f'<path class="line" d="{path}"/><path class="tip" d="{tip}"/>'


def main() -> None:
    """Write the drawing."""
    PICTURE.write_text(drawing(), encoding="utf-8")


if __name__ == "__main__":
    main()
