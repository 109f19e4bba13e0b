"""Small files that speak of huge things are refused before anything of that size is built."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.core.collective import MAX_CHUNKS
from sccl.topo import resolve_topology
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S

RING = [{"src": r, "dst": (r + 1) % 4} for r in range(4)]
ALL, SCATTERED = {"relation": "all"}, {"relation": "scattered"}
FEW_PAIRS = {"relation": "pairs", "period": MAX_CHUNKS, "pairs": [[0, 1]]}


def machine(ranks: int = 4) -> dict[str, Any]:
    return {"name": "m", "ranks": ranks, "alpha_us": 1, "gb_per_s": 1, "links": RING}


def algorithm(
    chunks: int, pre: dict[str, Any], post: dict[str, Any], ranks: int = 4
) -> dict[str, Any]:
    collective = {"name": "x", "ranks": ranks, "chunks": 1, "num_chunks": chunks}
    return {
        "collective": {**collective, "pre": pre, "post": post},
        "topology": machine(ranks),
        "rounds_per_step": [1],
        "sends": [[0, 0, 0, 1, 0]],
    }


ALGORITHMS = {
    "16 million chunks": algorithm(MAX_CHUNKS, SCATTERED, ALL),
    "16 million chunks that are where they are wanted": algorithm(MAX_CHUNKS, ALL, ALL),
    "a period of 2^24": algorithm(MAX_CHUNKS, ALL, FEW_PAIRS),
    "both of 2^24": algorithm(MAX_CHUNKS, FEW_PAIRS, FEW_PAIRS),
    "60,000 ranks": algorithm(60_000, SCATTERED, ALL, 60_000),
    "all of 60,000 ranks": algorithm(60_000, ALL, ALL, 60_000),
    "a thousand ranks": algorithm(1000, ALL, ALL, 1000),
}


def commands(folder: Path) -> list[list[str]]:
    found = []
    for name, value in ALGORITHMS.items():
        file = str(folder / f"{name}.json")
        Path(file).write_text(json.dumps(value))
        found += [["check", file], ["show", file], ["explore", file, "-o", f"{folder}/o.html"],
                  ["project", "new", file, "-o", f"{folder}/project"],
                  ["plot", file, "--what", "arrival", "-o", f"{folder}/o.svg"]]  # fmt: skip
    huge = folder / "m.json"
    huge.write_text(json.dumps(machine(60_000)))
    wanted = folder / "c.json"
    pairs = {"pre": [[MAX_CHUNKS - 1, 0]], "post": [[MAX_CHUNKS - 1, 1]]}
    wanted.write_text(json.dumps({"name": "c", "ranks": 4, **pairs}))
    question = ["--chunks", "1", "--steps", "3", "--rounds", "3"]
    formula = ["--smt2", "-"]
    for topo, collective in ((huge, "allgather"), ("full:60000", "alltoall"), ("ring:4", wanted)):
        asked = ["--topo", str(topo), "--collective", str(collective)]
        found += [["bound", *asked], ["pareto", *asked, "--no-store"]]
        found += [
            ["solve", *asked, *question, "--no-store"],
            ["solve", *asked, *question, *formula],
        ]
    ring = ["--collective", "allgather", "--topo", "ring:4", "--chunks", "1", "--steps"]
    found += [["solve", *ring, "1000000", "--rounds", "1000000", *formula]]
    found += [["solve", *ring, "3", "--rounds", str(10**21), *more] for more in ([], formula)]
    return [*found, ["topo", "show", str(huge)]]


def test_small_files_of_huge_things_are_rejected_in_little_memory(tmp_path: Path) -> None:
    asked = commands(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.bounded", json.dumps(asked)],
        capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S,
        cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for arguments, (code, err) in zip(asked, json.loads(done.stdout), strict=True):
        assert code == 2, (arguments, err)
        assert err.startswith("error: "), (arguments, err)
        assert len(err.splitlines()) == 1, (arguments, err)


def test_memory_that_is_used_up_is_a_sentence_with_what_was_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sccl.view.text.problem_bounds.lower_bounds", exhausted)
    result = CliRunner().invoke(app, ["bound", "--collective", "allgather", "--topo", "ring:4"])
    assert result.exit_code == 4
    assert result.stderr == (
        "failed: out of memory at 4 ranks, 8 links: reduce the problem, or give it more memory\n"
    )


def test_steps_in_which_nothing_is_sent_are_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(algorithm(4, SCATTERED, ALL) | {"rounds_per_step": [1] * 3000}))
    result = CliRunner().invoke(app, ["show", str(file)])
    assert result.exit_code == 0
    assert result.stdout.count(": nothing is sent") == 2999


def test_large_machines_are_printed_as_pairs(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps(machine(1000)))
    result = CliRunner().invoke(app, ["topo", "show", str(file)])
    assert result.exit_code == 0
    assert "From   To" in result.stdout
    assert resolve_topology("full:64").ranks == 64
