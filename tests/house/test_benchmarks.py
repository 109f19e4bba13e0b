"""The benchmarks still run: the smallest rows, once, without a look at the clock."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from benchmarks import enforce, pictures, routed
from benchmarks import syndicate_jobs as training_jobs
from benchmarks.__main__ import app
from benchmarks.enforce_report import summary
from sccl.core.files.claims import CLAIMS
from sccl.errors import FormatError, ParameterError
from sccl.prove.check.certificate import Verdict, check_folder
from tests.kit.paths import PROGRAMS, ROOT
from tests.kit.torch_jobs import interpreter

BY_NIGHT = (
    "collectives",
    "enforce",
    "files",
    "fuzz",
    "growth",
    "syndicate --only bank,beside,figure,moe",
    "syndicate --only models,scale",
    "taccl",
)
"""The slowest parts, which by day are replaced by similar faster ones."""


@pytest.mark.parametrize(
    "verb",
    [
        "table4",
        "table5",
        "frontier",
        "scale",
        "reach",
        "rooted",
        "trees",
        "startup",
        "codegen",
        "certificates",
        "teccl",
        "teccl-epochs",
        "teccl-scale",
        "routed",
        "lab",
        *(pytest.param(verb, marks=pytest.mark.nightly) for verb in BY_NIGHT),
    ],
)
def test_smoke(verb: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = CliRunner().invoke(app, [*verb.split(), "--smoke", "-o", str(report)])
    assert done.exit_code == 0, done.output
    assert json.loads(report.read_text())["complete"] is True


def test_published_algorithms_are_on_the_frontier_as_far_as_certificates_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [routed.RoutedCase("routed:ring:4", name) for name in ("allgather", "allreduce")]
    found = {(r.case.collective, r.algorithm): r for r in routed.run(cases, tmp_path)}
    swing = found["allgather", "swing"]
    assert (swing.verdict, swing.cost, swing.rival) == ("yes", Fraction(3, 2), None)
    bine = found["allgather", "bine"]
    assert (bine.verdict, bine.by, bine.rival) == ("no", "swing", (2, 2, 3))
    reduced = found["allreduce", "swing"]  # halving along one dimension takes a step less
    assert (reduced.verdict, reduced.by, reduced.rival) == ("no", "sccl", (4, 3, 3))
    assert reduced.of_halves
    folders = [path.parent for path in tmp_path.rglob(CLAIMS)]
    states = [verdict.state for folder in folders for verdict in check_folder(folder)]
    assert len(folders) == 2
    assert set(states) == {"ok"}
    refused = [Verdict("", "unchecked", "")] * len(states)
    monkeypatch.setattr(routed, "check_folder", lambda _: refused[: swing.claims])
    assert {r.verdict for r in routed.run(cases[:1])} == {"unknown"}


def test_every_part_of_jobs_has_something_small() -> None:
    assert training_jobs.SMOKE.keys() == training_jobs.PARTS.keys()


CALLS = {
    "barrier": "const int sized = 0; void call(char *b, int n) { MPI_Barrier(MPI_COMM_WORLD); }",
    "bcast": "const int sized = 1; "
    "void call(char *b, int n) { MPI_Bcast(b, n, MPI_CHAR, 0, MPI_COMM_WORLD); }",
}
"""Special arguments of the benchmarks that run with --smoke."""


def like_osu(folder: Path, **bodies: str) -> Path:
    """Create a folder like OSU's sources, with some faulty benchmarks."""
    place = folder / "mpi" / "collective"
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROGRAMS / "like_osu.c", place / "osu_coll.c")
    for name, body in (CALLS | bodies).items():
        (place / f"osu_{name}.c").write_text(f"#include <mpi.h>\n#include <stdlib.h>\n{body}\n")
    return folder


def osu(sources: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["osu", "--osu", str(sources), "--smoke", *words])


FAILS = "const int sized = 1; void call(char *b, int n) { exit(7); }"


@pytest.mark.nightly
def test_osu_is_run_with_and_without_generated_code_and_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    report = tmp_path / "report.json"
    stopped = osu(like_osu(tmp_path / "osu", bcast=FAILS), "-o", str(report))
    assert stopped.exit_code == 4
    assert "osu_bcast failed: " in stopped.output
    first = json.loads(report.read_text())
    assert first["complete"] is False
    assert [row["collective"] for row in first["results"]] == ["barrier"]
    done = osu(like_osu(tmp_path / "osu"), "-o", str(report))
    assert done.exit_code == 0, done.output
    assert "barrier, 2 ranks: " in stopped.output
    assert "barrier, 2 ranks: " not in done.output
    assert "bcast, 2 ranks: 2.00 times, worst 2.00" in done.output
    found = json.loads(report.read_text())
    assert found["complete"] is True
    barrier, bcast = found["results"]
    assert barrier == first["results"][0]
    for row, sizes in ((barrier, [0]), (bcast, [1 << i for i in range(21)])):
        assert [one["size_bytes"] for one in row["sizes"]] == sizes
        assert {(one["sccl_us"], one["mpi_us"]) for one in row["sizes"]} == {(1.0, 2.0)}
    nothing_left = osu(tmp_path / "nowhere", "-o", str(report))
    assert nothing_left.exit_code == 0, nothing_left.output
    assert json.loads(report.read_text())["results"] == found["results"]


def test_output_of_another_program_is_reported(tmp_path: Path) -> None:
    nowhere = osu(tmp_path)
    assert nowhere.exit_code == 2
    assert "does not hold the OSU micro-benchmarks 5.3: mpi/collective/osu_coll.c" in nowhere.output
    wrong = osu(like_osu(tmp_path, barrier="int main( {"))
    assert wrong.exit_code == 4
    assert "does not compile osu_barrier.c" in wrong.output
    for ranks in ("1", "two", "2,"):
        refused = CliRunner().invoke(app, ["osu", "--osu", str(tmp_path), "--ranks", ranks])
        assert refused.exit_code == 2
        assert "expected numbers from 2 on, such as 2,4,8" in refused.output


@pytest.mark.parametrize(
    "name",
    [
        *("growth", "scale", "table4", "bundles", "collectives-mpich", "enforce"),
        *("tacos-machines", "teccl", "teccl-fig8", "syndicate-costs", "taccl-auto"),
    ],
)
def test_kept_results_are_drawn(name: str, tmp_path: Path) -> None:
    file = ROOT / "benchmarks" / "results" / f"{name}.json"
    pictures.draw([file, file], tmp_path / "p.svg")
    assert "<svg" in (tmp_path / "p.svg").read_text()


@pytest.mark.nightly
def test_bundles_next_to_gloo(tmp_path: Path) -> None:
    file = tmp_path / "bundles.json"
    words = ["enforce", "--only", "bundles", "--smoke", "--torch", str(interpreter("newest"))]
    done = CliRunner().invoke(app, [*words, "-o", str(file)])
    assert done.exit_code == 0, done.output
    told = json.loads(file.read_text())
    assert told["complete"]
    names = ("allreduce", "allgather", "alltoall")
    assert [(r["collective"], r["size_bytes"]) for r in told["results"]] == [
        (name, size) for name in names for size in (4, 65536)
    ]
    assert all(r["us"] > 0 and r["gloo_us"] > 0 for r in told["results"])
    assert list(told["summary"]) == [f"{name} of 2: times gloo" for name in names]
    pictures.draw([file], tmp_path / "p.svg")


def test_jobs_and_calls_alone_are_drawn(tmp_path: Path) -> None:
    case = enforce.EnforceCase("dlrm", "dlrm", enforce.GLOO)
    run: dict[str, object] = {
        "part": case.part,
        "job": case.job,
        "method": case.method,
        "channels": case.channels,
    }
    run |= {"search": "", "seed": 0, "claimed_ms": None, "period_ms": 1600.0}
    planned = run | {
        "method": enforce.PLANNED,
        "search": "sgs",
        "claimed_ms": 900,
        "period_ms": 950,
    }
    call = {"part": "overhead", "method": enforce.GLOO, "size_bytes": 4, "us": 90.0}
    rows = [run, planned, call | {"processor_us": 30.0, "load": 0.1}]
    (tmp_path / "e.json").write_text(json.dumps({"benchmark": "enforce", "results": rows}))
    pictures.draw([tmp_path / "e.json"], tmp_path / "p.svg")
    drawn = (tmp_path / "p.svg").read_text()
    for title in ("Steps of 4 ranks", "Measured period compared", "Time of an allreduce"):
        assert title in drawn
    (tmp_path / "e.json").write_text(json.dumps({"benchmark": "enforce", "results": []}))
    with pytest.raises(ParameterError, match="no result is of a job, or of calls alone"):
        pictures.draw([tmp_path / "e.json"], tmp_path / "p.svg")


def test_there_are_twenty_plans_and_what_they_come_to_is_reported() -> None:
    alone = ("overhead", "overhead at 100 Mb/s", "switches")
    cases = [case for part in enforce.PARTS.values() for case in part if case.part not in alone]
    assert sum(bool(case.search) for case in cases) == 20
    ways = {enforce.GLOO: None, enforce.BOTH: None, enforce.ORDER: 1.25, enforce.PLANNED: 1.0}
    periods = {enforce.GLOO: 1.5, enforce.BOTH: 2.0, enforce.ORDER: 1.53, enforce.PLANNED: 1.1}
    results: list[enforce.Result] = [
        enforce.EnforceResult(
            "dlrm", "dlrm", way, "", "", 0, claimed, periods[way], (), 0.0, (loss,), "0.0", 0.0
        )
        for (way, claimed), loss in zip(ways.items(), ["0.5", "0.5", "0.5", "0.505"], strict=True)
    ]
    found = summary(results)
    assert found["dlrm: times gloo on fast"] == pytest.approx(1.5 / 1.1)
    assert found["dlrm: times gloo on both"] == pytest.approx(2 / 1.1)
    assert found["dlrm: as called, above gloo"] == pytest.approx(0.02)
    assert found["claims off, median"] == pytest.approx((0.1 + 0.224) / 2)
    assert found["dlrm: losses differ by"] == "1.0e-02"


def test_cost_of_a_planned_call_is_reported() -> None:
    gloo = ((4, 100.0, 30.0), (1024, 110.0, 30.0), (2**20, 900.0, 90.0))
    ours = ((4, 150.0, 70.0), (1024, 170.0, 80.0), (2**20, 910.0, 95.0))
    results = [
        enforce.OverheadResult("overhead", way, enforce.FREE, size, us, processor, 0.0)
        for way, rows in ((enforce.GLOO, gloo), (enforce.ORDER, ours))
        for size, us, processor in rows
    ]
    found = summary(results)
    assert found["overhead: a planned call, us more"] == 55
    assert found["overhead: processor, us more"] == 45
    assert found["overhead: as fast as gloo's from"] == "1 MiB"


def test_longest_step_among_switches_is_reported() -> None:
    versions = [0, 0, 1, 1, 2, 2]
    rank = {"ended_s": [0.0, 9.0, 10.0, 11.0, 12.5, 13.5], "versions": versions}
    found = enforce.switches(enforce.PARTS["switches"][0], rank)
    assert found.switches == 2
    assert found.periods_ms == (1000.0, 1000.0, 1500.0, 1000.0)  # the plan comes before all others
    assert found.versions == (1, 1, 2, 2)
    assert summary([found])["the longest step, periods"] == 1.5


def test_part_that_is_none_is_reported() -> None:
    for verb in ("taccl", "teccl", "teccl-epochs", "teccl-scale"):
        refused = CliRunner().invoke(app, [verb, "--only", "fig99"])
        assert refused.exit_code == 2
        assert "unknown part 'fig99'" in refused.output


def test_undrawable_benchmark_is_reported(tmp_path: Path) -> None:
    kept = ROOT / "benchmarks" / "results" / "startup.json"
    with pytest.raises(
        ParameterError, match="only of growth, scale, table4, table5, bundles, collectives"
    ):
        pictures.draw([kept], tmp_path / "p.svg")
    tables = ROOT / "benchmarks" / "results" / "teccl-epochs.json"
    with pytest.raises(ParameterError, match="no result is of fig10, fig11, astar"):
        pictures.draw([tables], tmp_path / "p.svg")
    searches = ROOT / "benchmarks" / "results" / "syndicate.json"
    with pytest.raises(ParameterError, match="no result is of a figure from 2 to 18"):
        pictures.draw([searches], tmp_path / "p.svg")
    scale = ROOT / "benchmarks" / "results" / "taccl-scale.json"
    with pytest.raises(ParameterError, match="no result is of the parts auto and fig9"):
        pictures.draw([scale], tmp_path / "p.svg")
    no_time = """{"benchmark": "taccl", "results": [{"finish_us": 0, "nccl_us": null,
        "case": {"part": "fig9", "change": "uc-min", "size_bytes": 1}}]}"""
    for text in ("{", "[]", '{"benchmark": "scale", "results": [{}]}', no_time):
        (tmp_path / "f.json").write_text(text)
        with pytest.raises(FormatError, match="expected what 'python -m benchmarks"):
            pictures.draw([tmp_path / "f.json"], tmp_path / "p.svg")
    assert not (tmp_path / "p.svg").exists()
