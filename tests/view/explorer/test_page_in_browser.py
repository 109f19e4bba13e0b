"""The explorer in a real browser: drawings, effects of clicks and keys, text that stays text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.frontier import LimitPoint, Point
from sccl.core.ids import Edge
from sccl.core.instance import SweepRange
from sccl.judge import violations
from sccl.topo import resolve_topology
from sccl.view.completeness import BoundSummary
from sccl.view.explorer.explorer_data import ExplorerAlgorithm
from sccl.view.explorer.page_html import render_page
from tests.kit.browser import Open
from tests.kit.easy_algorithms import frontier
from tests.kit.frontiers import known

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>\u2028'\"&amp;"
STEP_MS = 1500


def shown(algorithms: Sequence[Algorithm], name: str = "a.json") -> list[ExplorerAlgorithm]:
    return [
        ExplorerAlgorithm(a, name, True, BoundSummary(1, Fraction(1, 9), ("because",)))
        for a in algorithms
    ]


def allgather() -> Algorithm:
    return frontier("dgx1", "allgather")[-1]


def exchange(dimensions: int) -> Algorithm:
    """Return the allgather that exchanges all it has along one dimension after the other."""
    ranks = 2**dimensions
    sends = [
        make_send(chunk, rank, rank ^ 1 << d, d)
        for d in range(dimensions)
        for rank in range(ranks)
        for chunk in range(ranks)
        if chunk >> d == rank >> d
    ]
    rounds = tuple(2**d for d in range(dimensions))
    topology = resolve_topology(f"hypercube:{dimensions}")
    return Algorithm(topology, named_spec("allgather", ranks).at(1), rounds, tuple(sends))


def title(tab: Tab) -> str:
    return tab.inner_text("#sends-title")


def links_of(tab: Tab, algorithm: Algorithm, css: str) -> set[tuple[int, int]]:
    found = tab.eval_on_selector_all(css, "all => all.map(e => Number(e.dataset.link))")
    return {algorithm.topology.links[i].edge for i in found}


def test_page_shows_the_sends_of_each_step(opened: Open) -> None:
    a = allgather()
    tab = opened(render_page(shown([a])))
    assert tab.inner_text("#title") == "allgather on dgx1"
    for step in range(a.steps):
        assert title(tab) == f"Sends of step {step}"
        sends = [s for s in a.sends if s.step == step]
        assert links_of(tab, a, ".link.lit") == {s.edge for s in sends}
        rows = tab.eval_on_selector_all(
            "#sends tbody tr",
            "rows => rows.map(r => [r.dataset.link,"
            " ...[...r.querySelectorAll('.chip')].map(c => c.textContent)].map(Number))",
        )
        found = {(a.topology.links[link].edge, c) for link, *chunks in rows for c in chunks}
        assert found == {(s.edge, s.chunk) for s in sends}
        tab.keyboard.press("ArrowRight")
    assert title(tab) == "Done"
    assert tab.locator(".link.lit").count() == 0


def test_slider_keys_and_bars_move_through_the_steps(opened: Open) -> None:
    tab = opened(render_page(shown([allgather()])))
    tab.locator("#step").fill("2")
    assert title(tab) == "Sends of step 2"
    tab.click("#bars [data-step='1']")
    assert title(tab) == "Sends of step 1"
    for key, expected in (
        ("End", "Done"),
        ("ArrowRight", "Done"),
        ("ArrowLeft", "Sends of step 2"),
        ("Home", "Sends of step 0"),
        ("ArrowLeft", "Sends of step 0"),
    ):
        tab.keyboard.press(key)
        assert title(tab) == expected
    tab.focus("#step")
    tab.keyboard.press("ArrowRight")
    assert title(tab) == "Sends of step 1"
    assert "Step 1: " in (tab.get_attribute("#step", "aria-valuetext") or "")


def test_page_plays_and_stops_at_the_end(opened: Open) -> None:
    a = allgather()
    tab = opened(render_page(shown([a])))
    tab.keyboard.press("Space")
    assert tab.get_attribute("#play", "aria-label") == "Pause"
    tab.clock.run_for(STEP_MS)
    assert title(tab) == "Sends of step 1"
    tab.keyboard.press("Space")
    tab.clock.run_for(9 * STEP_MS)
    assert title(tab) == "Sends of step 1"
    tab.click("#play")
    tab.clock.run_for(9 * STEP_MS)
    assert title(tab) == "Done"
    assert tab.get_attribute("#play", "aria-label") == "Play"
    tab.click("#play")
    assert title(tab) == "Sends of step 0"


def test_chunk_is_followed_along_its_tree(opened: Open) -> None:
    a = allgather()
    tab = opened(render_page(shown([a])))
    chunk = a.sends[0].chunk
    tab.keyboard.press("ArrowRight")
    tab.fill("#chunk", str(chunk))
    mine = [s for s in a.sends if s.chunk == chunk]
    for phase, sends in (
        ("past", [s for s in mine if s.step < 1]),
        ("now", [s for s in mine if s.step == 1]),
        ("later", [s for s in mine if s.step > 1]),
    ):
        assert links_of(tab, a, f".tree.{phase}") == {s.edge for s in sends}
    has = {int(r) for r in a.collective.holders(chunk)} | {int(s.dst) for s in mine if s.step < 1}
    assert ranks_of(tab, ".rank.has") == has
    assert ranks_of(tab, ".rank.gets") == {s.dst for s in mine if s.step == 1}
    tab.keyboard.press("Escape")
    assert tab.locator(".tree").count() == 0
    tab.locator("#sends .chip").first.click()
    assert tab.inner_text("#selection-title").startswith("Chunk ")
    tab.click("#clear")
    assert tab.inner_text("#selection-title") == "Selection"


def test_invalid_chunk_is_reported_and_empty_field_selects_nothing(opened: Open) -> None:
    a = allgather()
    tab = opened(render_page(shown([a])))
    last = a.collective.num_chunks - 1
    for wrong in (str(last + 1), "-1", "1.5", "-"):
        tab.fill("#chunk", "2")
        assert tab.inner_text("#selection-title") == "Chunk 2"
        tab.fill("#chunk", "")
        tab.focus("#chunk")
        tab.keyboard.type(wrong)
        assert tab.inner_text("#selection-title") == "Selection"
        assert f"give a number from 0 to {last}" in tab.inner_text("#selection [role=alert]")
        assert tab.get_attribute("#chunk", "aria-invalid") == "true"
    tab.fill("#chunk", "2")
    tab.fill("#chunk", "")
    assert tab.inner_text("#selection-title") == "Selection"
    assert tab.locator(".tree, [role=alert]").count() == 0


def test_focus_stays_where_it_was(opened: Open) -> None:
    tab = opened(render_page(shown([allgather()])))
    focused = "document.activeElement.dataset.chunk ?? document.activeElement.id"
    chips = tab.locator("#sends .chip")
    chunk = chips.nth(2).get_attribute("data-chunk")
    chips.nth(2).focus()
    for _ in range(2):
        tab.keyboard.press("Enter")
        assert tab.evaluate(focused) == chunk
        assert chips.nth(2).evaluate("e => e === document.activeElement")
    tab.focus(".rank[data-rank='3']")
    tab.keyboard.press("Enter")
    tab.locator("#selection .chip").first.focus()
    tab.keyboard.press("Enter")  # removes the chip, but its selection remains
    assert tab.evaluate(focused) == "selection"
    tab.focus("#clear")
    tab.keyboard.press("Enter")
    assert tab.evaluate(focused) == "selection"


def ranks_of(tab: Tab, css: str) -> set[int]:
    return set(tab.eval_on_selector_all(css, "all => all.map(e => Number(e.dataset.rank))"))


def test_rank_shows_what_came_when_and_from_whom(opened: Open) -> None:
    a = allgather()
    tab = opened(render_page(shown([a])))
    tab.click(".rank[data-rank='3'] .disc")
    assert tab.inner_text("#selection-title") == "Rank 3"
    rows = tab.eval_on_selector_all(
        "#selection .row",
        "rows => rows.map(r => [...r.querySelectorAll('.chips')].map(p => ["
        "p.querySelector('.from')?.textContent ?? '',"
        " ...[...p.querySelectorAll('.chip')].map(c => Number(c.textContent))]))",
    )
    chunks = range(a.collective.num_chunks)
    assert rows[0] == [["", *(c for c in chunks if 3 in a.collective.holders(c))]]
    arrived = {
        (step, int(from_[0].removeprefix("from ")), chunk)
        for step, sources in enumerate(rows[1:])
        for from_ in sources
        for chunk in from_[1:]
    }
    assert arrived == {(s.step, s.src, s.chunk) for s in a.sends if s.dst == 3}
    assert title(tab) == "Sends of step 0, rank 3"
    tab.focus(".rank[data-rank='5']")
    tab.keyboard.press("Enter")
    assert tab.inner_text("#selection-title") == "Rank 5"
    assert tab.get_attribute(".rank[data-rank='5']", "aria-pressed") == "true"


def contributions(a: Algorithm, chunk: int) -> list[list[int]]:
    """Return, before each step and after the last, of how many contributions each rank has."""
    held = [{r} if r in a.collective.holders(chunk) else set() for r in range(a.topology.ranks)]
    found = [[len(h) for h in held]]
    for step in range(a.steps):
        before = [set(h) for h in held]
        for s in a.sends:
            if (s.step, s.chunk) == (step, chunk):
                held[s.dst] = held[s.dst] | before[s.src] if s.reduce else before[s.src]
        found.append([len(h) for h in held])
    return found


@pytest.mark.parametrize("collective", ["allreduce", "reducescatter", "reduce"])
def test_partial_sums_are_those_of_the_algorithm(collective: str, opened: Open) -> None:
    a = frontier("dgx1", collective)[0]
    tab = opened(render_page(shown([a])))
    chunk = a.collective.num_chunks - 1
    tab.fill("#chunk", str(chunk))
    for time, counts in enumerate(contributions(a, chunk)):
        tab.locator("#step").fill(str(time))
        texts = tab.locator(".rank .sum").all_text_contents()
        assert texts == [f"{n}/8" if n else "" for n in counts]
        assert ranks_of(tab, ".rank.has") == {r for r, n in enumerate(counts) if n == 8}


def test_every_rank_has_all_it_wants_in_the_end(opened: Open) -> None:
    found = [frontier("z52", name)[0] for name in ("alltoall", "scatter", "gather", "allreduce")]
    tab = opened(render_page(shown(found)))
    for index, a in enumerate(found):
        tab.select_option("#algorithm", str(index))
        tab.keyboard.press("Escape")
        tab.locator("#step").fill(str(a.steps))
        names = tab.eval_on_selector_all(".rank", "all => all.map(e => e.ariaLabel)")
        wants = {r for c in range(a.collective.num_chunks) for r in a.collective.destinations(c)}
        for rank, name in enumerate(names):
            ending = "has 100% of what it wants" if rank in wants else "wants nothing"
            assert name.endswith(ending)


def test_utilisation_counts_links_and_budgets(opened: Open) -> None:
    a = frontier("z52-pcie", "allgather")[0]
    tab = opened(render_page(shown([a])))
    load: Counter[tuple[Edge, int]] = Counter((s.edge, s.step) for s in a.sends)
    expected = {
        f"{k.src} → {k.dst}": [load[k.edge, step] for step in range(a.steps)]
        for k in a.topology.links
    } | {
        b.name: [sum(load[e, step] for e in b.edges) for step in range(a.steps)]
        for b in a.topology.budgets
    }
    rows = tab.eval_on_selector_all(
        "#utilisation tbody tr:not(.all)",
        "rows => rows.map(r => [r.cells[0].textContent,"
        " [...r.querySelectorAll('[data-step]')].map(c => Number(c.textContent) || 0)])",
    )
    assert dict(map(tuple, rows)) == expected


def test_refuted_region_for_the_searched_k_is_shaded(opened: Open) -> None:
    found = [replace(a, proved=("pareto",)) for a in frontier("dgx1", "allgather")[:2]]
    bounds = BoundSummary(2, Fraction(7, 6), ())
    items = [ExplorerAlgorithm(a, f"{i}.json", True, bounds) for i, a in enumerate(found)]
    question = ("dgx1", "allgather", None)
    points = tuple(
        Point(a.steps, a.bandwidth_cost, a.collective.chunks, a.rounds, is_proved=True,
              within=SweepRange(k=1), file=Path(one.file))
        for a, one in zip(found, items, strict=True)
    )  # fmt: skip
    for sweep, marks in (
        (known(question, points=points, within=SweepRange(k=1)), ["searched"] * 2),
        (known(question), ["proved"] * 2),
    ):
        tab = opened(render_page(items, [sweep], frontier=True))
        each = "all => all.map(e => e.getAttribute('class').split(' ')[1])"
        assert tab.eval_on_selector_all(".point .mark", each) == marks
        for css in (".searched", ".impossible"):
            assert tab.eval_on_selector(css, "e => e.getBBox().height") > 0
        assert ("refuted for the k and C searched" in tab.inner_text(".frontier .legend")) == (
            marks[0] == "searched"
        )
        assert ("proved for k = 1" in tab.inner_text(".frontier .points")) == (
            marks[0] == "searched"
        )


def test_sweep_starts_with_its_frontier(opened: Open) -> None:
    found = frontier("dgx1", "allgather")
    sweep = known(
        ("dgx1", "allgather", None),
        refuted=((6, 2, 7, "limit"), (12, 2, 14, "limit")),
        open=((5, 3, 7, HOSTILE),),
        limits=((2, Fraction(3, 2)),),
        is_complete=False,
    )
    tab = opened(render_page(shown(found), [sweep], frontier=True))
    assert tab.is_visible("#frontier-view")
    assert not tab.is_visible("#algorithm-view")
    counts = {
        css: tab.locator(css).count() for css in (".point", ".chart .open", ".chart .refuted")
    }
    assert list(counts.values()) == [len(found), 1, 1]
    assert HOSTILE in tab.inner_text("#frontier-view ul")
    tab.locator(".point .mark").last.click()
    assert tab.is_visible("#algorithm-view")
    assert tab.inner_text(".figure >> nth=0") == str(found[-1].steps)
    tab.click("#show-frontier")
    tab.locator(".point").first.focus()
    tab.keyboard.press("Enter")
    assert tab.inner_text(".figure >> nth=0") == str(found[0].steps)
    tab.click("#show-frontier")
    tab.get_by_role("button", name="Open", exact=True).last.click()
    assert tab.input_value("#algorithm") == str(len(found) - 1)


def crowded(first: int = 3, last: int = 24) -> list[Algorithm]:
    """Return algorithms of a long frontier: those of broadcast on a ring, without their sends."""
    ring = resolve_topology("ring:6")
    return [
        Algorithm(ring, named_spec("broadcast", 6).at(2 * s - 4), (1,) * s, (), proved=("pareto",))
        for s in range(first, last + 1)
    ]


def boxes_of(tab: Tab, css: str) -> list[tuple[str, list[float]]]:
    """Return each element's text and its box (left, top, right, bottom) in pixels."""
    found = tab.eval_on_selector_all(
        css,
        "all => all.filter(e => e.checkVisibility()).map(e => { const b ="
        " e.getBoundingClientRect();"
        " return [e.textContent, [b.left, b.top, b.right, b.bottom]]; })",
    )
    return [(text, box) for text, box in found]


def overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_labels_of_a_frontier_lie_on_nothing(width: int, opened: Open) -> None:
    found = [
        ExplorerAlgorithm(a, "a.json", True, BoundSummary(3, Fraction(1, 2), ())) for a in crowded()
    ]
    tab = opened(render_page(found, frontier=True), viewport={"width": width, "height": 900})
    texts = boxes_of(tab, ".chart text")
    (_, paper), *_ = boxes_of(tab, ".chart")
    marks = boxes_of(tab, ".chart .mark")
    labels = {text for text, _ in texts}
    assert {"3/2", "1", "S ≥ 3", "R/C ≥ 1/2"} <= labels
    assert len(labels & {str(a.bandwidth_cost) for a in crowded()}) >= 6
    assert {"Latency cost S (steps)", "Bandwidth cost R/C (rounds per chunk)"} <= labels
    for i, (text, box) in enumerate(texts):
        assert not [other for other, b in texts[:i] if overlap(box, b)], text
        assert not any(overlap(box, b) for _, b in marks), text
        assert paper[0] <= box[0] < box[2] <= paper[2], text
        assert paper[1] <= box[1] < box[3] <= paper[3], text
        assert min(box[2] - box[0], box[3] - box[1]) < 20  # pixels: letters keep their size
    lines = [box for _, box in boxes_of(tab, ".chart .bound")]
    assert not [t for t, box in texts for line in lines if overlap(box, line)]


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_table_of_points_is_whole(width: int, opened: Open) -> None:
    found = [replace(a, proved=("latency", "limit", "pareto")) for a in crowded()]
    bounds = BoundSummary(3, Fraction(1, 2), ())
    text = render_page([ExplorerAlgorithm(a, "a.json", True, bounds) for a in found], frontier=True)
    tab = opened(text, viewport={"width": width, "height": 900})
    (_, room), *_ = boxes_of(tab, ".points")
    cells = boxes_of(tab, ".points td, .points td button")
    assert len(cells) == 9 * len(found)
    for text, box in cells:
        assert room[0] <= box[0] < box[2] <= room[2], text
    assert "Fastest for" in tab.inner_text(".points") or width == 400
    name = "e => getComputedStyle(e, '::before').content"
    named = tab.eval_on_selector(".points td:nth-child(7)", name)
    assert ("Fastest for" in named) == (width == 400)


def test_marks_are_those_of_the_static_charts(opened: Open) -> None:
    a, b, *_ = crowded(3, 5)
    limits = ((3, "3/2"), (4, "9/10"), (5, "8/10"), (9, "1/2"))
    sweep = known(
        ("ring:6", "broadcast", 0),
        refuted=tuple((c, 5, r, "no") for c in range(20, 90) for r in range(10, 40)),
        open=((3, 6, 4, "time"),),
        limits=tuple((steps, Fraction(cost)) for steps, cost in limits),
        points=(LimitPoint(5, Fraction(8, 10), None, None, is_proved=True),),
        is_complete=False,
    )
    bounds = BoundSummary(3, Fraction(1, 2), ())
    found = [ExplorerAlgorithm(x, "a.json", True, bounds) for x in (a, replace(b, proved=()))]
    tab = opened(render_page(found, [sweep], frontier=True))
    kinds = Counter(
        kind.split()[1]
        for kind in tab.eval_on_selector_all(
            ".chart .mark", "all => all.map(e => e.className.baseVal)"
        )
    )
    refuted = kinds.pop("refuted")
    assert kinds == {"proved": 1, "found": 1, "approached": 1, "open": 1, "limit": 1}
    assert 5 < refuted < 40
    marks = [box for _, box in boxes_of(tab, ".chart .mark.refuted")]
    others = [box for _, box in boxes_of(tab, ".chart .mark:not(.refuted)")]
    centres = [((x0 + x1) / 2, (y0 + y1) / 2) for x0, y0, x1, y1 in [*marks, *others]]
    for i, (x, y) in enumerate(centres[:refuted]):
        assert all(math.hypot(x - u, y - v) > 11 for u, v in centres[i + 1 :])
    keys = tab.inner_text(".frontier .legend")
    for name in ("proved", "best found", "approached", "open", "refuted", "limit of R/C"):
        assert name in keys


def test_hostile_names_stay_text(opened: Open) -> None:
    a = frontier("z52-pcie", "allgather")[0]
    budgets = tuple(replace(b, name=f"{HOSTILE}{i}") for i, b in enumerate(a.topology.budgets))
    labels = (HOSTILE, *(str(r) for r in range(1, a.topology.ranks)))
    a = replace(
        a,
        topology=replace(a.topology, name=HOSTILE, labels=labels, budgets=budgets),
        collective=replace(a.collective, name=HOSTILE),
        scope=HOSTILE,
        proved=("pareto",),
    )
    tab = opened(
        render_page([ExplorerAlgorithm(a, HOSTILE, True, BoundSummary(1, Fraction(1), (HOSTILE,)))])
    )
    tab.click(".rank[data-rank='0'] .disc")
    tab.click("#show-frontier")
    assert tab.evaluate("window.hit") is None
    assert tab.evaluate("document.images.length + document.scripts.length") == 2
    texts = tab.evaluate(
        "['#title', '#proofs', '#selection-title', '#utilisation', 'article h2']"
        ".map(css => document.querySelector(css).textContent)"
    )
    assert [HOSTILE in text for text in texts] == [True] * 5
    assert HOSTILE in tab.title().replace("\n", " ")


def test_policy_lets_no_other_script_run(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    injected = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>"
    before, main, after = render_page(shown([allgather()])).partition("<main")
    assert main
    file.write_text(f"{before}{injected}{main}{after}")
    tab = browser.new_page()
    tab.goto(file.as_uri())
    assert tab.inner_text("#title") == "allgather on dgx1"
    assert tab.evaluate("window.hit") is None
    tab.close()


def test_dark_light_and_stillness(opened: Open) -> None:
    tab = opened(render_page(shown([allgather()])), color_scheme="dark", reduced_motion="reduce")
    color = "getComputedStyle(document.documentElement).backgroundColor"
    dark = tab.evaluate(color)
    assert (
        tab.evaluate("getComputedStyle(document.querySelector('.dashes')).animationName") == "none"
    )
    tab.click("#theme")
    light = tab.evaluate(color)
    assert brightness(dark) < 64
    assert brightness(light) > 192
    assert tab.inner_text("#theme") == "Dark"
    tab.click("#theme")
    assert tab.evaluate(color) == dark


def brightness(color: str) -> float:
    channels = [int(c) for c in color.removeprefix("rgb(").removesuffix(")").split(",")]
    return sum(channels) / 3


CONTRAST = """
([css, property, other]) => {
  const channels = (color) => {
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (color) => channels(color).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  return [...document.querySelectorAll(css)].map((e) => {
    const style = getComputedStyle(e);
    const own = other !== "card";
    const ground = own ? style[other] : getComputedStyle(e.closest(".card")).backgroundColor;
    const [a, b] = [light(style[property]), light(ground)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
}
"""  # by what WCAG calls it, between a property of elements and another one, or their card


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_drawing_is_readable_in_grayscale(scheme: str, opened: Open) -> None:
    a = frontier("z52-pcie", "allgather")[0]
    bounds = BoundSummary(a.steps, a.bandwidth_cost, ())
    tab = opened(render_page([ExplorerAlgorithm(a, "a.json", True, bounds)]), color_scheme=scheme)

    def least(css: str, of: str, other: str = "card") -> float:
        found: list[float] = tab.evaluate(CONTRAST, [css, of, other])
        return min(found)

    assert least(".box", "stroke") > 3
    assert least(".track", "stroke") > 1.4
    cells = ".heat td[class^=u]"
    assert least(cells, "color", "backgroundColor") > 4.5
    shares = [
        tab.evaluate(CONTRAST, [f".ramp .u{i}", "backgroundColor", "card"])[0] for i in range(1, 6)
    ]
    assert shares == sorted(shares)
    assert all(b > 1.3 * a for a, b in pairwise(shares))
    for i in range(1, 6):  # the table's shades are those of the legend
        full = tab.evaluate(CONTRAST, [f"{cells}.u{i}", "backgroundColor", "card"])
        assert set(full) <= {shares[i - 1]}
    tab.click("#show-frontier")
    assert least(".impossible", "fill") > 1.6


def without_sends(machine: str) -> Algorithm:
    topology = resolve_topology(machine)
    return Algorithm(topology, named_spec("allgather", topology.ranks).at(1), (1,), ())


LETTERS = "all => all.map(e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)"


@pytest.mark.parametrize(
    "machine", ["torus:4x4x4", "switch:24", "ring:64", "mesh:8x8", "dragonfly:4x5", "dgx1"]
)
def test_numbers_and_names_can_be_read(machine: str, opened: Open) -> None:
    size = {"width": 1280, "height": 720}
    tab = opened(render_page(shown([without_sends(machine)])), viewport=size)
    assert min(tab.eval_on_selector_all(".rank .name, .box-name", LETTERS)) >= 8
    discs = boxes_of(tab, ".rank .disc")
    for (text, box), (_, disc) in zip(boxes_of(tab, ".rank .name"), discs, strict=True):
        assert disc[0] <= box[0] <= box[2] <= disc[2], text


def test_64_ranks_are_read_closer_on_a_narrow_screen(opened: Open) -> None:
    size = {"width": 400, "height": 740}
    tab = opened(render_page(shown([without_sends("torus:4x4x4")])), viewport=size)
    name = ".rank[data-rank='21'] .name"
    before = tab.eval_on_selector_all(name, LETTERS)[0]
    for _ in range(3):
        tab.click("#zoom-in")
    closer = tab.eval_on_selector_all(name, LETTERS)[0]
    assert closer > max(10, 1.5 * before)
    assert tab.evaluate("document.documentElement.scrollWidth") == 400
    place = "[byId('view').scrollLeft, byId('view').scrollTop]"
    left, top = tab.evaluate(place)
    assert min(left, top) > 0  # the middle stays in the middle
    tab.locator("#view").scroll_into_view_if_needed()
    (_, box), *_ = boxes_of(tab, "#view")
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 50, y - 30, steps=3)
    tab.mouse.up()
    assert tab.evaluate(place) == pytest.approx([left + 50, top + 30], abs=2)
    assert tab.inner_text("#selection-title") == "Selection"  # a pull is no click
    tab.focus("#view")
    tab.keyboard.press("ArrowRight")
    assert title(tab) == "Sends of step 0"
    for _ in range(3):
        tab.keyboard.press("-")
    assert tab.evaluate(place) == [0, 0]
    tab.keyboard.press("+")
    assert tab.eval_on_selector_all(name, LETTERS)[0] > 1.3 * before
    tab.focus(".rank[data-rank='63']")
    tab.keyboard.press("Enter")
    assert tab.inner_text("#selection-title") == "Rank 63"


def test_links_that_share_a_budget_are_dashed(opened: Open) -> None:
    pcie, switch = frontier("z52-pcie", "allgather")[0], without_sends("switch:8")
    tab = opened(render_page(shown([pcie, switch])))
    expected = {edge for budget in pcie.topology.budgets for edge in budget.edges}
    assert links_of(tab, pcie, ".link.shared") == expected
    dashes = "all => all.map(e => getComputedStyle(e).strokeDasharray)"
    assert set(tab.eval_on_selector_all(".link.shared .track", dashes)) == {"14px, 8px"}
    assert set(tab.eval_on_selector_all(".link:not(.shared) .track", dashes)) == {"none"}
    assert "shares a budget" in tab.inner_text("#legend")
    number = next(i for i, k in enumerate(pcie.topology.links) if k.edge in expected)
    assert "PCIe" in str(tab.text_content(f".link[data-link='{number}'] title"))
    assert tab.inner_text("#utilisation tbody tr:nth-child(2) th").startswith("PCIe")
    assert tab.inner_text("#utilisation thead th") == "Budget or link"
    tab.select_option("#algorithm", "1")  # the shared budget of a rank's own links is no bus
    assert tab.locator(".link.shared").count() == 0
    assert "shares a budget" not in tab.inner_text("#legend")


def test_labels_of_ranks_are_told_next_to_their_numbers(opened: Open) -> None:
    a = frontier("full:4", "allgather")[0]
    labels = ("left", "right", "2", "far <b>")
    a = replace(a, topology=replace(a.topology, labels=labels))
    tab = opened(render_page(shown([a])))
    assert tab.locator(".rank .name").all_text_contents() == ["0", "1", "2", "3"]
    for rank, name in enumerate(("Rank 0 (left)", "Rank 1 (right)", "Rank 2", "Rank 3 (far <b>)")):
        assert (tab.text_content(f".rank[data-rank='{rank}'] title") or "").startswith(f"{name},")
        tab.click(f".rank[data-rank='{rank}'] .disc")
        assert tab.inner_text("#selection-title") == name


def test_page_fits_a_narrow_screen(opened: Open) -> None:
    found = [*frontier("dgx1", "allgather"), *frontier("dgx1", "broadcast")]
    tab = opened(render_page(shown(found), frontier=True), viewport={"width": 360, "height": 740})
    wide = "document.documentElement.scrollWidth"
    assert tab.evaluate(wide) == 360
    tab.locator(".point .mark").first.click()
    assert tab.evaluate(wide) == 360
    boxes = [tab.locator(css).bounding_box() for css in ("#stage", "#selection", "#sends")]
    tops = [box["y"] for box in boxes if box]
    assert tops == sorted(tops)
    assert len(tops) == 3


def test_everything_has_a_name_and_a_place_in_the_tab_order(opened: Open) -> None:
    tab = opened(render_page(shown(frontier("dgx1", "allgather"))))
    nameless = tab.eval_on_selector_all(
        "button, select, input, [role=button], [role=region]",
        "all => all.filter(e => e.checkVisibility() && !e.closest('[aria-hidden]') && !(e.ariaLabel"
        " || e.textContent.trim() || e.labels?.length || e.hasAttribute('aria-labelledby')))"
        ".map(e => e.outerHTML)",
    )
    assert nameless == []
    order = []
    for _ in range(7):
        tab.keyboard.press("Tab")
        order.append(tab.evaluate("document.activeElement.id || document.activeElement.className"))
    assert order[:4] == ["skip", "show-frontier", "algorithm", "theme"]
    focused = "getComputedStyle(document.activeElement).outlineStyle"
    tab.focus("#play")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Shift+Tab")
    assert tab.evaluate(focused) == "solid"


def test_long_table_is_cut_and_is_reported(opened: Open) -> None:
    topology = resolve_topology("full:24")
    sends = tuple(make_send(k.src, k.src, k.dst, 0) for k in topology.links)
    a = Algorithm(topology, named_spec("allgather", 24).at(1), (1,), sends)
    tab = opened(render_page(shown([a])))
    assert tab.locator(".link.lit").count() == len(sends) == 552
    assert tab.locator("#sends tbody tr").count() == 501
    assert "and 52 more links" in tab.inner_text("#sends tbody tr:last-child")
    tab.focus(".rank[data-rank='7']")
    tab.keyboard.press("Enter")
    assert tab.locator("#sends tbody tr").count() == 46


def test_64_ranks_are_all_there(opened: Open) -> None:
    a = exchange(6)
    assert violations(a) == []
    text = render_page(shown([a]))
    assert len(text) < 3_000_000
    tab = opened(text)
    assert tab.locator(".rank").count() == 64
    assert tab.locator(".link").count() == 384
    for step in range(a.steps):
        sends: list[Send] = [s for s in a.sends if s.step == step]
        assert tab.locator(".link.lit").count() == len({s.edge for s in sends})
        assert tab.locator("#sends .chip").count() == len(sends)
        tab.keyboard.press("ArrowRight")
    tab.fill("#chunk", "63")
    assert tab.locator(".rank.has").count() == 64
