"""Draw a logical topology over its machine: the links a sketch keeps, their use, and relays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.view import theme
from sccl.view.drawing.canvas import Canvas, box_layers, canvas_of
from sccl.view.drawing.layout import Layout, layout
from sccl.view.drawing.links import Line, arrow_layers, link_lines, strokes
from sccl.view.drawing.machine import NO_NUMBERS, letters_of, node_layers
from sccl.view.libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

_WITHIN, _BETWEEN, _LEFT_OUT = "within a node", "between nodes", "left out"
_SENDS, _RECEIVES, _BOTH = "sends to other nodes", "receives from them", "sends and receives"
_OWN, _FAR, _FAINT = "#4a6a86", theme.COLOURS[1], "#c4c4c4"
_SWITCHES = (theme.COLOURS[2], theme.COLOURS[3], theme.COLOURS[4])
_ROLES = {_SENDS: "#fbd5bd", _RECEIVES: "#cfe5f5", _BOTH: "#e6d3e3"}
_THIN, _BROAD = 0.8, 2.6  # px: of links that are left out; of those between nodes, at least,
_FEW = 100  # if they are no more than these
_MOST_PAIRS = 6000  # of a use: more are not drawn
_CROWD, _VEIL = 150, 0.35  # links left out, from which on they are fainter


@dataclass(frozen=True, slots=True)
class LogicalTopology:
    """The part of a machine that a sketch keeps.

    Attributes:
        nodes: the ranks of each.
        within: links kept within nodes, each with the policy of its switch, or empty.
        between: links kept between nodes, some of which may serve within, too.
        senders: ranks with paths to other nodes.
        receivers: ranks with paths from other nodes.
        names: by switch node, the text in it, if not its name.
        title: above the drawing.
        notes: lines below the title.
    """

    nodes: tuple[tuple[int, ...], ...]
    within: Mapping[Edge, str]
    between: frozenset[Edge]
    senders: frozenset[int]
    receivers: frozenset[int]
    names: Mapping[int, str]
    title: str
    notes: tuple[str, ...]

    def use(self, edge: Edge) -> str:
        """Return the use of a link as text."""
        if edge in self.between:
            return _BETWEEN
        policy = self.within.get(edge)
        if policy is None:
            return _LEFT_OUT
        return f"{_WITHIN}, over a switch ({policy})" if policy else _WITHIN

    def roles(self) -> dict[int, str]:
        """Return the roles of relays as text."""
        both = self.senders & self.receivers
        return (
            dict.fromkeys(self.receivers, _RECEIVES)
            | dict.fromkeys(self.senders, _SENDS)
            | dict.fromkeys(both, _BOTH)
        )


def logical_chart(topology: Topology, logical: LogicalTopology) -> ChartType:
    """Return a drawing of the part of a machine that a sketch keeps, over the machine.

    Omitted links are faint. An arrow is a link kept in only one direction. The kept links determine
    the places of ranks.
    """
    switches = tuple(
        replace(switch, name=logical.names.get(topology.ranks + i, switch.name))
        for i, switch in enumerate(topology.switches)
    )
    bare = replace(topology, budgets=(), switches=switches)
    plan = _plan(topology, logical)
    uses = {k.edge: logical.use(k.edge) for k in topology.links}
    groups = {use: _lines(bare, plan, uses, use) for use in _in_order(uses)}
    used = [line for kind, lines in groups.items() if kind != _LEFT_OUT for line in lines]
    canvas = canvas_of(plan, used, *letters_of(bare))
    layers, names = box_layers(plan, canvas)
    layers += _link_layers(groups, used, canvas)
    layers += [*names, *node_layers(bare, plan, canvas, logical.roles(), _ROLES)]
    chart = alt.layer(*layers).properties(
        width=canvas.width,
        height=canvas.height,
        title=alt.Title(
            logical.title, subtitle=[*logical.notes, *_too_many(uses), *_no_room(canvas)]
        ),
        view=alt.ViewBackground(stroke=None),
    )
    return theme.themed(chart)


def _too_many(uses: Mapping[Edge, str]) -> list[str]:
    """Return of which uses there are too many links to draw."""
    count = Counter(uses[edge] for edge in uses if edge < edge[::-1] or edge[::-1] not in uses)
    return [
        f"links {use} are too many to draw" for use, pairs in count.items() if pairs > _MOST_PAIRS
    ]


def _no_room(canvas: Canvas) -> list[str]:
    """Return that ranks have no numbers, if it is so."""
    return [] if canvas.number else [NO_NUMBERS]


def _plan(topology: Topology, logical: LogicalTopology) -> Layout:
    """Return where all lies: nodes as boxes, with the switches that are theirs alone inside."""
    left = tuple(k for k in topology.links if logical.use(k.edge) != _LEFT_OUT) or topology.links
    ranks, count = topology.ranks, len(topology.switches)
    members = [set(own) for own in logical.nodes]
    for switch in range(ranks, ranks + count):
        around = {end for k in left for end in k.edge if switch in k.edge} - {switch}
        for own in members:
            if around and around <= own:
                own.add(switch)
    plan = layout(
        Topology(
            topology.name,
            ranks + count,  # to a layout, a switch is a node like any other
            left,
            topology.alpha_us,
            topology.gb_per_s,
            chassis=tuple(map(tuple, map(sorted, members))) if len(members) > 1 else (),
        )
    )
    boxes = tuple(replace(box, label=box.label.replace("chassis", "node")) for box in plan.boxes)
    return replace(plan, boxes=boxes)


def _in_order(uses: Mapping[Edge, str]) -> list[str]:
    """Return the uses of links, in drawing order."""
    found = {*uses.values()}
    switches = sorted(found - {_WITHIN, _BETWEEN, _LEFT_OUT})
    return [use for use in (_LEFT_OUT, _WITHIN, *switches, _BETWEEN) if use in found]


def _lines(bare: Topology, plan: Layout, uses: Mapping[Edge, str], use: str) -> list[Line]:
    """Return the lines of links with a use. Those left out are straight, and not beside others.

    Args:
        plan: whose bends are those of the links that are left, in their order.
    """
    links = [k for k in bare.links if uses[k.edge] == use]
    if use == _LEFT_OUT:
        links = [k for k in links if uses.get(k.edge[::-1], use) == use]
    if not links or len({frozenset(k.edge) for k in links}) > _MOST_PAIRS:
        return []
    left = [k.edge for k in bare.links if uses[k.edge] != _LEFT_OUT]
    bends = dict(zip(left, plan.bends, strict=False))
    own = replace(plan, bends=tuple(bends.get(k.edge, 0.0) for k in links))
    return link_lines(replace(bare, links=tuple(links)), own)


def _link_layers(
    groups: Mapping[str, Sequence[Line]], used: Sequence[Line], canvas: Canvas
) -> list[ChartType]:
    colours = _colours(groups)
    widths, opacity = strokes(used, canvas.side, canvas.width, canvas.height) if used else ({}, 1.0)
    crowd = len(groups.get(_LEFT_OUT, ())) > _CROWD
    layers: list[ChartType] = []
    for kind, lines in groups.items():
        if not lines:
            continue
        faint = kind == _LEFT_OUT
        rows = [
            {"x": x, "y": y, "link": f"{line.edge[0]}->{line.edge[1]}", "use": kind, "order": i,
             "width": _THIN if faint else max(
                 widths[line.lanes], _BROAD if kind == _BETWEEN and len(lines) <= _FEW else 0.0)}
            for line in lines for i, (x, y) in enumerate(line.points)
        ]  # fmt: skip
        veil = (_VEIL if crowd else 1.0) if faint else 1.0 if kind == _BETWEEN else opacity
        layers.append(
            alt.Chart(theme.rows(rows))
            .mark_line(strokeOpacity=veil)
            .encode(
                **canvas.axes(),
                detail="link:N",
                order="order:Q",
                strokeWidth=alt.StrokeWidth("width:Q", scale=None),
                stroke=_strokes(colours),
            )
        )
        layers += [] if faint else arrow_layers(lines, canvas.axes())
    return layers


def _colours(groups: Mapping[str, Sequence[Line]]) -> dict[str, str]:
    switches = iter(_SWITCHES)
    known = {_WITHIN: _OWN, _BETWEEN: _FAR, _LEFT_OUT: _FAINT}
    return {
        kind: known.get(kind) or next(switches, _SWITCHES[-1])
        for kind, lines in groups.items()
        if lines
    }


def _strokes(colours: Mapping[str, str]) -> Any:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    legend = alt.Legend(
        orient="bottom",
        columns=1,
        symbolType="stroke",
        symbolSize=500,
        symbolStrokeWidth=3,
        values=[*colours][::-1],
    )
    return alt.Stroke("use:N", title=None, legend=legend, scale=scale)
