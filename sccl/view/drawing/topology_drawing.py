"""Draw a machine: ranks, switches, boxes, and links whose widths show their lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sccl.core.formatting import format_count
from sccl.core.topology import Topology
from sccl.view import theme
from sccl.view.drawing.budgets import budget_lines, budgeted_nodes, with_hubs
from sccl.view.drawing.canvas import (
    OUTLINE,
    Canvas,
    LinkLine,
    box_layers,
    fit_canvas,
    link_layers,
    link_lines,
    stroke_widths,
)
from sccl.view.drawing.layout import Layout, layout_topology
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_MAX_PAIRS = 6000
_MAX_NAME = 6
_BOLD = 4.0  # px

NO_NUMBERS = "ranks are drawn without numbers, for lack of space"


def topology_chart(topology: Topology) -> ChartType:
    """Return a drawing of a machine.

    A line is a link in both directions. An arrow is a one-way link, or a link whose reverse has
    another number of lanes. Dashed links share a budget, such as a bus. A thick outline marks a
    node with a budget for all links that leave, or enter, it. A clique of ranks whose budgets model
    a switch is drawn with this switch. Machines with thousands of links are drawn without links.
    """
    machine = with_hubs(topology)
    drawn = layout_topology(machine)
    lines = link_lines(machine, drawn)
    canvas = fit_canvas(drawn, lines, *label_lengths(machine))
    layers, names = box_layers(drawn, canvas)
    if 0 < len(lines) <= _MAX_PAIRS:
        widths, opacity = stroke_widths(lines, canvas.side, canvas.width, canvas.height)
        layers += link_layers(lines, canvas.axes(), widths, opacity)
    layers += [*names, *node_layers(machine, drawn, canvas)]
    notes = _notes(topology, machine, drawn, lines, canvas)
    chart = alt.layer(*layers).properties(
        width=canvas.width,
        height=canvas.height,
        title=alt.Title(topology.name, subtitle=notes),
        view=alt.ViewBackground(stroke=None),
    )
    return theme.apply_theme(chart)


def _notes(
    topology: Topology, machine: Topology, drawn: Layout, lines: Sequence[LinkLine], canvas: Canvas
) -> list[str]:
    """Return notes on counts, budgets, and the parts that the drawing omits.

    Args:
        topology: machine as its file describes it.
        machine: machine with switches for budgets, as it is drawn.
    """
    hubs = len(machine.switches) - len(topology.switches)
    count = f"{topology.ranks} ranks, {len(topology.links)} links"
    lanes = {line.lanes for line in lines}
    if len(lines) > _MAX_PAIRS:
        count += ", which are too many to draw"
    elif len(lanes) == 1:
        each = "each to and from the switch" if hubs else "each"
        count += f", {format_count(min(lanes), 'lane')} {each}"
    notes = [count, *budget_lines(machine)]
    if not topology.has_uniform_lanes:
        slow, fast = (f(k.gb_per_s for k in topology.links) for f in (min, max))
        notes.append(f"lanes are not equally fast: {slow:g} to {fast:g} GB/s; widths count lanes")
    if hubs:
        notes.append("a line to the switch stands for a rank's links to all other ranks there")
    if len(machine.switches) == 1 and len(machine.chassis) > 1 and not drawn.boxes:
        notes.append("gaps separate chassis")
    if budgeted_nodes(machine):
        notes.append("a thick outline: a budget for all links out of, or into, a node")
    if not canvas.number:
        notes.append(NO_NUMBERS)
    if machine.switches and not canvas.name:
        notes.append("switches (squares) are drawn without their names")
    return notes


def label_lengths(topology: Topology) -> tuple[int, int]:
    """Return the digits of the longest rank number, and the letters of the longest switch name."""
    longest = max((len(_short_name(s.name)) for s in topology.switches), default=0)
    return len(str(topology.ranks - 1)), longest


def node_layers(
    topology: Topology,
    drawn: Layout,
    canvas: Canvas,
    roles: Mapping[int, str] | None = None,
    colors: Mapping[str, str] | None = None,
) -> list[ChartType]:
    """Return the layers of a chart that draw ranks and switches, with the text in them.

    Args:
        roles: role of some nodes, as text. Other nodes are white.
    """
    across = 2 * drawn.radius * canvas.side
    rows = _node_rows(topology, drawn, canvas.side, max(OUTLINE, min(_BOLD, across / 8)))
    if roles:
        rows = [row | {"role": roles.get(node, "")} for node, row in enumerate(rows)]
    base = alt.Chart(theme.chart_rows(rows))
    shapes = alt.Scale(domain=["rank", "switch"], range=["circle", "square"])
    marks = base.mark_point(filled=True, fill="white", stroke=theme.INK, opacity=1).encode(
        **canvas.axes(),
        size=alt.Size("size:Q", scale=None),
        shape=alt.Shape("kind:N", legend=None, scale=shapes),
        strokeWidth=alt.StrokeWidth("outline:Q", scale=None),
        tooltip=["text:N", "name:N", "kind:N"],
    )
    if roles:
        marks = marks.encode(fill=_role_scale(roles, colors or {}))
    texts = [
        base.mark_text(fontSize=size)
        .encode(**canvas.axes(), text="text:N")
        .transform_filter(f"datum.kind == '{kind}'")
        for kind, size in (("rank", canvas.number), ("switch", canvas.name))
        if size and (kind == "rank" or topology.switches)
    ]
    return [marks, *texts]


def _role_scale(roles: Mapping[int, str], colors: Mapping[str, str]) -> Any:
    used = [role for role in colors if role in roles.values()]
    legend = alt.Legend(
        orient="bottom", columns=1, values=used, symbolType="circle", symbolStrokeWidth=1
    )
    scale = alt.Scale(domain=["", *used], range=["white", *(colors[role] for role in used)])
    return alt.Fill("role:N", title=None, legend=legend, scale=scale)


def _node_rows(topology: Topology, drawn: Layout, side: int, bold: float) -> list[dict[str, Any]]:
    """Return a row for each node. The outline is bold if a budget limits the whole node."""
    # Ranks are drawn with their numbers, because the machine's labels may be long.
    ranks = [(str(r), topology.label(r), "rank") for r in range(topology.ranks)]
    switches = [(_short_name(s.name), s.name, "switch") for s in topology.switches]
    behind = budgeted_nodes(topology)
    return [
        {"x": x, "y": y, "text": text, "name": name, "kind": kind,
         "outline": bold if i in behind else OUTLINE,
         "size": (2 * side * (drawn.radius if kind == "rank" else drawn.switch_radius)) ** 2}
        for i, ((x, y), (text, name, kind)) in enumerate(
            zip(drawn.positions, [*ranks, *switches], strict=True))
    ]  # fmt: skip


def _short_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}\u2026"
