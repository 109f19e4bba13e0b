"""The figures of TACOS: reference values in closed form, and drawings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import pictures
from benchmarks.__main__ import app
from benchmarks.tacos.cases import FIGURES, SMOKE, TACOS, Case, select_cases
from benchmarks.tacos.ideal import ideal_us, phased_us
from benchmarks.tacos.measure import measure_case
from sccl.core.clock import AlphaModel
from sccl.errors import InputError
from sccl.topo import resolve_topology

MB = 10**6


@pytest.mark.parametrize(
    ("name", "bytes_us", "latency_us", "cut_us"),
    [
        ("ring:8@50GB+0.5us", 2 * MB * 7 / 8 / 100e3, 4 * 0.5, 0.0),
        ("full:5@10GB+1us", 2 * MB * 4 / 5 / 40e3, 1.0, 0.0),
        ("mesh:3x3@50GB+0.5us", 2 * MB * 8 / 9 / 100e3, 4 * 0.5, 2 * MB * 2 / 3 / 150e3),
        (
            "dragonfly:4x5@400,200GB+0.5us",
            2 * MB * 19 / 20 / 1400e3, 3 * 0.5, 2 * MB * 4 / 5 / 800e3,
        ),
        (
            "switch2d:8x4@300,25GB+0.25us",
            2 * MB * 31 / 32 / 325e3, 4 * 0.25, 2 * MB * 3 / 4 / 200e3,
        ),
        (
            "rfs:2x4x8@200,100,50GB+0.5,0.5,0.25us",
            2 * MB * 63 / 64 / 550e3, 3 * 0.5, 2 * MB * 7 / 8 / 400e3,
        ),
    ],
)  # fmt: skip
def test_ideal_times_are_those_of_the_formulas(
    name: str, bytes_us: float, latency_us: float, cut_us: float
) -> None:
    machine = resolve_topology(name)
    assert ideal_us(machine, 2 * MB) == pytest.approx(bytes_us + latency_us)
    assert phased_us(machine, 2 * MB) == pytest.approx(max(bytes_us, cut_us))


def test_no_schedule_in_two_phases_beats_their_bound() -> None:
    for name in ("rfs:2x2x2", "dragonfly:2x3@4,1GB", "mesh:3x3", "switch2d:2x3"):
        found = measure_case(Case("fig15", name, TACOS, MB, (2,)))
        assert found.bound_us is not None
        assert found.phased_us <= found.us
        assert found.bound_us <= found.us


@pytest.mark.parametrize("model", list(AlphaModel))
def test_ring_takes_what_its_formula_says(model: AlphaModel) -> None:
    found = measure_case(Case("fig2a", "ring:6@10GB+2us", "ring-both", 6 * MB, (1,), model))
    assert found.us == pytest.approx(2 * 5 * (2.0 + 6 * MB / 12 / 10e3))


def test_figures_are_chosen_by_their_names() -> None:
    assert {case.figure for case in select_cases("fig15, table5", smoke=False, largest=False)} == {
        "fig15",
        "table5",
    }
    assert len(select_cases("", smoke=False, largest=False)) == sum(map(len, FIGURES.values()))
    assert set(SMOKE) <= set(FIGURES)
    largest = select_cases("fig19", smoke=True, largest=True)[-2:]
    assert [resolve_topology(case.topology).ranks for case in largest] == [40_000, 42_875]
    for wrong in ("fig1", "fig15,", "fig15,fig15"):
        refused = CliRunner().invoke(app, ["tacos", "--smoke", "--only", wrong])
        assert refused.exit_code == 2, refused.output
    with pytest.raises(InputError, match="did you mean 'fig15'"):
        select_cases("fig155", smoke=True, largest=False)


def test_every_figure_is_drawn(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    done = CliRunner().invoke(app, ["tacos", "--smoke", "-o", str(report)])
    assert done.exit_code == 0, done.output
    kept = json.loads(report.read_text())
    assert kept["complete"] is True
    assert set(kept["summary"]["share_of_ideal"]) == set(SMOKE)
    for row in kept["results"]:
        assert row["us"] > 0
        assert row["case"]["bins"] == len(row["utilisation"])
    pictures.draw([report], tmp_path / "all.svg")
    for figure in SMOKE:
        pictures.draw([report], tmp_path / "p.svg", [figure])
        drawn = (tmp_path / "p.svg").read_text()
        assert "<svg" in drawn
        assert len(drawn) < len((tmp_path / "all.svg").read_text())
