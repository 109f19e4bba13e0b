"""Recordings of real jobs, and the workloads that are made of them."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.errors import InputError, ScclWarning
from sccl.torch_backend.jobs import run_job as enforce
from sccl.training.files.recording_shapes import (
    AnyRecord,
    CallRecord,
    MarkRecord,
    RecordingWire,
    WaitRecord,
)
from sccl.training.files.workloads import load_workload
from sccl.training.traces.readers import recording
from sccl.training.traces.readers.common.contract import Kernel, StepSelection
from sccl.training.traces.readers.recording import find_steps
from sccl.training.types.workload_ops import HostAction
from tests.kit.paths import PROGRAMS
from tests.kit.processes import PATIENCE_S
from tests.kit.torch_jobs import autoloading, environment, finished, run_job, torchrun


def sccl(*words: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done.output


def job(env: dict[str, str], *words: str | Path) -> list[str]:
    """Run a job of 2 ranks by 'sccl train run' and return its output."""
    started = [*torchrun("oldest", 2), str(PROGRAMS / "torch_steps.py"), "6"]
    done = subprocess.run(
        [sys.executable, "-m", "sccl", "enforce", *map(str, words), "--", *started],
        env=environment(env),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:4000]
    return done.stdout.splitlines()


def test_job_is_recorded_planned_and_kept_to_the_plan(tmp_path: Path) -> None:
    env = {"PYTHONPATH": autoloading(tmp_path), "SCCL_DEBUG": "1"}
    recorded, planned = tmp_path / "w.json", tmp_path / "plan.json"
    plain = sorted(job(env, "--record", recorded)[:2])
    workload = load_workload(recorded)
    ops = {op.id: op for op in workload.collectives()}
    assert list(ops) == ["alltoall-0", "broadcast-1", "allreduce-2", "allreduce-3"]
    sizes = [op.count for op in ops.values()]
    assert (sizes[:2], sum(sizes[2:])) == ([32 * 64, 3], 3 * (64 * 64 + 64))
    assert {op.dtype for op in ops.values()} == {"float32", "int64"}
    assert ops["broadcast-1"].root == 0
    (program,) = workload.submits
    told = [(event.action, event.op) for event in program.events]
    submits = [op for action, op in told if action is HostAction.SUBMIT]
    assert submits == list(ops)
    waits = [op for action, op in told if action is HostAction.WAIT]
    assert waits == ["broadcast-1", "alltoall-0", *submits[2:]]
    assert workload.iteration_us
    channels = [{"name": name, "topology": "full:2"} for name in ("fast", "slow")]
    fabric = tmp_path / "fabric.json"
    fabric.write_text(json.dumps({"name": "pair", "channels": channels}))
    sccl("train", "plan", recorded, "--fabric", fabric, "--budget", "0.1", "-o", planned)
    again = job(env, "--plan", planned)
    assert sorted(again) == plain  # sums of two are the same in any order
    env["SCCL_SCRIPT"] = ""
    assert sorted(finished(run_job("oldest", 2, "torch_steps.py", "6", env=env))) == plain


def test_interrupted_recording_has_the_steps_until_then(tmp_path: Path) -> None:
    written = tmp_path / "w.json"
    started = [*torchrun("oldest", 2), str(PROGRAMS / "torch_interrupted.py")]
    with subprocess.Popen(
        [sys.executable, "-m", "sccl", "enforce", "--record", str(written), "--", *started],
        env=environment({"PYTHONPATH": autoloading(tmp_path)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "6 steps\n"
            process.send_signal(signal.SIGINT)
            out, told = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 130, told
    assert f"written to {written}: 1 collective of 2 ranks" in out
    assert f"the recording was interrupted: {written} has the steps until then" in told
    assert [op.count for op in load_workload(written).collectives()] == [7]


def test_interrupted_recording_without_steps_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(enforce, "run_job", interrupt)
    written = tmp_path / "w.json"
    with (
        pytest.warns(ScclWarning, match="interrupted, and nothing was written: the job recorded"),
        pytest.raises(KeyboardInterrupt),
    ):
        enforce.run_under_plan(["true"], None, written)
    assert not written.exists()


def test_waits_for_futures_in_a_backward_pass_are_recorded(tmp_path: Path) -> None:
    """They are DistributedDataParallel's, which sees no work, and calls no wait of it."""
    env = {"PYTHONPATH": autoloading(tmp_path), "SCCL_RECORD": str(tmp_path)}
    finished(run_job("newest", 2, "torch_steps.py", "3", env=env))
    for rank in range(2):
        text = (tmp_path / f"rank-{rank}.json").read_bytes()
        events = msgspec.json.decode(text, type=RecordingWire).events
        calls = {event.number: event for event in events if isinstance(event, CallRecord)}
        waits = {event.call: k for k, event in enumerate(events) if isinstance(event, WaitRecord)}
        steps = [k for k, event in enumerate(events) if isinstance(event, MarkRecord)]
        in_future = [number for number, call in calls.items() if call.in_future]
        assert len(steps) == 3
        assert len(in_future) > 3
        for number in in_future:
            step = next(k for k in steps if k > waits[number])
            assert calls[number].begin < events[waits[number]].end <= events[step].begin
            assert not any(waits[number] < k < step for k, event in enumerate(events)
                           if isinstance(event, CallRecord))  # fmt: skip


def events_of(words: str) -> list[AnyRecord]:
    """Return events: a letter is a call, a number a wait for so many calls ago, O and S marks."""
    found: list[AnyRecord] = []
    calls = 0
    for at, letter in enumerate(words):
        time = {"thread": 0, "begin": at, "end": at, "cpu_begin": at, "cpu_end": at}
        if letter in "OS":
            what = "optimizer" if letter == "O" else "step"
            found.append(MarkRecord(**time, what=what))  # type: ignore[arg-type]
        elif letter.isdigit():
            found.append(WaitRecord(**time, call=calls - int(letter)))
        else:
            made = {"collective": "allreduce", "dtype": "float32", "group": (0, 1)}
            sizes = {"given": ord(letter), "got": ord(letter), "number": calls}
            found.append(CallRecord(**time, **made, **sizes))  # type: ignore[arg-type]
            calls += 1
    return found


@pytest.mark.parametrize(
    ("words", "step", "many"),
    [
        ("xya1b1a1b1a1b1a1b1z1", "a1b1", 3),
        ("xa1b2Oa1b2Oa1b2Oa1b2Oz1", "a1b2O", 2),  # the first of three that are alike is left out
        ("aObOaObOaObO", "aObO", 2),
        ("aab1Saa1Saa1Saa1Sq", "Saa1", 2),
        ("a1a1", "a1", 2),
    ],
)
def test_steps_are_what_repeats(words: str, step: str, many: int) -> None:
    events = events_of(words)
    steps = find_steps(events, "here")
    assert [words[one.start : one.stop] for one in steps] == [step] * many


@pytest.mark.parametrize("words", ["", "O", "S", "abc", "aSbS"])
def test_recording_without_repetition_is_rejected(words: str) -> None:
    with pytest.raises(InputError, match=r"here: (there are no calls|nothing in it repeats)"):
        find_steps(events_of(words), "here")


@given(st.text("ab12OS", max_size=40))
def test_steps_lie_side_by_side_and_are_alike(words: str) -> None:
    try:
        steps = find_steps(events_of(words), "here")
    except InputError:
        return
    assert len(steps) > 1
    assert all(a.stop == b.start for a, b in itertools.pairwise(steps))
    assert len({words[one.start : one.stop] for one in steps}) == 1


def test_thread_without_futures_computes_all_the_time() -> None:
    """Waits for the processor do not count, except perhaps before the end of a call."""
    events: list[AnyRecord] = []
    for step in range(3):
        at, cpu = 100.0 * step, 50.0 * step
        made = {"thread": 0, "collective": "allreduce", "dtype": "float32", "group": (0, 1)}
        for number, (begin, cpu_begin, done) in enumerate([(0, 0, 40), (21, 11, None)]):
            moment = {"begin": at + begin, "end": at + begin + 1}
            own = {"cpu_begin": cpu + cpu_begin, "cpu_end": cpu + cpu_begin + 1}
            last = {"done": None if done is None else at + done, "in_future": done is not None}
            what = {**made, **moment, **own, **last, "given": 8 + number, "got": 8 + number}
            events.append(CallRecord(**what, number=2 * step + number))  # type: ignore[arg-type]
        mark = {"begin": at + 60, "end": at + 60, "cpu_begin": cpu + 27, "cpu_end": cpu + 27}
        events.append(MarkRecord(thread=0, what="optimizer", **mark))
    wire = RecordingWire(sccl_recording=1, rank=0, world=2, torch="2.13", events=tuple(events))
    trace = recording.read(msgspec.json.encode(wire), "here", StepSelection())
    took = [event.duration_us for event in trace.events if isinstance(event, Kernel)]
    assert took == [40.0, 20.0, 20.0]  # the first since the previous step, then as above


def test_send_is_one_of_both_its_ends(tmp_path: Path) -> None:
    """Each has tensors of its own alone: one gives, and the other gets."""
    files = [tmp_path / f"rank-{rank}.json" for rank in range(2)]
    for rank, file in enumerate(files):
        events: list[AnyRecord] = []
        for step in range(3):
            time = {"thread": 0, "begin": step, "end": step, "cpu_begin": step, "cpu_end": step}
            events.append(MarkRecord(**time, what="step"))
            made = {"collective": "broadcast", "dtype": "float32", "group": (0, 1), "number": step}
            ends = {"given": 8 * (1 - rank), "got": 8 * rank, "peer": 1 - rank, "sends": not rank}
            events.append(CallRecord(**time, **made, **ends))  # type: ignore[arg-type]
        wire = RecordingWire(sccl_recording=1, rank=rank, world=2, torch="2", events=tuple(events))
        file.write_bytes(msgspec.json.encode(wire))
    sccl("train", "import", *files, "-o", tmp_path / "w.json")
    (op,) = load_workload(tmp_path / "w.json").collectives()
    assert (op.collective, op.group, op.count, op.root) == ("broadcast", (0, 1), 8, 0)


def test_job_that_records_nothing_is_told_what_to_do(tmp_path: Path) -> None:
    output = tmp_path / "w.json"
    said = sccl("train", "run", "--record", output, "--", "true", code=2)
    assert "init_process_group('sccl')" in " ".join(said.split())
    said = sccl("train", "run", "--record", output, "--", "no-such-command", code=2)
    assert "there is no command 'no-such-command'" in " ".join(said.split())
    assert "exit code 1" in sccl("train", "run", "--record", output, "--", "false", code=4)
    assert not output.exists()
