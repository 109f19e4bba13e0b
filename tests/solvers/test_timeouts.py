"""Time that runs out, at any moment: unknown, open or between two bounds, and never an error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import named_spec
from sccl.core.answer import Sat, Unknown
from sccl.core.instance import Instance
from sccl.core.symmetric import Group
from sccl.synth.syncoll import solve, symmetric_search
from sccl.topo import resolve_topology
from sccl.topo.symmetry.group_choice import candidate_groups


def symmetric(
    machine: str, chunks: int, steps: int, rounds: int
) -> tuple[Instance, tuple[Group, ...]]:
    topology = resolve_topology(machine)
    collective = named_spec("allgather", topology.ranks).at(chunks)
    found = candidate_groups(topology, collective, "auto")
    return Instance(topology, collective, steps, rounds), found


@pytest.mark.parametrize("seconds", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("solver", solve.names())
def test_no_time_before_the_first_group(solver: str, seconds: float) -> None:
    instance, some = symmetric("torus:4x4", 4, 4, 15)
    effort = solve.Effort(seconds)
    assert "timeout" in str(symmetric_search.answer(instance, some, solve.Effort(1e-9)))
    answer = solve.solve(instance, solver, effort, some)
    assert isinstance(answer, Sat | Unknown)
    assert isinstance(answer, Sat) or "timeout" in str(answer.reason)


class Clock:
    """A clock that stands still, and after some looks at it is an hour ahead."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    def __call__(self) -> float:
        self.left -= 1
        return 0.0 if self.left >= 0 else 3600.0


@pytest.mark.parametrize(
    "size",
    [
        ("ring:4", 2, 2, 2),
        pytest.param(("dragonfly:4x5", 4, 3, 19), marks=pytest.mark.nightly),
    ],
)
def test_time_may_run_out_at_every_look_at_the_clock(
    size: tuple[str, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On machines on which several groups have no algorithm, so that there are many looks."""
    instance, some = symmetric(*size)
    assert len(some) > 1
    for looks in count():
        clock = Clock(looks)
        monkeypatch.setattr(time, "perf_counter", clock)
        found = symmetric_search.answer(instance, some, solve.Effort(60.0))
        whole = solve.solve_symmetric(instance, some, solve.Effort(60.0))
        monkeypatch.undo()
        assert isinstance(found, Unknown)
        assert isinstance(whole, Unknown)
        if clock.left >= 0:
            assert "timeout" not in str(found.reason)
            return
        assert "timeout" in str(found.reason) or "none exists" in str(found.reason)


VERBS = (
    ("solve", "--collective", "allgather", "--topo", "torus:4x4", "--chunks", "4", "--steps", "4",
     "--rounds", "15"),
    ("solve", "--collective", "allgather", "--topo", "dgx1", "--chunks", "6", "--steps", "3",
     "--rounds", "7"),
    ("pareto", "--collective", "allreduce", "--topo", "ring:4", "--k", "1", "--max-steps", "4"),
    ("pareto", "--collective", "alltoall", "--topo", "torus:4x4", "--k", "0", "--max-steps", "4"),
    ("limits", "--collective", "allreduce", "--topo", "ring:4", "--max-steps", "4"),
    ("limits", "--collective", "broadcast", "--topo", "torus:3x4", "--max-steps", "6"),
    ("bound", "--collective", "broadcast", "--topo", "dgx1", "--steps", "4"),
)  # fmt: skip


def command_lines() -> Iterator[tuple[str, ...]]:
    for words in VERBS:
        for seconds in ("1e-6", "1e-3", "0.05"):
            yield (*words, "--timeout", seconds)


@pytest.mark.parametrize("words", list(command_lines()), ids=" ".join)
def test_no_verb_breaks_when_its_time_runs_out(words: tuple[str, ...]) -> None:
    store = () if words[0] in ("bound", "limits") else ("--no-store",)
    done = CliRunner().invoke(app, [*words, *store])
    assert done.exit_code in {0, 1, 3}, done.output
    assert "Traceback" not in done.output
    assert "defect" not in done.output
    if done.exit_code == 3:
        said = done.output.lower()
        assert any(
            word in said for word in ("timeout", "open", " to ", "time", "best algorithm: ")
        ), said
