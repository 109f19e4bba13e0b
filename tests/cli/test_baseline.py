"""``sccl synth``: the list, the results, and the errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sccl.synth import baselines
from tests.kit.commands import sccl

ALLREDUCE = ("--collective", "allreduce", "--topo", "torus:4x4")


def test_list_says_what_each_is_and_where_it_is_from() -> None:
    code, out, _ = sccl("synth", "list")
    assert code == 0
    assert all(name in out for name in baselines.names())
    found = json.loads(sccl("synth", "list", "--json")[1])
    assert [one["name"] for one in found["algorithms"]] == list(baselines.names())
    assert all(one["about"] and one["source"] for one in found["algorithms"])
    assert found["result"] is None


def test_algorithm_is_made_and_its_file_is_what_the_judge_accepts(tmp_path: Path) -> None:
    file = tmp_path / "ring.json"
    code, out, _ = sccl("synth", "ring", *ALLREDUCE, "-o", file)
    assert code == 0
    assert "ring: allreduce on torus:4x4, C=16 S=30 R=30, R/C = 15/8, 480 sends, verified" in out
    assert sccl("check", file)[0] == 0
    found = json.loads(sccl("synth", "ring", *ALLREDUCE, "--pieces", "2", "--json")[1])
    assert found["result"]["chunks"] == 32
    assert found["result"]["file"] is None


def test_multihop_pattern_becomes_a_schedule_for_a_size(tmp_path: Path) -> None:
    file = tmp_path / "direct.json"
    words = ("synth", "direct", *ALLREDUCE, "--size", "1MB", "--alpha", "occupies")
    code, out, _ = sccl(*words, "-o", file)
    assert code == 0
    assert "direct: allreduce on torus:4x4, C=16 S=2 over shortest paths of links, 480" in out
    assert "lower bound" in out
    found = json.loads(sccl(*words, "--json")[1])["result"]
    assert (found["rounds"], found["bandwidth_cost"], found["alpha"]) == (None, None, "occupies")
    assert found["transfers"] > found["sends"] == 480
    checked = json.loads(sccl("check", file, "--json")[1])["files"][0]
    assert (checked["valid"], checked["alpha"]) == (True, "occupies")
    assert checked["finish_us"] == pytest.approx(found["finish_us"])
    assert found["gap"] == pytest.approx(found["finish_us"] / found["bound_us"] - 1)
    assert found["algorithm_gb_per_s"] == pytest.approx(1000 / found["finish_us"])
    slow = json.loads(sccl(*words, "--stepping", "barrier", "--json")[1])["result"]
    assert slow["finish_us"] >= found["finish_us"] >= found["bound_us"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("rings", *ALLREDUCE), "did you mean 'ring'"),
        (("ring",), "missing option '--topo'"),
        (("ring", "--collective", "alltoall", "--topo", "ring:4"), "does not define alltoall"),
        (("ring", *ALLREDUCE, "--pieces", "0"), "pieces is 0"),
    ],
)
def test_impossible_baseline_gives_one_sentence(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    code, out, err = sccl("synth", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert sccl("synth", *words, "-o", tmp_path / "a.json")[0] == 2
    assert not list(tmp_path.iterdir())
