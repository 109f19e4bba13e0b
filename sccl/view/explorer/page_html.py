"""Render the explorer: a web page that shows algorithms step by step, with their frontiers.

The page is self-contained: text, style, script and data are in one file, and its content security
policy forbids loading anything else. Data from files (names, labels, reasons) are JSON in a block
that is not executed, and the script inserts them only as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from sccl.core.algorithm import KSynchronousPlan
from sccl.core.files.disk import read_text
from sccl.core.frontier import Frontier
from sccl.errors import ParameterError
from sccl.view.explorer.explorer_data import (
    ExplorerAlgorithm,
    ExplorerSchedule,
    page_data,
    plan_title,
)

if TYPE_CHECKING:
    from sccl.core.outcome import Plan

MAX_SENDS = 100_000
"""Maximum number of sends of all algorithms of a page, so that it stays small and responsive."""

MAX_LINKS = 5_000
"""Maximum number of links of a machine, for its drawing."""

MAX_USES = 100_000
"""Maximum number of links times steps, for a table of them."""

_PAGE = Path(__file__).parent / "page"
_SCRIPTS = (
    "model",
    "timed",
    "marks",
    "stage",
    "zoom",
    "panels",
    "tables",
    "labels",
    "chart",
    "frontier",
    "theme",
    "app",
)
_STEP_SCRIPTS = ("marks", "theme", "gantt", "steps")


def render_page(
    shown: Sequence[ExplorerAlgorithm],
    frontiers: Sequence[Frontier] = (),
    schedules: Sequence[ExplorerSchedule] = (),
    *,
    frontier: bool = False,
) -> str:
    """Return the explorer as the text of one HTML file. Equal input gives equal bytes.

    Args:
        shown: algorithms to show. There must be at least one algorithm or schedule.
        frontiers: frontiers for the same machines and collectives.
        schedules: schedules to show after the algorithms, on a time axis.
        frontier: whether to start with the frontiers instead of the first algorithm.

    Raises:
        ParameterError: the plans are too large for a page.
    """
    check_fits(
        *((entry.file, entry.algorithm) for entry in shown),
        *((entry.file, entry.schedule) for entry in schedules),
    )
    titles = dict.fromkeys(
        [
            *(plan_title(entry.algorithm) for entry in shown),
            *(plan_title(entry.schedule) for entry in schedules),
        ]
    )
    data = page_data(shown, frontiers, schedules, frontier=frontier)
    return _assemble_page("page.html", ("style",), _SCRIPTS, ", ".join(list(titles)[:2]), data)


def render_step_page(title: str, data: Any) -> str:
    """Return the page of a training plan as the text of one HTML file."""
    return _assemble_page("steps.html", ("style", "steps"), _STEP_SCRIPTS, title, data)


def _assemble_page(
    template: str, styles: Sequence[str], scripts: Sequence[str], title: str, data: Any
) -> str:
    style = "\n".join(read_text(_PAGE / f"{name}.css") for name in styles)
    script = "\n".join(read_text(_PAGE / f"{name}.js") for name in scripts)
    return Template(read_text(_PAGE / template)).substitute(
        policy=f"default-src 'none'; style-src {_source_hash(style)}; "
        f"script-src {_source_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        title=html.escape(title),
        style=style,
        script=script,
        data=_embedded_json(data),
    )


def check_fits(*named: tuple[str, Plan]) -> None:
    """Check that plans are small enough for a page, before they are verified.

    Args:
        named: file name and plan, for each plan.

    Raises:
        ParameterError: a plan is too large, or all together have too many sends.
    """
    all_sends = 0
    for file, plan in named:
        links = len(plan.topology.links)
        all_sends += plan.num_sends
        uses = links * plan.steps if isinstance(plan, KSynchronousPlan) else 0
        for label, count, cap in (
            ("links", links, MAX_LINKS),
            ("chunks", plan.collective.num_chunks, MAX_SENDS),
            ("sends", plan.num_sends, MAX_SENDS),
            ("sends with the files before it", all_sends, MAX_SENDS),
            ("links times steps", uses, MAX_USES),
        ):
            if count > cap:
                raise ParameterError(
                    f"{file} has {count} {label}, more than a page shows smoothly (at most {cap}); "
                    "give fewer or smaller files, or write a table with 'sccl export --format csv'"
                )


def _source_hash(text: str) -> str:
    """Return the policy's source expression that allows only this inline block."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embedded_json(value: Any) -> str:
    """Return JSON in which no string can end a script block or a line of JavaScript."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII: U+2028 and U+2029 are escaped too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
