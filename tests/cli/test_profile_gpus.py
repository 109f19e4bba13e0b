"""``sccl topo profile --gpus``: from a compiler to a machine, by scripts in place of both."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.core.files.topologies import load_topology
from sccl.topo.profiles.measurement_files import load_measurements
from tests.kit.profiles import measured
from tests.kit.scripts import script


def run(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["topo", "profile", "--gpus", *(str(word) for word in words)])
    return done.exit_code, done.stdout, done.stderr


def scripted_nvcc(
    folder: Path, gpus: int, monkeypatch: pytest.MonkeyPatch, why: str = "", ranks: int = 4
) -> Path:
    """Let nvcc generate a script that sees some GPUs, with links of 2 us and 20 GB/s.

    Returns:
        File of the script's arguments.
    """
    costs = dict.fromkeys(permutations(range(ranks), 2), (2.0, 50.0))
    rows = [
        {"src": t.src, "dst": t.dst, "pacing": t.pacing, "chunks": t.chunks,
         "chunk_bytes": t.chunk_bytes, "us": t.us[0] + 1, "answer_us": 1 / t.latency_count}
        for t in measured(costs, ranks, "gpus").timings
    ]  # fmt: skip
    (folder / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    seen = json.dumps({"gpus": gpus, "why": why})
    made = script(
        folder / "made",
        f"[ $# = 0 ] && echo '{seen}' && exit\necho \"$@\" > '{folder}/told'\ncat '{folder}/rows'",
    )
    copies = f'for word; do [ "$last" = -o ] && cp "{made}" "$word"; last=$word; done; true'
    monkeypatch.setenv("GPUCXX", str(script(folder / "nvcc", copies)))
    return folder / "told"


def test_gpus_become_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = scripted_nvcc(tmp_path, 4, monkeypatch)
    raw, output, picture = (tmp_path / name for name in ("raw.json", "machine.json", "links.svg"))
    words = ("--sizes", "1K..4K", "--repeat", "3")
    code, said, why = run(*words, "--save", raw, "-o", output, "--plot", picture)
    assert code == 0, why
    assert "cost 1: alpha 2 us, 20 GB/s (12 links)" in said
    assert picture.exists()
    machine = load_topology(output)
    assert (machine.name, machine.ranks, len(machine.links)) == ("measured-4-gpus", 4, 12)
    assert "between 4 GPUs of one machine: chunks of 1 KiB to 4 KiB" in machine.source
    assert told.read_text().startswith("device 3 1024,2048,4096 1,2,8 0-1 0-2 0-3 1-0 1-2")
    again = tmp_path / "again.json"
    fit = ["topo", "profile", "--measurements", str(raw), "-o", str(again)]
    assert CliRunner().invoke(app, fit).exit_code == 0
    assert again.read_bytes() == output.read_bytes()
    assert load_measurements(raw).ranks == 4


def test_known_machine_says_which_gpu_each_rank_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = scripted_nvcc(tmp_path, 8, monkeypatch, ranks=8)
    assert run("--topo", "dgx1")[0] == 0
    order, _, _, _, *links = told.read_text().split()
    assert (order, links[0], len(links)) == ("ascending", "0-1", 32)


@pytest.mark.parametrize(
    ("words", "gpus", "says"),
    [
        ([], 0, "no GPU can be seen (no driver), and links are measured between two at least: run"),
        ([], 1, "1 GPU can be seen, and links"),
        (["--topo", "ring:4"], 2, "2 GPUs can be seen, and 4 are to be measured: name a machine"),
        (
            ["--ranks", "2"],
            2,
            "--ranks applies to MPI runs, and --gpus measures the GPUs of one process",
        ),
        (["--mpi", "."], 2, "--mpi applies to MPI runs, and --gpus measures"),
        (["--measurements", "x.json"], 2, "--gpus sets a measurement, and --measurements gives"),
        (["--repeat", "0"], 0, "repeat is 0, expected 1 to 1000"),
        (["--topo", "rail:2x2"], 4, "has switches as nodes"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    words: list[str], gpus: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = 4 if "can be seen, and links" in says or "no GPU" in says else 2
    told = scripted_nvcc(tmp_path, gpus, monkeypatch, "no driver")
    output = tmp_path / "machine.json"
    code, said, why = run(*words, "-o", output)
    assert (code, said, why.count("\n")) == (expected, "", 1)
    assert says in why
    assert not output.exists()
    assert not told.exists()


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("", "no nvcc and no hipcc found, which --gpus needs: install the CUDA toolkit or"),
        ("/nowhere/hipcc", "no /nowhere/hipcc found, which --gpus needs"),
    ],
)
def test_without_a_compiler_nothing_is_written(
    named: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("GPUCXX", named)
    code, said, why = run("--save", tmp_path / "raw.json")
    assert (code, said, why.count("\n")) == (4, "", 1)
    assert says in why
    assert not list(tmp_path.iterdir())
