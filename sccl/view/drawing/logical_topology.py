"""Draw the logical topology of a sketch over its machine: kept links, their use, and relays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.synth.sketches.sketch import HyperedgePolicy
from sccl.view import theme
from sccl.view.drawing.canvas import (
    Canvas,
    LinkLine,
    arrow_layers,
    box_layers,
    fit_canvas,
    link_lines,
    stroke_widths,
)
from sccl.view.drawing.layout import Layout, layout_topology
from sccl.view.drawing.topology_drawing import NO_NUMBERS, label_lengths, node_layers
from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

    from sccl.synth.taccl.fitted_sketch import FittedSketch

_WITHIN, _BETWEEN, _LEFT_OUT = "within a node", "between nodes", "left out"
_SENDS, _RECEIVES, _BOTH = "sends to other nodes", "receives from them", "sends and receives"
_WITHIN_COLOR, _FAR, _FAINT = "#4a6a86", theme.COLORS[1], "#c4c4c4"
_SWITCHES = (theme.COLORS[2], theme.COLORS[3], theme.COLORS[4])
_ROLES = {_SENDS: "#fbd5bd", _RECEIVES: "#cfe5f5", _BOTH: "#e6d3e3"}
_THIN, _BROAD = 0.8, 2.6  # px, width of omitted links, and minimum width of links between nodes
_MAX_WIDENED_LINKS = 100  # maximum number of links for which this minimum applies
_MAX_PAIRS = 6000  # maximum number of links of one use that are drawn
_ONE_POLICY = tuple({policy.value} for policy in HyperedgePolicy)
_CROWD, _VEIL = 150, 0.35  # number of omitted links above which they are fainter, and the opacity


@dataclass(frozen=True, slots=True)
class LogicalTopology:
    """The part of a machine that a sketch keeps.

    Attributes:
        nodes: ranks of each node of the cluster.
        within: links kept within nodes, with the policy of their switch, or an empty text.
        between: links kept between nodes. Some may also be in ``within``.
        senders: ranks with paths to other nodes.
        receivers: ranks with paths from other nodes.
        names: text in the drawing of a switch, if it is not the switch's name.
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
    the positions of ranks.
    """
    switches = tuple(
        replace(switch, name=logical.names.get(topology.ranks + i, switch.name))
        for i, switch in enumerate(topology.switches)
    )
    bare = replace(topology, budgets=(), switches=switches)
    plan = _layout_nodes(topology, logical)
    uses = {k.edge: logical.use(k.edge) for k in topology.links}
    groups = {use: _lines(bare, plan, uses, use) for use in _sort_uses(uses)}
    used = [line for kind, lines in groups.items() if kind != _LEFT_OUT for line in lines]
    canvas = fit_canvas(plan, used, *label_lengths(bare))
    layers, names = box_layers(plan, canvas)
    layers += _link_layers(groups, used, canvas)
    layers += [*names, *node_layers(bare, plan, canvas, logical.roles(), _ROLES)]
    notes = [*logical.notes, *_omitted_uses(uses), *([] if canvas.number else [NO_NUMBERS])]
    chart = alt.layer(*layers).properties(
        width=canvas.width,
        height=canvas.height,
        title=alt.Title(logical.title, subtitle=notes),
        view=alt.ViewBackground(stroke=None),
    )
    return theme.apply_theme(chart)


def _omitted_uses(uses: Mapping[Edge, str]) -> list[str]:
    """Return a note for each use with too many links to draw."""
    count = Counter(uses[edge] for edge in uses if edge < edge[::-1] or edge[::-1] not in uses)
    return [
        f"links {use} are too many to draw" for use, pairs in count.items() if pairs > _MAX_PAIRS
    ]


def _layout_nodes(topology: Topology, logical: LogicalTopology) -> Layout:
    """Return the layout, with boxes around nodes and the switches that only one node uses."""
    left = tuple(k for k in topology.links if logical.use(k.edge) != _LEFT_OUT) or topology.links
    ranks, count = topology.ranks, len(topology.switches)
    members = [set(node_members) for node_members in logical.nodes]
    for switch in range(ranks, ranks + count):
        around = {end for k in left for end in k.edge if switch in k.edge} - {switch}
        for node_members in members:
            if around and around <= node_members:
                node_members.add(switch)
    plan = layout_topology(
        Topology(
            topology.name,
            ranks + count,  # the layout treats switches like ranks
            left,
            topology.alpha_us,
            topology.gb_per_s,
            chassis=tuple(map(tuple, map(sorted, members))) if len(members) > 1 else (),
        )
    )
    boxes = tuple(replace(box, label=box.label.replace("chassis", "node")) for box in plan.boxes)
    return replace(plan, boxes=boxes)


def _sort_uses(uses: Mapping[Edge, str]) -> list[str]:
    """Return the uses of links, in drawing order."""
    present = {*uses.values()}
    switches = sorted(present - {_WITHIN, _BETWEEN, _LEFT_OUT})
    return [use for use in (_LEFT_OUT, _WITHIN, *switches, _BETWEEN) if use in present]


def _lines(bare: Topology, plan: Layout, uses: Mapping[Edge, str], use: str) -> list[LinkLine]:
    """Return the lines of links with a use.

    Omitted links are straight, and are not drawn if their reverse is kept.

    Args:
        bare: machine without budgets.
        plan: layout, with a bend for each kept link, in the order of the machine.
        use: use of the links to draw.
    """
    links = [k for k in bare.links if uses[k.edge] == use]
    if use == _LEFT_OUT:
        links = [k for k in links if uses.get(k.edge[::-1], use) == use]
    if not links or len({frozenset(k.edge) for k in links}) > _MAX_PAIRS:
        return []
    left = [k.edge for k in bare.links if uses[k.edge] != _LEFT_OUT]
    bends = dict(zip(left, plan.bends, strict=False))
    use_plan = replace(plan, bends=tuple(bends.get(k.edge, 0.0) for k in links))
    return link_lines(replace(bare, links=tuple(links)), use_plan)


def _link_layers(
    groups: Mapping[str, Sequence[LinkLine]], used: Sequence[LinkLine], canvas: Canvas
) -> list[ChartType]:
    colors = _use_colors(groups)
    widths, opacity = (
        stroke_widths(used, canvas.side, canvas.width, canvas.height) if used else ({}, 1.0)
    )
    crowd = len(groups.get(_LEFT_OUT, ())) > _CROWD
    layers: list[ChartType] = []
    for kind, lines in groups.items():
        if not lines:
            continue
        faint = kind == _LEFT_OUT
        rows = [
            {"x": x, "y": y, "link": f"{line.edge[0]}->{line.edge[1]}", "use": kind, "order": i,
             "width": _THIN if faint else max(
                 widths[line.lanes],
                 _BROAD if kind == _BETWEEN and len(lines) <= _MAX_WIDENED_LINKS else 0.0)}
            for line in lines for i, (x, y) in enumerate(line.points)
        ]  # fmt: skip
        veil = (_VEIL if crowd else 1.0) if faint else 1.0 if kind == _BETWEEN else opacity
        layers.append(
            alt.Chart(theme.chart_rows(rows))
            .mark_line(strokeOpacity=veil)
            .encode(
                **canvas.axes(),
                detail="link:N",
                order="order:Q",
                strokeWidth=alt.StrokeWidth("width:Q", scale=None),
                stroke=_strokes(colors),
            )
        )
        layers += [] if faint else arrow_layers(lines, canvas.axes())
    return layers


def _use_colors(groups: Mapping[str, Sequence[LinkLine]]) -> dict[str, str]:
    switches = iter(_SWITCHES)
    base_colors = {_WITHIN: _WITHIN_COLOR, _BETWEEN: _FAR, _LEFT_OUT: _FAINT}
    return {
        kind: base_colors.get(kind) or next(switches, _SWITCHES[-1])
        for kind, lines in groups.items()
        if lines
    }


def _strokes(colors: Mapping[str, str]) -> Any:
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    legend = alt.Legend(
        orient="bottom",
        columns=1,
        symbolType="stroke",
        symbolSize=500,
        symbolStrokeWidth=3,
        values=[*colors][::-1],
    )
    return alt.Stroke("use:N", title=None, legend=legend, scale=scale)


def logical_topology(fit: FittedSketch, notes: tuple[str, ...]) -> LogicalTopology:
    """Return the links of a machine that a sketch keeps, and its relays."""
    sketch, local, ranks = fit.sketch, fit.ranks_per_node, fit.topology.ranks
    policies = {
        (a, b): edge.policy.value for edge in sketch.hyperedges for a in edge.local
        for b in edge.local
    }  # fmt: skip
    within: dict[Edge, str] = {}
    far = [route for route in fit.routes if route.factor and fit.is_inter_node(route)]
    over: dict[int, set[str]] = {}
    for route in fit.routes:
        near = route.factor and not fit.is_inter_node(route)
        policy = policies.get((route.src % local, route.dst % local), "") if near else ""
        for edge in route.links if near else ():
            within[edge] = policy
        for switch in {
            end for edge in route.links for end in edge if end >= ranks and route.factor
        }:
            over.setdefault(switch, set()).add(policy)
    return LogicalTopology(
        nodes=tuple(tuple(range(i, i + local)) for i in range(0, ranks, local)),
        within=within,
        between=frozenset(edge for route in far for edge in route.links),
        senders=frozenset(route.src for route in far),
        receivers=frozenset(route.dst for route in far),
        names={
            switch: min(policy_set)
            for switch, policy_set in over.items()
            if policy_set in _ONE_POLICY
        },
        title=f"{sketch.name} on {fit.topology.name}",
        notes=notes,
    )
