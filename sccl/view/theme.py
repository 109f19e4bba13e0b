"""The common style of charts: fonts, colors and marks that work in grayscale and at half size."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sccl.view.plot_libraries import alt

if TYPE_CHECKING:
    from altair.typing import ChartType

FONT = "Helvetica, Arial, Liberation Sans, sans-serif"
TEXT = 13  # px
WIDTH, HEIGHT = 560, 340
NUMBERS = ".6~g"  # format of axis labels: numbers from a million as a power of ten
INK = "#1a1a1a"
GRAY = "#6b6b6b"

# Okabe and Ito's palette for color-blind readers, darkened if text would be illegible on white.
# Lines also differ in their dashes, and dots in their shapes.
COLORS = ("#0072B2", "#D55E00", "#00805E", "#7A3E6D", "#B07500", "#4A90C2", "#000000", "#B5547F")
DASHES = ((1, 0), (8, 4), (2, 3), (10, 3, 2, 3), (5, 2), (1, 2), (12, 4), (4, 4))
MARKERS = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left",
          "triangle-right")  # fmt: skip

_ALL_SCALES: dict[Any, Any] = dict.fromkeys(
    ("color", "fill", "shape", "stroke", "strokeDash", "strokeWidth", "xOffset"), "independent"
)

_DECADES = 2.5  # span of an axis in decades from which only powers of ten are labeled

_DASHED = 900  # squared length of a line in a legend, long enough to show its dashes

# If these fonts are missing, names are wider than measured, so the right side needs padding.
_PADDING = {"left": 10, "top": 10, "bottom": 10, "right": 26}

_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)], "\ufffd")

C = TypeVar("C", bound="alt.TopLevelMixin")
V = TypeVar("V")


class _ChartRows:
    """The rows of a chart's data, opaque to Altair, which would copy and check them repeatedly."""

    _schema: ClassVar[dict[str, Any]] = {}  # Altair needs only this and to_dict

    def __init__(self, values: Sequence[Mapping[str, Any]]) -> None:
        self._values = [dict(value) for value in values]

    def to_dict(self, *_: object, **__: object) -> list[dict[str, Any]]:
        return self._values


def dashed_line(x: alt.X, field: str, value: float) -> alt.Chart:
    """Return a dashed vertical line at a value of a field."""
    rule = alt.Chart(chart_rows([{field: value}])).mark_rule(
        strokeWidth=1.5, strokeDash=[4, 3], color=COLORS[1]
    )
    return rule.encode(x=x)


def chart_rows(values: Sequence[Mapping[str, Any]]) -> alt.Data:
    """Return rows as inline data of a chart, without checks or copies."""
    with alt.utils.schemapi.debug_mode(arg=False):
        return alt.Data(values=_ChartRows(values))


def finish_chart(
    drawn: C,
    title: str | alt.Title,
    notes: Sequence[str] | str | None = None,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> C:
    """Return a chart with its title, notes below the title, its size, and the common style."""
    head = title if notes is None else alt.Title(title, subtitle=notes)
    return apply_theme(drawn.properties(width=width, height=height, title=head))


def wrap_notes(*notes: str, length: int = 84) -> list[str]:
    """Return notes as lines of at most ``length`` characters, which fit beneath a title."""
    return [line for note in notes for line in textwrap.wrap(note, length)]


def series_channels(
    names: Sequence[str], field: str = "name:N", *, has_legend: bool = True
) -> dict[str, Any]:
    """Return the channels that give each series a color and dashes."""
    common: dict[str, Any] = {"title": None, "legend": series_legend(names) if has_legend else None}
    return {
        "color": alt.Color(field, scale=series_scale(names, COLORS), **common),
        "strokeDash": alt.StrokeDash(field, scale=series_scale(names, DASHES), **common),
    }


def series_scale(names: Sequence[str], values: Sequence[Any]) -> alt.Scale:
    """Return a scale that assigns a color, dashes or a shape to each name."""
    return alt.Scale(domain=list(names), range=[nth(values, i) for i in range(len(names))])


def nth(values: Sequence[V], i: int) -> V:
    """Return the color, dashes or shape of the i-th series. Values repeat cyclically.

    In each cycle, colors are combined with other dashes and shapes, so no two series look alike.
    """
    shift = 0 if values is COLORS else i // len(values)
    return values[(i + shift) % len(values)]


def series_legend(names: Sequence[str], *, dots: bool = False) -> alt.Legend | None:
    """Return the legend of several lines, with dots if requested, or None for a single line."""
    if len(names) < 2:
        return None
    room = WIDTH // max(len(name) * TEXT * 6 // 10 + 40 for name in names)
    columns = min(max(room, 1), 4)
    if dots:
        return alt.Legend(orient="bottom", columns=columns, symbolStrokeWidth=0)
    return alt.Legend(orient="bottom", columns=columns, symbolType="stroke", symbolSize=_DASHED)


def dash_legend() -> alt.Legend:
    """Return the legend of line styles, one below the other."""
    return alt.Legend(orient="bottom", columns=1, symbolType="stroke", symbolSize=_DASHED)


def decades(low: float, high: float) -> list[float]:
    """Return the labels of a logarithmic axis: powers of ten, also times 2 and 5 on a short axis.

    Args:
        low: first value of the axis, more than 0.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    parts = (1, 2, 5) if math.log10(high / low) < _DECADES else (1,)
    values = [float(f"{part}e{power}") for power in powers for part in parts]
    return [value for value in values if low <= value <= high]


def apply_theme(chart: C) -> C:
    """Return a chart with the common fonts and colors."""
    head = {"labelFont": FONT, "titleFont": FONT, "labelColor": INK, "titleColor": INK}
    sizes = {"labelFontSize": TEXT, "titleFontSize": TEXT, "titleFontWeight": "normal"}
    axis = {"gridColor": "#e4e4e4", "domainColor": GRAY, "tickColor": GRAY, "titlePadding": 8}
    return chart.configure(
        font=FONT,
        background="white",
        padding=_PADDING,
        axis={**head, **sizes, **axis},
        legend={**head, **sizes, "labelLimit": WIDTH, "columnPadding": 24, "symbolSize": 90,
                "symbolStrokeWidth": 2},
        title={"font": FONT, "fontSize": 15, "color": INK, "anchor": "start", "offset": 12,
               "subtitleFont": FONT, "subtitleFontSize": TEXT, "subtitleColor": GRAY},
        view={"stroke": "#bdbdbd"},
    )  # fmt: skip


def stack_charts(charts: Sequence[ChartType]) -> ChartType:
    """Return charts one below the other, each with its own scales."""
    plain = [chart.copy() for chart in charts]
    for chart in plain:
        chart.config = alt.Undefined  # only the outermost chart may have one
    return apply_theme(alt.vconcat(*plain, spacing=30).resolve_scale(**_ALL_SCALES))


def vega_specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart."""
    # Validation against the schema of Vega-Lite is slow, so only tests do it.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    # Legends one below the other: a setting of Vega-Lite that Altair's schema lacks.
    layout = {"bottom": {"anchor": "start", "direction": "vertical", "margin": 6}}
    spec.setdefault("config", {}).setdefault("legend", {})["layout"] = layout
    plain: dict[str, Any] = _printable(spec)
    return plain


def _printable(value: Any) -> Any:
    """Replace control characters, since some of them in long texts abort the renderer."""
    if isinstance(value, dict):
        return {name: _printable(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_printable(part) for part in value]
    return value.translate(_CONTROLS) if isinstance(value, str) else value
