"""Schedules and classical algorithms in Python: found, judged, kept, and shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import sccl
from sccl.core.outcome import Inconclusive, Outcome, Solution
from sccl.core.stop import StopReason
from sccl.errors import InputError, TooLargeError
from sccl.synth.common import registry


@cache
def ring() -> sccl.Algorithm | sccl.Schedule:
    return sccl.baseline("ring", "allgather", "ring:4")


@pytest.fixture(scope="module")
def schedule() -> sccl.Schedule:
    return sccl.tacos("allreduce", "ring:3", size="3MB", progress=False)


def test_schedule_says_what_it_is(schedule: sccl.Schedule) -> None:
    assert (schedule.name, schedule.chunks, schedule.alpha) == (
        "allreduce on ring:3",
        3,
        "occupies",
    )
    assert schedule.num_sends == 12
    assert schedule.bound_us is not None
    assert schedule.finish_us >= schedule.bound_us > 0
    assert schedule.topology == sccl.topology("ring:3")
    assert schedule.violations() == []


def test_schedule_comes_back_from_its_file(schedule: sccl.Schedule, tmp_path: Path) -> None:
    again = sccl.load(schedule.save(tmp_path / "s.json"))
    assert isinstance(again, sccl.Schedule)
    assert (again.value, again.intact, again.bound_us) == (schedule.value, True, None)
    edited = json.loads((tmp_path / "s.json").read_text())
    edited["chunk_bytes"] += 1
    (tmp_path / "s.json").write_text(json.dumps(edited))
    broken = sccl.Schedule.load(tmp_path / "s.json")
    assert not broken.intact
    assert broken.violations()


def test_schedule_becomes_an_algorithm(schedule: sccl.Schedule) -> None:
    algorithm = schedule.to_algorithm()
    assert (algorithm.collective, algorithm.violations()) == ("allreduce", [])
    assert len(algorithm.sends) == schedule.num_sends


def test_interrupted_search_returns_and_reports_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = registry.plan

    def cut_off(*arguments: object) -> Outcome:
        found = plan(*arguments)  # type: ignore[arg-type]
        assert isinstance(found, Solution)
        return Inconclusive(StopReason.parse("interrupted"), found)

    monkeypatch.setattr(registry, "plan", cut_off)
    found = sccl.tacos("allgather", "ring:4", size=1024)
    assert (found.ended, found.violations()) == ("interrupted", [])
    assert repr(found).endswith("; interrupted)")
    monkeypatch.setattr(
        registry, "plan", lambda *_: Inconclusive(StopReason.parse("timeout after 1 s"))
    )
    with pytest.raises(TooLargeError, match="timeout after 1 s, before any schedule was found"):
        sccl.tacos("allgather", "ring:4", size=1024)


def test_names_in_a_schedule_are_only_names(schedule: sccl.Schedule) -> None:
    machine = replace(schedule.value.topology, name="<script>alert(1)</script>")
    shown = sccl.Schedule(replace(schedule.value, topology=machine))._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_progress_is_told_to_a_function() -> None:
    said: list[str] = []
    sccl.tacos("allgather", "mesh:4x4", size=1 << 20, progress=said.append)
    assert said[-1] == "240 of 240 transfers"


def test_classical_algorithm_is_verified() -> None:
    ring = sccl.baseline("ring", sccl.collective("allreduce", 4), sccl.topology("ring:4"))
    assert (ring.collective, ring.violations()) == ("allreduce", [])


def test_simulation_tells_what_links_carry(schedule: sccl.Schedule, tmp_path: Path) -> None:
    made = sccl.simulate(ring(), size=4096, stepping="barrier", alpha_us=1, gb_per_s=1)
    assert made.finish_us == pytest.approx(3 * (1 + 4.096))
    assert made.gb_per_s == pytest.approx(4.096 / made.finish_us)
    assert made.bound_us is not None
    assert made.bound_us < made.finish_us
    assert made.carried_bytes[0, 1] == 3 * 4096
    assert made.busy_us[0, 1] == pytest.approx(3 * 4.096)
    assert sum(made.utilisation(4)) / 4 == pytest.approx(made.utilisation()[0])
    assert "Simulation(allgather on ring:4: 15.288 us" in repr(made)
    assert sccl.simulate(schedule).finish_us == schedule.finish_us
    assert sccl.simulate(schedule.save(tmp_path / "s.json")).finish_us == schedule.finish_us
    assert made.plot().save(tmp_path / "made.svg").exists()


def test_collectives_that_run_at_once_share_links() -> None:
    alone, both = (sccl.simulate(*plans, size="1MB") for plans in ((ring(),), (ring(), ring())))
    assert alone.finish_us < both.finish_us <= 2 * alone.finish_us
    assert both._repr_html_().count("<tr>") == 3


@pytest.fixture(scope="module")
def comparison() -> sccl.Comparison:
    who = ("ring", "direct", "tacos", "bine")
    return sccl.compare("allgather", "ring:3", size="1KB..16KB", only=who, progress=False)


def test_comparison_says_who_is_fastest_and_never_beats_the_bound(
    comparison: sccl.Comparison, tmp_path: Path
) -> None:
    assert comparison.sizes == (1000, 4000, 16000)
    assert set(comparison.times_us) == {"ring", "direct", "tacos"}
    assert set(comparison.missing) == {"bine"}
    assert set(comparison.seconds) == {*comparison.times_us, *comparison.missing}
    for size, winner in comparison.winners.items():
        times = {name: of[size] for name, of in comparison.times_us.items()}
        assert times[winner] == min(times.values()) >= comparison.bound_us[size]
        assert comparison.fastest(size).violations() == []
        assert comparison.fastest(size).finish_us == pytest.approx(times[winner])
    assert comparison._repr_html_().count("<tr>") == 4
    assert comparison.plot("time").save(tmp_path / "c.svg").exists()


def test_files_of_others_take_part(tmp_path: Path) -> None:
    file = str(ring().save(tmp_path / "mine.json"))
    both = sccl.compare("allgather", "ring:4", size=1024, files=[file], only=["ring"])
    assert both.times_us[file] == both.times_us["ring"]


def test_hops_that_are_no_links_make_a_schedule() -> None:
    direct = sccl.baseline("direct", "allgather", "ring:5", size=5000)
    assert isinstance(direct, sccl.Schedule)
    assert direct.violations() == []
    assert sccl.simulate(direct).finish_us == direct.finish_us


UNTYPED: Any = sccl


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: UNTYPED.tacos("allgather", "ring:4", size=4, alpha="stays"), "alpha is"),
        (lambda: UNTYPED.tacos("allgather", "ring:4", size=1.5), "size is 1.5"),
        (lambda: UNTYPED.compare("allgather", "ring:4", only=["ring"], alpha="x"), "alpha is"),
        (lambda: UNTYPED.Comparison(3), "use sccl.compare"),
        (sccl.simulate, "sccl.simulate is given no plan"),
        (lambda: UNTYPED.simulate(3), "simulate: plans is 3"),
        (
            lambda: UNTYPED.simulate(ring(), alpha="stays"),
            "alpha is 'stays', expected travels",
        ),
        (lambda: UNTYPED.Simulation(3), "use sccl.simulate"),
        (lambda: UNTYPED.Schedule(3), "use sccl.Schedule.load"),
    ],
)
def test_bad_input_gives_one_sentence(ask: Any, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_old_argument_works_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="effort is now budget"):
        old = sccl.teccl("allgather", "ring:4", size="1KB", effort=0.1)  # type: ignore[call-arg]
    assert old.finish_us == sccl.teccl("allgather", "ring:4", size="1KB", budget=0.1).finish_us
