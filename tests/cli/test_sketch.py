"""``sccl synth sketch``: checks, output, explanations, drawings, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sccl.cli import options
from sccl.synth.sketches.sketch_files import load_sketch
from tests.kit.commands import sccl

ONE: dict[str, Any] = {
    "nnodes": 2,
    "intranode_sketch": {"strategy": "none"},
    "internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]}},
    "symmetry_offsets": [[8, 16]],
}
PROFILE = {
    "name": "NDv2_1MB",
    "gpus_per_node": 8,
    "nics_per_node": 1,
    "alpha": 0.5,
    "node_betas_list": [20, 40],
    "remote_alpha": 2.5,
    "remote_beta": 100,
}
ON = ("--topo", "ndv2x2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(ONE))
    return path


def changed(file: Path, **change: object) -> Path:
    other = file.with_name("other.json")
    other.write_text(json.dumps(ONE | change))
    return other


def test_fitting_sketch_is_reported_in_numbers(file: Path) -> None:
    code, out, _ = sccl("synth", "sketch", file)
    assert (code, "a sketch for 2 nodes; --topo MACHINE checks" in out) == (0, True)
    code, out, _ = sccl("synth", "sketch", file, *ON, "--collective", "allreduce")
    assert code == 0
    assert (
        "it fits ndv2x2: it permits 66 of 66 routes, 2 symmetries; for allreduce, 8 of 16 ch" in out
    )
    found = json.loads(sccl("synth", "sketch", file, *ON, "--json")[1])
    assert (found["within"], found["between"], found["symmetries"]) == ([64, 64], [2, 2], 2)
    assert found["collective"] is None


def test_profile_is_a_machine_of_as_many_nodes(file: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(PROFILE))
    code, out, _ = sccl("synth", "sketch", file, "--taccl-topology", profile)
    assert (code, "it fits NDv2_1MBx2: it permits 66 of 192 routes" in out) == (0, True)
    profile.write_text(json.dumps(PROFILE | {"remote_beta": -1}))
    code, _, err = sccl("synth", "sketch", file, "--taccl-topology", profile)
    assert code == 2
    assert f"{profile}: remote_beta is -1, expected a cost of more than 0" in err
    code, _, err = sccl("synth", "sketch", file, "--taccl-topology", profile, *ON)
    assert (code, "--topo and --taccl-topology both give a machine" in err) == (2, True)


@pytest.mark.parametrize("verb", ["taccl", "teccl", "tacos"])
def test_all_that_keep_to_a_sketch_plan_on_a_profile(verb: str, file: Path, tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps(PROFILE))
    asked = (verb, "--collective", "allgather", "--sketch", file, "--size", "16KB", "--json")
    effort = () if verb == "tacos" else ("--effort", 0.05)
    code, out, _ = sccl(*asked, *effort, "--taccl-topology", profile)
    found = json.loads(out)
    assert (code, found["topology"], found["sketch"]) == (0, "NDv2_1MBx2", "one")
    if verb == "tacos":
        assert f"--taccl-topology {profile} " in found["again"]
    code, _, err = sccl(*asked)
    assert (code, "give a profile with --taccl-topology" in err) == (2, True)
    code, _, err = sccl(*asked, "--taccl-topology", profile, *ON)
    assert (code, "both give a machine" in err) == (2, True)


def test_json_output_is_the_same_sketch(file: Path, tmp_path: Path) -> None:
    code, out, _ = sccl("synth", "sketch", file, "--output", "-")
    assert code == 0
    again = tmp_path / "again.json"
    again.write_text(out)
    assert load_sketch(again) == load_sketch(file)
    assert sccl("synth", "sketch", again, "-o", again)[0] == 0
    assert again.read_text() == out
    table = sccl("synth", "sketch", file, *ON)[1]
    for words in ("0 to 1", "[8, 16]", "64 of 64", "2 of 2", "nodes of 8 ranks"):
        assert words in table


DGX2 = {
    "nnodes": 2,
    "intranode_sketch": {
        "strategy": "switch",
        "switches": [list(range(16))],
        "switch_hyperedge_strategy": ["uc-min"],
    },
    "internode_sketch": {
        "strategy": "relay",
        "internode_conn": {str(n): [n - 1] for n in range(1, 16, 2)},
        "chunk_to_relay_map": [2, 1],
        "beta_split": {str(n): 2 for n in range(1, 16, 2)},
        "enforce_ordering": True,
    },
    "symmetry_offsets": [[2, 16], [16, 32]],
    "hyperparameters": {"input_chunkup": 2, "input_size": "1M"},
}


def test_sentences_say_all_that_a_sketch_does(file: Path) -> None:
    other = changed(file, **DGX2)
    code, out, _ = sccl("synth", "sketch", other, "--topo", "dgx2:2", "--collective", "allgather")
    assert code == 0
    for words in (
        "2 nodes of 16 ranks each",
        "Within nodes 480 of 480 routes",
        "Between nodes 16 of 16 routes",
        "8 of the 16 ranks of a node send to other nodes: 1 to 0, 3 to 2,",
        "r // 2 * 2 + 1",
        "Sender 1 gets 1/2 of the bandwidth between nodes",
        "A sender sends its own chunks before forwarded ones",
        "Ranks 0 to 15 of each node are joined by a switch, up to 240 connections (uc-min)",
        "the fewest connections",
        "allgather moves 64 chunks; with 16 symmetries, sccl plans 4",
        "cut into 2 chunks",
        "1 MB",
    ):
        assert words in out
    told = (
        "synth",
        "sketch",
        other,
        "--topo",
        "dgx2:2",
        "--collective",
        "allgather",
        "--json",
    )
    sentences = json.loads(sccl(*told)[1])["sentences"]
    assert sentences == out.splitlines()[-len(sentences) :]


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_drawing_is_the_same_each_time(file: Path, tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{name}.{suffix}" for name in ("a", "b")]
    for path in paths:
        code, out, _ = sccl("synth", "sketch", file, *ON, "--plot", path)
        assert (code, str(path) in out) == (0, True)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nnodes": 4, "symmetry_offsets": []}, "nnodes is 4, and the machine has 2"),
        ({"hyperparameters": {"input_size": "abc"}}, "input_size is 'abc', expected bytes"),
        (
            {"internode_sketch": {"strategy": "relay", "internode_conn": "fully-connected"}},
            "internode_sketch.internode_conn is 'fully-connected': no link",
        ),
    ],
)
def test_unfit_sketch_gives_one_sentence_and_no_drawing(
    file: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    other, picture = changed(file, **change), tmp_path / "p.svg"
    for words in ((other,), (other, "--plot", picture)):
        code, out, err = sccl("synth", "sketch", *words, *ON)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1
    assert not picture.exists()


@pytest.mark.parametrize(
    ("change", "collective", "message"),
    [
        ({}, "broadcast", "broadcast is not the same again where ranks stand for one another"),
        (
            {"hyperparameters": {"input_chunkup": 3, "input_size": "1M"}},
            "allgather",
            "input_chunkup 3 would cut into 3 chunks of no whole bytes: give 999999 or 1000002",
        ),
        (
            {"intranode_sketch": {"strategy": "none", "intranode_conn": {"0": [1], "1": [0]}}},
            "allgather",
            "chunk 0 of rank 0 cannot reach rank 2",
        ),
    ],
)
def test_collective_that_it_does_not_suit_is_reported(
    file: Path, change: dict[str, object], collective: str, message: str
) -> None:
    other = changed(file, **change)
    code, _, err = sccl("synth", "sketch", other, *ON, "--collective", collective)
    assert (code, message in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--plot", "p.svg"), "no machine: give --topo NAME"),
        (("--collective", "allgather"), "--collective is asked of a machine"),
        ((*ON, "--root", "1"), "--root is that of a collective"),
        ((*ON, "--collective", "allgatherr"), "allgatherr"),
        ((*ON, "--plot", "p.gif"), "cannot draw p.gif"),
        ((*ON, "--plot", "p.svg", "-o", "p.svg"), "give them a file each"),
        ((*ON, "--plot", "p.svg", "-o", "nowhere/sk.json"), "there is no folder nowhere"),
    ],
)
def test_sketch_and_machine_arguments_are_distinguished(
    file: Path, words: tuple[str, ...], message: str
) -> None:
    code, _, err = sccl("synth", "sketch", file, *words)
    assert (code, message in err) == (2, True)


def test_files_are_offered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert [name for name, _ in options.complete_file("on")] == ["one.json"]


def test_schedule_and_a_sketch_need_a_file_each(tmp_path: Path) -> None:
    both = str(tmp_path / "both.json")
    asked = ("--collective", "allgather", "--topo", "ring:3", "--size", "3KB")
    code, _, said = sccl("synth", "taccl", *asked, "-o", both, "--keep-sketch", both)
    assert code == 2
    assert "a schedule and a sketch need a file each" in said
    assert not list(tmp_path.iterdir())
