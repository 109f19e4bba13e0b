"""``sccl train`` on the command line: output and errors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.core.files.json_text import to_text
from sccl.training.files.workloads import load_workload, workload_to_wire
from tests.kit.traces import GEMM, PREFETCHING, execution_trace, profile
from tests.kit.workloads import prefetching


def run(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["train", *map(str, words)])
    return done.exit_code, done.output


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Return a folder with traces of two ranks, one packed, and both kinds of one."""
    (tmp_path / "rank0.json").write_bytes(profile(0, PREFETCHING))
    (tmp_path / "rank1.json.gz").write_bytes(gzip.compress(profile(1, PREFETCHING)))
    (tmp_path / "et0.json").write_bytes(execution_trace(0, PREFETCHING))
    return tmp_path


def test_import_reports_understood_and_assumed_values(traces: Path) -> None:
    code, said = run("import", traces, "-o", traces / "out" / ".." / "w.json")
    assert code == 2  # there is no folder out
    code, said = run("import", traces, "-o", traces / "w.json")
    assert code == 0, said
    lines = said.splitlines()
    assert lines[0] == (
        "rank 0, step 3 (kineto and pytorch-et): 2 collectives, 15 us of computation in 3 pieces, "
        "in 89 us, 74 of which the device is idle: these are left out"
    )
    assert lines[1].startswith("rank 1, step 3 (kineto): 2 collectives")
    assert any(
        line.startswith("assumed: the trace does not match waits to calls") for line in lines
    )
    assert lines[-1].endswith("2 ranks, 4 dependencies, 1 of them across iterations")
    assert load_workload(traces / "w.json").name == traces.name
    before = (traces / "w.json").read_bytes()
    (traces / "w.json").unlink()
    assert run("import", traces, "-o", traces / "w.json")[0] == 0
    assert (traces / "w.json").read_bytes() == before


def test_without_a_file_the_workload_is_shown(traces: Path) -> None:
    alone = ("import", traces / "et0.json", "--name", "mine", "--ranks", "2")
    code, said = run(*alone)
    assert (code, len(said.splitlines())) == (2, 1)
    assert "1 of 2 ranks have no trace (1): give their traces, too, or --alike" in said
    code, said = run(*alone, "--alike")
    assert code == 0, said
    assert "mine: 2 ranks (pytorch-et of 1 rank)" in said
    assert "assumed: execution traces have no times of computation" in said


def test_workload_is_shown_in_numbers(tmp_path: Path) -> None:
    file = tmp_path / "w.json"
    file.write_text(to_text(workload_to_wire(prefetching())))
    code, said = run("show", file)
    assert code == 0
    for line in (
        "prefetching: 2 ranks, 12.5 us per iteration (made by hand)",
        "role all: 2 ranks, 2 submits, 2 waits, 1 of them for the iteration before",
        "3 dependencies, 1 across iterations",
        "  forward waits for batch of 1 iteration before",
    ):
        assert line in said.splitlines()
    told = json.loads(run("show", file, "--json")[1])["workload"]
    assert told["computation"] == [{"role": "all", "stream": "7", "operations": 3, "us": 9.5}]
    again = CliRunner().invoke(app, ["show", str(file)])
    assert (again.exit_code, again.output) == (0, said)
    as_json = CliRunner().invoke(app, ["show", str(file), "--json"]).output
    assert json.loads(as_json)["workload"] == told
    (first, second) = told["collectives"]
    assert (first["collective"], first["bytes"], first["uneven"]) == ("allreduce", 4096, 0)
    assert (second["collective"], second["bytes"], second["uneven"]) == ("alltoall", 240, 1)


def test_unreadable_trace_gives_one_sentence_and_no_file(traces: Path) -> None:
    output = traces / "w.json"
    bad = {
        "cut.json": profile(0, PREFETCHING)[:-9],
        "other.json": profile(1, (GEMM, ("call", 1, "allreduce", 3))),
    }
    for name, content in bad.items():
        (traces / name).write_bytes(content)
        first = [traces / "rank0.json"] if name == "other.json" else []
        code, said = run("import", *first, traces / name, "-o", output)
        assert (code, len(said.splitlines())) == (2, 1), said
        assert name in said
        assert not output.exists()
    code, said = run("import", traces / "rank0.json", "--step", "8", "-o", output)
    assert (code, output.exists()) == (2, False)
    assert "step 8 is not in it: give --step one of 3" in said
    code, said = run("show", traces / "rank0.json")
    assert code == 2
    assert "expected a workload file" in said


def test_workload_is_made_of_a_model_and_its_parameters_are_reported(tmp_path: Path) -> None:
    output = tmp_path / "w.json"
    asked: list[str | Path] = [
        "make",
        "dlrm",
        "--preset",
        "A2",
        "--ranks",
        "4",
        "--top",
        "512x2/1",
        "-o",
        output,
    ]
    code, said = run(*asked)
    assert code == 0, said
    assert "SYNDICATE's model A2" in said
    assert "Assumed: 0.7 of the peak" in said
    assert "Changed: top, ranks" in said
    told = json.loads(run(*asked, "--json")[1])
    assert (told["family"], told["preset"], told["file"]) == ("dlrm", "A2", str(output))
    assert told["parameters"]["top"] == [512, 512, 1]
    assert told["parameters"]["interaction-mflops"] == 5.731
    assert told["workload"]["ops"] == json.loads(output.read_text())["ops"]
    shown = run(
        "make", "transformer", *["--layers", "2", "--hidden", "8", "--heads", "2", "--dp", "2"]
    )[1]
    assert "role all: 2 ranks, 1 submits, 1 waits" in shown
    variant = ["--kv-heads", "8", "--mlp-width", "6912", "--gated-mlp", "--tied-embeddings"]
    parameters = json.loads(run("make", "transformer", "--preset", "A5", *variant, "--json")[1])[
        "parameters"
    ]
    assert (parameters["kv-heads"], parameters["mlp-width"]) == (8, 6912)
    assert parameters["gated-mlp"] is parameters["tied-embeddings"] is True


def test_parameters_that_contradict_one_another_are_a_sentence(tmp_path: Path) -> None:
    output = tmp_path / "w.json"
    for asked, why in (
        ("transformer", "layers is missing"),
        ("transformer --preset A2", "preset A2 belongs to family dlrm"),
        ("dlrm --preset A1 --top 5,3", "top is '5,3', expected up to 10000 numbers"),
    ):
        code, said = run("make", *asked.split(), "-o", output)
        assert (code, len(said.splitlines())) == (2, 1), said
        assert why in said
        assert not output.exists()
