"""The explorer in a real browser: schedules on an axis of time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sccl.core.clock import AlphaModel
from sccl.core.schedule import Schedule
from sccl.errors import ParameterError
from sccl.judge import violations
from sccl.transform.retime import schedule_algorithm
from sccl.view.explorer import page_html
from sccl.view.explorer.explorer_data import ExplorerSchedule
from sccl.view.explorer.explorer_plans import explorer_schedules
from sccl.view.explorer.page_html import render_page
from tests.kit.baselines import classical
from tests.kit.browser import Open
from tests.kit.commands import sccl
from tests.kit.schedules import together_around

if TYPE_CHECKING:
    from playwright.sync_api import Page as Tab


def gather(model: AlphaModel = AlphaModel.TRAVELS) -> Schedule:
    return schedule_algorithm(classical("multi-ring", "allgather", "dgx1"), 10_000, model)


def of(schedule: Schedule) -> str:
    return render_page([], schedules=explorer_schedules([("a.json", schedule)]))


def found(machine: str, collective: str, folder: Path) -> Schedule:
    from sccl.core.files.schedules import load_schedule

    file = folder / "s.json"
    words = ("--collective", collective, "--topo", machine, "--size", "64KiB", "-o", file)
    assert sccl("synth", "tacos", *words)[0] == 0
    return load_schedule(file)[0]


def go_to(tab: Tab, time_us: float) -> None:
    set_to = "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }"
    tab.eval_on_selector("#step", set_to, time_us)


def links_of(tab: Tab, css: str) -> set[int]:
    return set(tab.eval_on_selector_all(css, "all => all.map(e => Number(e.dataset.link))"))


def rows_of(schedule: Schedule) -> list[tuple[float, float, float, int, int, int]]:
    """Return (start, free, arrive, chunk, link, target) in microseconds."""
    clock, links = schedule.clock, schedule.topology.links
    columns = (schedule.start, schedule.end, schedule.chunk, schedule.link)
    return [
        (clock.us(s), clock.us(e), clock.us(e + clock.lag(k)), c, k, links[k].dst)
        for s, e, c, k in zip(*(column.tolist() for column in columns), strict=True)
    ]


@pytest.mark.parametrize("model", AlphaModel)
def test_links_that_are_busy_are_lit_and_what_has_arrived_is_shown(
    model: AlphaModel, opened: Open
) -> None:
    schedule = gather(model)
    tab = opened(of(schedule))
    assert tab.inner_text("#title") == "allgather on dgx1"
    last = schedule.clock.us(schedule.finish)
    assert float(tab.get_attribute("#step", "max") or 0) == pytest.approx(last)
    chunk = 5
    tab.fill("#chunk", str(chunk))
    for part in (0, 0.11, 0.37, 0.5, 0.83, 0.999, 1):
        time = last * part
        go_to(tab, time)
        rows = rows_of(schedule)
        has = {int(r) for r in schedule.collective.holders(chunk)}
        has |= {dst for *_, arrive, c, _, dst in rows if c == chunk and arrive <= time}
        ranks = tab.eval_on_selector_all(".rank.has", "all => all.map(e => Number(e.dataset.rank))")
        assert set(ranks) == has
        tab.keyboard.press("Escape")
        lit = {k for start, free, _, _, k, _ in rows if start <= time < free}
        assert links_of(tab, ".link.lit") == lit
        on_way = [r for r in rows if r[0] <= time < r[2]]
        assert tab.locator("#sends tbody tr").count() == len(on_way)
        tab.fill("#chunk", str(chunk))
    assert tab.inner_text("#sends-title") == "Done"
    assert tab.inner_text("#now").startswith("Done after ")


def test_keys_go_from_moment_to_moment_and_it_plays_to_the_end(opened: Open) -> None:
    schedule = gather()
    tab = opened(of(schedule))
    moments = sorted({t for row in rows_of(schedule) for t in (row[0], row[2])})
    value = "e => Number(e.value)"
    for moment in moments[1:4]:
        tab.keyboard.press("ArrowRight")
        assert tab.eval_on_selector("#step", value) == pytest.approx(moment)
    tab.keyboard.press("ArrowLeft")
    assert tab.eval_on_selector("#step", value) == pytest.approx(moments[2])
    tab.keyboard.press("End")
    assert tab.inner_text("#sends-title") == "Done"
    tab.keyboard.press("Home")
    tab.keyboard.press("Space")
    tab.clock.run_for(6_000)
    middle = tab.eval_on_selector("#step", value)
    assert 0.4 * moments[-1] < middle < 0.6 * moments[-1]
    tab.clock.run_for(7_000)
    assert tab.inner_text("#sends-title") == "Done"
    assert tab.get_attribute("#play", "aria-label") == "Play"
    tab.locator("#bars button").nth(24).click(force=True)
    assert tab.eval_on_selector("#step", value) == pytest.approx(moments[-1] / 2)
    assert "links busy" in tab.inner_text("#now")


@pytest.mark.parametrize(
    ("machine", "collective"),
    [("dgx1", "allreduce"), ("switch2d:2x2", "allreduce"), ("switch2d:2x2", "allgather"),
     ("dgx1", "alltoall"), ("ring:4", "reducescatter")],
)  # fmt: skip
def test_in_the_end_every_rank_has_what_it_wants(
    machine: str, collective: str, opened: Open, tmp_path: Path
) -> None:
    """Partial sums too, and switches, through which chunks only pass."""
    schedule = found(machine, collective, tmp_path)
    assert violations(schedule) == []
    tab = opened(of(schedule))
    names = ".rank title"
    at_first = tab.locator(names).all_text_contents()
    assert any("has 100%" not in name for name in at_first)
    tab.keyboard.press("End")
    assert all("has 100%" in name for name in tab.locator(names).all_text_contents())
    if collective == "allreduce":
        tab.fill("#chunk", "0")
        ranks = schedule.topology.ranks
        assert tab.locator(".rank .sum").all_text_contents() == [f"{ranks}/{ranks}"] * ranks
        go_to(tab, 0)
        assert tab.locator(".rank .sum").all_text_contents() == [f"1/{ranks}"] * ranks


def test_joint_sends_are_one_transfer(opened: Open) -> None:
    schedule = together_around(4, 25_000, AlphaModel.OCCUPIES)
    tab = opened(of(schedule))
    assert "12 transfers" in tab.inner_text("#subtitle")
    busy = tab.locator("#facts").inner_text()
    assert "50.0%" in busy  # half of all links, all of the time
    go_to(tab, 1)
    titles = tab.locator(".link title").all_text_contents()
    assert sum("chunks 0, 4, 0 " in title for title in titles) == 1
    tab.keyboard.press("End")
    names = tab.locator(".rank title").all_text_contents()
    assert all("has 100%" in name for name in names)


def test_rank_and_a_chunk_say_what_came_when(opened: Open) -> None:
    schedule = gather()
    tab = opened(of(schedule))
    tab.click(".rank[data-rank='3'] .disc")
    came = [row for row in rows_of(schedule) if row[5] == 3]
    assert tab.locator("#selection .hop .chip").count() == len(came)
    assert "0% of what it wants" not in tab.inner_text("#selection p.muted")
    tab.fill("#chunk", "7")
    goes = [row for row in rows_of(schedule) if row[3] == 7]
    assert tab.locator("#selection .hop").count() == len(goes)
    assert "on 1 of 8 ranks at 0 " in tab.inner_text("#selection p.muted")


def test_schedules_and_algorithms_share_a_page(opened: Open, tmp_path: Path) -> None:
    for name in ("ring", "direct"):
        words = ("--collective", "allgather", "--topo", "full:4", "-o", tmp_path / f"{name}.json")
        assert sccl("synth", name, *words)[0] == 0
    asked = ("--collective", "allgather", "--topo", "full:4", "--size", "1MB")
    assert sccl("synth", "tacos", *asked, "-o", tmp_path / "t.json")[0] == 0
    code, out, _ = sccl("explore", tmp_path, "-o", tmp_path / "p.html")
    assert (code, "2 algorithms and 1 schedule in" in out) == (0, True)
    tab = opened((tmp_path / "p.html").read_text())
    tab.select_option("#algorithm", "2")
    assert tab.get_attribute("#step", "step") == "any"
    assert "no schedule of such chunks" in tab.inner_text("#proofs").lower()
    tab.keyboard.press("End")
    tab.select_option("#algorithm", "0")
    assert tab.get_attribute("#step", "step") == "1"
    assert tab.inner_text("#sends-title") == "Sends of step 0"
    tab.click("#show-frontier")
    assert tab.locator(".point").count() >= 1


def test_only_schedules_make_a_page(opened: Open, tmp_path: Path) -> None:
    words = ("--collective", "allgather", "--topo", "ring:4", "--size", "1MB")
    sccl("synth", "tacos", *words, "-o", tmp_path / "t.json")
    code, out, err = sccl("explore", tmp_path, "-o", tmp_path / "p.html")
    assert (code, err) == (0, "")
    assert "1 schedule in" in out
    tab = opened((tmp_path / "p.html").read_text())
    assert tab.inner_text("#title") == "allgather on ring:4"
    tab.keyboard.press("ArrowRight")
    assert tab.locator("#frontier-view").is_hidden()


def test_page_fits_a_narrow_screen(opened: Open) -> None:
    tab = opened(of(gather()))
    tab.set_viewport_size({"width": 360, "height": 740})
    assert tab.evaluate("document.documentElement.scrollWidth") == 360


def test_too_many_transfers_make_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = gather()
    monkeypatch.setattr(page_html, "MAX_SENDS", schedule.num_sends - 1)
    with pytest.raises(ParameterError, match="336 sends, more than a page shows smoothly"):
        of(schedule)
    monkeypatch.setattr(page_html, "MAX_SENDS", schedule.num_sends)
    with pytest.raises(ParameterError, match="672 sends with the files before it"):
        explorer_schedules([("a.json", schedule), ("b.json", schedule)])
    text = render_page([], schedules=[ExplorerSchedule(schedule, "a.json", None, "<because>")])
    assert "<because>" not in text
    assert render_page([], schedules=explorer_schedules([("a.json", schedule)])) == of(schedule)
