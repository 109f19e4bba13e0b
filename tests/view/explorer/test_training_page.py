"""The page of a training plan in a browser: bars, clicks and keys, text that stays text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sccl.errors import InputError
from sccl.training.plan_files import LoadedTraining
from sccl.training.types.training_plan import TrainingPlan
from sccl.view.explorer import training_page as step_page
from sccl.view.explorer.training_page import training_page
from tests.kit.browser import Open
from tests.kit.commands import sccl
from tests.kit.training_plans import layered_plan, plan_file, prefetching_plan

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>\u2028'\"&amp;"


def page_of(plan: TrainingPlan) -> str:
    return training_page(LoadedTraining(Path("plan.json"), plan, intact=True))


def marked(tab: Tab, how: str) -> set[str]:
    """Return the page's names of the marked bars, by pointing at each."""
    found = set()
    for bar in tab.query_selector_all(f".span.{how}"):
        bar.hover()
        found.add(tab.inner_text("#told-title"))
    return found


def bar_of(tab: Tab, name: str) -> str:
    """Return a selector of the first bar in view that has a name."""
    for bar in tab.query_selector_all(".span"):
        bar.hover()
        if tab.inner_text("#told-title") == name:
            return f"[data-span='{bar.get_attribute('data-span')}']"
    raise AssertionError(name)


def test_everything_of_a_bar_is_reported(opened: Open) -> None:
    tab = opened(page_of(prefetching_plan()))
    assert tab.inner_text("#title") == "prefetching on hgx2"
    assert "52.63%" in tab.inner_text("#facts")
    tab.hover(bar_of(tab, "gradients, motif 1, iteration 1"))
    told = " ".join(tab.inner_text("#told").split())
    for words in (
        "allreduce of 4 KiB among 2 ranks",
        "25.5 us to 28 us, 2.5 us",
        "ring, motif 1 of 2",
        "ring on gpu",
        "50 % of gpu: links",
        "reduces in another order than unsplit",
        "gradients, motif 0, iteration 1 (until 25.5 us, the last)",
        "lets begin optimizer, iteration 1",
    ):
        assert words in told, told
    tab.mouse.move(5, 5)
    assert tab.inner_text("#told-title") == "Selection"


def test_click_shows_what_is_waited_for_and_what_waits(opened: Open) -> None:
    tab = opened(page_of(prefetching_plan()))
    tab.click(bar_of(tab, "gradients, motif 0, iteration 1"))
    assert marked(tab, "on") == {f"gradients, motif {k}, iteration 1" for k in (0, 1)}
    assert marked(tab, "before") == {"backward, iteration 1"}
    assert marked(tab, "after") == {"optimizer, iteration 1"}
    assert tab.locator(".arrow").count() == 3
    tab.click("#clear")
    assert tab.locator(".span.on, .span.dim, .arrow").count() == 0


def test_page_works_with_keys_alone(opened: Open) -> None:
    tab = opened(page_of(prefetching_plan()))
    tab.focus("#chart")
    tab.keyboard.press("ArrowRight")
    first = tab.inner_text("#told-title")
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text("#told-title") != first
    tab.keyboard.press("ArrowDown")
    assert tab.locator(".span.on").count() >= 1
    tab.keyboard.press("Escape")
    assert tab.inner_text("#told-title") == "Selection"
    tab.keyboard.press("Home")
    everything = tab.locator(".span").count()
    for _ in range(6):
        tab.keyboard.press("+")
    assert 0 < tab.locator(".span").count() < everything
    tab.keyboard.press("Home")
    assert tab.locator(".span").count() == everything


def test_page_zooms_and_moves(opened: Open) -> None:
    tab = opened(page_of(prefetching_plan()))
    ticks = ".tick"
    before = tab.locator(ticks).all_text_contents()
    tab.click("#closer")
    closer = tab.locator(ticks).all_text_contents()
    assert closer != before
    box = tab.locator("#gantt").bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + 40
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 200, y, steps=3)
    tab.mouse.up()
    assert tab.locator(ticks).all_text_contents() != closer
    assert tab.locator(".span.on").count() == 0  # a pull is no click
    tab.click("#repeated")
    assert tab.locator(ticks).all_text_contents() == before
    assert "iteration 1" in tab.locator("#gantt text").all_text_contents()


def test_two_hundred_collectives_are_drawn_and_read_closer(opened: Open) -> None:
    tab = opened(page_of(layered_plan(100)))
    assert tab.locator(".span").count() > 200
    assert not [t for t in tab.locator("#gantt .in").all_text_contents() if "gather" in t]
    tab.focus("#chart")
    tab.keyboard.press("ArrowRight")
    for _ in range(10):
        tab.keyboard.press("+")
    assert [
        t for t in tab.locator("#gantt .in").all_text_contents() if "forward" in t or "back" in t
    ]
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280
    assert tab.locator("#options tbody tr").count() == 6
    assert tab.locator("#lanes tbody tr").count() == 3


def test_page_fits_a_narrow_screen(opened: Open) -> None:
    tab = opened(page_of(prefetching_plan()))
    tab.set_viewport_size({"width": 400, "height": 740})
    tab.click(bar_of(tab, "backward, iteration 1"))
    assert tab.evaluate("document.documentElement.scrollWidth") == 400
    assert tab.locator("#gantt .tick").count() > 0


def test_names_are_only_ever_text(opened: Open) -> None:
    plan = prefetching_plan()
    workload = replace(plan.workload, name=HOSTILE.replace("\u2028", ""))
    channel = replace(plan.options[0][1].motifs[0], carrier=HOSTILE)
    option = replace(plan.options[0][1], recipe=HOSTILE, motifs=(channel,))
    plan = replace(
        plan,
        workload=workload,
        options=(("batch", option), plan.options[1]),
        search=HOSTILE,
        binding=HOSTILE,
    )
    tab = opened(page_of(plan))
    tab.click(bar_of(tab, "batch, iteration 1"))
    assert tab.evaluate("window.hit") is None
    assert tab.evaluate("document.images.length + document.scripts.length") == 2
    for css in ("#title", "#facts", "#told", "#options"):
        assert "<script>window.hit=1</script>" in str(tab.text_content(css))


def test_page_is_whole_and_its_policy_strict() -> None:
    text = page_of(prefetching_plan())
    assert text == page_of(prefetching_plan())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert ".innerHTML" not in text


def test_training_page_has_its_verb(tmp_path: Path) -> None:
    file, output = plan_file(prefetching_plan(), tmp_path / "plan.json"), tmp_path / "page.html"
    code, out, _ = sccl("explore", file, "-o", output, "--json")
    told = json.loads(out)
    assert (code, told["training"], told["algorithms"]) == (0, 1, 0)
    assert output.read_text() == page_of(prefetching_plan())
    output.unlink()
    code, _, err = sccl("explore", file, file, "-o", output)
    assert (code, "a page shows one: give it alone" in " ".join(err.split())) == (2, True)
    plan_file(replace(prefetching_plan(), period_ns=1), file)
    code, _, err = sccl("explore", file, "-o", output)
    assert (code, "this plan fails verification" in " ".join(err.split())) == (2, True)
    assert not output.exists()


def test_too_large_page_gives_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_page, "MAX_SPANS", 9)
    with pytest.raises(InputError, match="13 computations and motifs in 2 iterations, more than"):
        page_of(prefetching_plan())
