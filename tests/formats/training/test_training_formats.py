"""Training plans in foreign formats: their content, and reading them back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sccl import formats
from sccl.formats.common.contract import VerifiedTrainingPlan
from sccl.training.files.chakra_records import read_records
from sccl.training.scheduling.workload_problem import workload_waits
from sccl.training.timeline import simulate_timeline
from sccl.training.types.workload_ops import (
    CommOp,
    ComputeOp,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)
from tests.kit.commands import sccl
from tests.kit.traces import workload_of
from tests.kit.training_plans import RING, layered_plan, plan_file, planned, prefetching_plan


def events(tmp_path: Path) -> list[dict[str, Any]]:
    file = plan_file(prefetching_plan(), tmp_path / "plan.json")
    code, out, err = sccl("export", file, "--format", "chrome-trace", "-o", tmp_path / "t.json")
    assert (code, err) == (0, "")
    assert "1 plan written" in out
    found: list[dict[str, Any]] = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    return found


def test_trace_has_streams_and_channels_as_threads(tmp_path: Path) -> None:
    told = events(tmp_path)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in told if e["name"] == "thread_name"}
    assert sorted(names.items()) == [((1, 1), "all: 7"), ((2, 2), "gpu"), ((2, 3), "cpu")]
    bars = [e for e in told if e["ph"] == "X"]
    timeline = simulate_timeline(prefetching_plan())
    until = timeline.first_periodic + 2
    assert len(bars) == 6 * until
    second = next(b for b in bars if b["name"] == "gradients" and b["args"]["motif"] == 1)
    assert (second["ts"], second["dur"], names[second["pid"], second["tid"]]) == (11, 2.5, "gpu")
    assert second["args"] == {
        "op": "gradients", "iteration": 0, "collective": "allreduce", "bytes": 4096, "ranks": 2,
        "recipe": "ring", "motif": 1, "motifs": 2, "carrier": "ring", "channel": "gpu",
    }  # fmt: skip
    marks = [(e["name"], e["ts"]) for e in told if e["ph"] == "i"]
    assert marks[:3] == [("iteration 0", 0), ("iteration 1", 14.5), ("iteration 2", 29)]


def test_arrows_lead_from_what_is_waited_for_to_what_waits(tmp_path: Path) -> None:
    told = events(tmp_path)
    bars = [e for e in told if e["ph"] == "X"]

    def at(event: dict[str, Any]) -> tuple[str, int]:
        (bar,) = [
            b
            for b in bars
            if (b["pid"], b["tid"]) == (event["pid"], event["tid"])
            and b["ts"] <= event["ts"] < b["ts"] + b["dur"]
        ]
        return bar["name"], bar["args"].get("motif", 0)

    begin = {e["id"]: at(e) for e in told if e["ph"] == "s"}
    end = {e["id"]: at(e) for e in told if e["ph"] == "f"}
    assert begin.keys() == end.keys()
    assert {(begin[k], end[k]) for k in begin} == {
        (("backward", 0), ("gradients", 0)),
        (("gradients", 0), ("gradients", 1)),
        (("gradients", 1), ("optimizer", 0)),
        (("batch", 0), ("forward", 0)),
        (("batch", 0), ("batch", 0)),  # the host waits for that of the iteration before
    }


def test_motifs_at_once_have_threads_of_their_own() -> None:
    half = replace(RING.motifs[0], loads=(("gpu: links", 500),))
    option = replace(RING, motifs=(half, half))
    plan = planned(prefetching_plan().workload, {"gradients": option, "batch": option}, {})
    stepped = VerifiedTrainingPlan(
        "p", plan, simulate_timeline(plan), workload_waits(plan.workload)
    )
    text = formats.step_writer("chrome-trace")(stepped).files["trace.json"]
    told = json.loads(text)["traceEvents"]
    names = [e["args"]["name"] for e in told if e["name"] == "thread_name"]
    assert sorted(names) == ["all: 7", "gpu", "gpu (2)"]
    ends: dict[int, float] = {}
    for bar in (e for e in told if e["ph"] == "X" and e["dur"]):
        assert bar["ts"] >= ends.get(bar["tid"], 0)
        ends[bar["tid"]] = bar["ts"] + bar["dur"]


def test_chakra_traces_are_read_again(tmp_path: Path) -> None:
    plan = layered_plan(3)
    file = plan_file(plan, tmp_path / "plan.json")
    code, out, err = sccl("export", file, "--format", "chakra", "-o", tmp_path / "traces")
    assert (code, err) == (0, "")
    assert "note: one iteration, in whole microseconds" in " ".join(out.split())
    assert sorted(p.name for p in (tmp_path / "traces").iterdir()) == [
        f"plan.{rank}.et" for rank in range(8)
    ]
    again = tmp_path / "again.json"
    code, _, err = sccl("train", "import", tmp_path / "traces", "-o", again)
    assert (code, err) == (0, "")
    told = json.loads(again.read_text())
    calls = [op for op in told["ops"] if "collective" in op]
    assert [(c["collective"], c["count"]) for c in calls] == [
        (op.collective, op.size_bytes) for op in plan.workload.collectives()
    ]
    us = [op["duration_us"] for op in told["ops"] if "collective" not in op]
    assert sum(us) == sum(op.duration_us for op in plan.workload.computation())
    assert told["ranks"] == 8


def test_nodes_need_what_the_workload_says() -> None:
    plan = prefetching_plan()
    stepped = VerifiedTrainingPlan(
        "p", plan, simulate_timeline(plan), workload_waits(plan.workload)
    )
    written = formats.step_writer("chakra")(stepped)
    _, *nodes = read_records(written.files["p.0.et"], "p")
    needs = {node.name.decode(): ([*node.data_deps], [*node.ctrl_deps]) for node in nodes}
    assert list(needs) == ["batch", "forward", "backward", "gradients", "optimizer"]
    assert needs["backward"] == ([], [1])
    assert needs["optimizer"] == ([3], [2])
    assert needs["gradients"][0][-1] == 2
    assert any("earlier iterations are left out" in note for note in written.notes)
    assert any("uneven alltoalls" in note for note in written.notes)


def test_groups_of_some_ranks_are_reported() -> None:
    ranks = tuple(range(4))
    base = prefetching_plan().workload
    workload = replace(
        base,
        ranks=4,
        roles=(Role("all", ranks),),
        ops=(
            ComputeOp("c", "all", "7", 3.0),
            CommOp("g", "allreduce", (0, 1), 8, "float32", reduce="sum", beside=((2, 3),)),
            CommOp("b", "broadcast", ranks, 8, "float32", root=2),
        ),
        deps=(),
        submits=(HostProgram("all", tuple(HostEvent(HostAction.SUBMIT, name) for name in "gb")),),
    )
    plan = planned(workload, {"g": RING, "b": RING}, {})
    stepped = VerifiedTrainingPlan(
        "p", plan, simulate_timeline(plan), workload_waits(plan.workload)
    )
    files = formats.step_writer("chakra")(stepped).files
    assert json.loads(files["comm_groups.json"]) == {"1": [0, 1], "2": [2, 3]}
    assert files["p.0.et"] == files["p.1.et"] != files["p.2.et"]
    assert b"\x0a\x07pg_name" in files["p.0.et"]
    again = workload_of(*(files[f"p.{rank}.et"] for rank in ranks)).workload
    groups = {op.collective: set(op.groups) for op in again.collectives()}
    assert groups["broadcast"] == {ranks}
    every = {group for op in again.collectives() for group in op.groups}
    assert every == {ranks, (0, 1), (2, 3)}


def test_collective_takes_as_long_as_its_motifs_do() -> None:
    """Motifs of a full channel run one after the other, in spite of other dependencies."""
    option = replace(RING, motifs=RING.motifs * 3)
    plan = planned(prefetching_plan().workload, {"gradients": option, "batch": RING}, {})
    stepped = VerifiedTrainingPlan(
        "p", plan, simulate_timeline(plan), workload_waits(plan.workload)
    )
    _, *nodes = read_records(formats.step_writer("chakra")(stepped).files["p.0.et"], "p")
    micros = {node.name: node.duration_micros for node in nodes}
    assert (micros[b"gradients"], micros[b"batch"]) == (12, 4)


def test_broadcast_of_two_ranks_is_a_send() -> None:
    base = prefetching_plan().workload
    roles = ("first", (0, 1)), ("second", (2, 3))
    programs = ((HostAction.SUBMIT, "s"), (HostAction.WAIT, "s")), ((HostAction.SUBMIT, "s"),)
    workload = replace(
        base,
        ranks=4,
        roles=tuple(Role(*role) for role in roles),
        ops=(
            ComputeOp("c", "first", "7", 3.0),
            CommOp("s", "broadcast", (0, 2), 8, "float32", root=2, beside=((1, 3),)),
        ),
        deps=(),
        submits=tuple(
            HostProgram(name, tuple(HostEvent(*event) for event in events))
            for (name, _), events in zip(roles, programs, strict=True)
        ),
    )
    plan = planned(workload, {"s": RING}, {})
    stepped = VerifiedTrainingPlan(
        "p", plan, simulate_timeline(plan), workload_waits(plan.workload)
    )
    written = formats.step_writer("chakra")(stepped)
    assert "comm_groups.json" not in written.files
    kinds = [[*read_records(written.files[f"p.{rank}.et"], "p")][-1].type for rank in range(4)]
    assert sorted(kinds[:2]) in ([4, 6], [6, 6])
    assert kinds[2:] == [5, 5]
    again = workload_of(*(written.files[f"p.{rank}.et"] for rank in range(4))).workload
    assert {(op.group, op.root, op.size_bytes) for op in again.collectives()} == {
        ((2, 0), 2, 32),
        ((3, 1), 3, 32),
    }
    assert "ASTRA-sim runs it by --workload-configuration=p" in written.notes


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--format", "msccl-xml"),
            "it is a training plan, which msccl-xml does not support: export it",
        ),
        (("--format", "chakra", "--size", "1MB"), "defines its own sizes"),
        (("--format", "chakra", "--set", "awaiting=step"), "leave options (--set) out"),
    ],
)
def test_unexportable_training_plan_gives_one_sentence(
    words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    file = plan_file(prefetching_plan(), tmp_path / "plan.json")
    code, out, err = sccl("export", file, *words, "-o", tmp_path / "out")
    assert (code, out, (tmp_path / "out").exists()) == (2, "", False)
    assert says in " ".join(err.split())


def test_training_plans_are_exported_alone_and_only_right_ones(tmp_path: Path) -> None:
    file = plan_file(prefetching_plan(), tmp_path / "plan.json")
    words = ("--format", "chakra", "-o", tmp_path / "out")
    code, _, err = sccl("export", file, file, *words)
    assert (code, "export each one separately" in " ".join(err.split())) == (2, True)
    plan_file(replace(prefetching_plan(), period_ns=1), file)
    code, _, err = sccl("export", file, *words)
    assert (code, "this plan fails verification" in " ".join(err.split())) == (2, True)
    assert not (tmp_path / "out").exists()
