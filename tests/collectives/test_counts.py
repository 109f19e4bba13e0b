"""Collectives with counts: elements of pre- and postconditions, bounds, plans, errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, custom_spec, resolve_collective
from sccl.core.collective import Relation, RelationKind
from sccl.core.files.json_text import parse
from sccl.core.files.kinds import CUSTOM_COLLECTIVE, detect_kind
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.core.outcome import Solution
from sccl.core.schedule import Schedule
from sccl.errors import CollectiveError, InputError, TooLargeError
from sccl.judge import violations
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.sim import replay
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.common.problem import counted_spec
from sccl.synth.packing.by_time.time_bound import compute_time_bound
from sccl.topo import resolve_topology as machine
from sccl.topo.machine_model import machine_model
from tests.kit.commands import sccl
from tests.kit.nightly import times
from tests.kit.schedule_executor import executes_correctly
from tests.kit.strategies import topologies, unequal

NAMES = ("allgatherv", "alltoallv", "gatherv", "reducescatterv", "scatterv")


def told(data: st.DataObject, ranks: int, most: int = 9) -> dict[str, object]:
    """Return a file of counts, of which one at least is for another rank."""
    name = data.draw(st.sampled_from(NAMES))
    row = st.lists(st.integers(0, most), min_size=ranks, max_size=ranks)
    if name == "alltoallv":
        counts: list[object] = [data.draw(row) for _ in range(ranks)]
        counts[0] = [1, 1 + data.draw(st.integers(0, most)), *[0] * (ranks - 2)]
    else:
        counts = [1, 1, *data.draw(row)[2:]]
    found = {"name": "mine", "ranks": ranks, name: counts}
    if name in {"gatherv", "scatterv"}:
        found["root"] = data.draw(st.integers(0, ranks - 1))
    return found


def read(file: dict[str, object]) -> Spec:
    return custom_spec(parse(json.dumps(file), CustomCollectiveWire, "mine.json"), "mine.json")


def repeated(spec: Spec) -> Spec:
    """Return the same demand with as many equal chunks as each has elements."""
    elements = [chunk for chunk, count in enumerate(spec.counts) for _ in range(count)]
    pre, post = (
        Relation(RelationKind.PAIRS, pattern=tuple(of.pattern[c] for c in elements))
        for of in (spec.pre, spec.post)
    )
    return replace(spec, pattern_chunks=len(elements), pre=pre, post=post, counts=())


@given(st.data())
def test_each_rank_has_and_wants_what_the_counts_say(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(2, 6))
    file = told(data, ranks)
    collective = read(file).at(2)
    assert collective.combining == ("reducescatterv" in file)
    moved: dict[tuple[int, int], int] = {}
    for chunk in range(collective.num_chunks):
        for holder in collective.holders(chunk):
            for wanting in collective.destinations(chunk) - {holder}:
                amount = collective.amount([chunk])
                moved[holder, wanting] = moved.get((holder, wanting), 0) + amount
    pairs = [(u, v) for u in range(ranks) for v in range(ranks) if u != v]
    for u, v in pairs:
        assert moved.get((u, v), 0) == 2 * elements_of(file, u, v)


def elements_of(file: dict[str, Any], source: int, goal: int) -> int:
    """Return how many elements one rank has that another wants."""
    root = file.get("root")
    if "alltoallv" in file:
        return int(file["alltoallv"][source][goal])
    if "allgatherv" in file:
        return int(file["allgatherv"][source])
    if "gatherv" in file:
        return int(file["gatherv"][source]) if goal == root else 0
    if "scatterv" in file:
        return int(file["scatterv"][goal]) if source == root else 0
    return int(file["reducescatterv"][goal])


@settings(max_examples=times(30))
@given(st.data())
def test_elements_bound_as_equal_chunks_do(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=5))
    spec = read(told(data, topology.ranks, most=4))
    equal = repeated(spec)
    size = data.draw(st.sampled_from([1, 1000, 1 << 20]))
    counted, written_out = (completion_time_bound(topology, one).us(size) for one in (spec, equal))
    assert counted == written_out
    if not topology.switches and topology.has_uniform_lanes:
        assert lower_bounds(topology, spec).bandwidth == lower_bounds(topology, equal).bandwidth


@settings(max_examples=times(7))
@given(st.data())
def test_plans_bring_all_elements(data: st.DataObject) -> None:
    topology = data.draw(unequal() | topologies(max_ranks=4))
    spec = read(told(data, topology.ranks))
    name = data.draw(st.sampled_from(["limits-time", "teccl"]))
    synthesizer, size = registry.load(name), data.draw(st.sampled_from([1, 1000, 1 << 20]))
    options = None
    if name == "teccl":
        model = data.draw(st.sampled_from(["continuous", "continuous", "milp", "astar"]))
        epoch = "auto" if model == "continuous" else "slowest"
        options = synthesizer.Options(
            chunks=data.draw(st.sampled_from([1, 3])), model=model, epoch=epoch
        )
    try:
        found = registry.plan(
            synthesizer, Request(topology, spec, size), options, Effort(units=0.04)
        )
    except TooLargeError:  # epochs are as short as the fastest link asks for
        assume(False)
    best = getattr(found, "best", found)
    assume(best is not None)
    assert isinstance(best, Solution)
    plan = best.plan
    assert isinstance(plan, Schedule)
    assert violations(plan) == []
    assert executes_correctly(plan)
    assert compute_time_bound(topology, spec, plan.collective, plan.clock).value <= plan.finish
    if name == "teccl":
        assert replay(plan).finish == plan.finish
    sizes = plan.chunk_bytes
    of = [sizes] * plan.collective.num_chunks if isinstance(sizes, int) else list(sizes)
    for number, count in enumerate(spec.counts):
        alike = [
            c
            for c in range(plan.collective.num_chunks)
            if plan.collective.holders(c) == spec.pre.ranks_of(number, spec.ranks)
            and plan.collective.destinations(c) == spec.post.ranks_of(number, spec.ranks)
        ]
        assert sum(of[c] for c in alike) >= count * size
    assert best.bound.value <= best.objective


def test_schedule_of_the_wrong_sizes_is_none() -> None:
    """All bytes are there, but not of the chunk that has most."""
    spec = resolve_collective("3*broadcast@0-1+broadcast@2-3", 4)
    ring = machine("ring:4")
    found = registry.plan(registry.load("teccl"), Request(ring, spec, 1000))
    assert isinstance(found, Solution)
    plan = found.plan
    assert isinstance(plan, Schedule)
    assert plan.chunk_bytes == (3000, 1000)
    assert registry._has_requested_bytes(plan, Request(ring, spec, 1000))
    assert not registry._has_requested_bytes(
        replace(plan, chunk_bytes=(2000, 2000)), Request(ring, spec, 1000)
    )


def test_factors_are_counts() -> None:
    assert resolve_collective("2*allgather@0-1+alltoall@2-3", 4).counts == (2, 2, 1, 1, 1, 1)
    assert not resolve_collective("1*allgather@0-1+alltoall@2-3", 4).counts
    assert resolve_collective("6*allgather", 3).counts == (6, 6, 6)


def test_files_of_counts_say_what_they_are() -> None:
    assert (
        detect_kind({"name": "x", "ranks": 2, "alltoallv": [[0, 1], [1, 0]]}) is CUSTOM_COLLECTIVE
    )


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({"alltoallv": [[0, 1], [1, 0]], "allgatherv": [1, 2]}, "$.alltoallv repeats a part of it"),
        ({"alltoallv": [[0, 1], [1, 0]], "pre": [[0, 0]]}, "$.pre repeats a part of it"),
        ({"reducescatterv": [1, 2], "combining": True}, "$.combining repeats a part of it"),
        ({"alltoallv": [[0, 1]]}, "1 entries, expected one for each of 2 ranks"),
        ({"alltoallv": [[0, 1], [1, 0, 0]]}, "$.alltoallv[1]: 3 entries"),
        ({"allgatherv": [1, 2, 3]}, "3 entries, expected one for each of 2 ranks"),
        ({"allgatherv": [0, 0]}, "no rank has any element for another"),
        ({"alltoallv": [[5, 0], [0, 7]]}, "no rank has any element for another"),
        ({"allgatherv": [-1, 2]}, ">= 0"),
        ({"gatherv": [3, 0]}, "no rank has any element for another"),
        ({"scatterv": [0, 3], "root": 2}, "$.root: 2, expected a rank from 0 to 1"),
        ({"allgatherv": [1, 2], "root": 1}, "only gatherv and scatterv have one"),
        ({"allgatherv": [1, 2**41]}, "expected 1 to"),
        ({"post": [[0, 1]]}, "$.pre: no [chunk, rank] pair"),
        ({"pre": [[0, 0]], "post": [[0, 1]], "counts": [1, 2]}, "2 counts for 1 chunks"),
        ({"pre": [[0, 0]], "post": [[0, 1]], "counts": [0]}, ">= 1"),
    ],
)
def test_counts_that_contradict_are_rejected(file: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as error:
        read({"name": "mine", "ranks": 2, **file})
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["tacos", "pareto", "limits"])
def test_uniform_size_requirement_is_reported(name: str) -> None:
    spec = resolve_collective("2*allgather@0-1+alltoall@2-3", 4)
    ring = machine_model(machine("ring:4")).topology
    with pytest.raises(CollectiveError, match="takes chunks of one size"):
        registry.plan(registry.load(name), Request(ring, spec, 1000))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("allgatherv", "[3, 1, 0, 4]", {"allgatherv": [3, 1, 0, 4]}),
        ("scatterv", "3 1 0 4\n", {"scatterv": [3, 1, 0, 4], "root": 2}),
        ("gatherv", "3\n1\n\n0\n4\n", {"gatherv": [3, 1, 0, 4], "root": 2}),
        ("reducescatterv", "3,1,0, 4", {"reducescatterv": [3, 1, 0, 4]}),
        (
            "alltoallv",
            "0,1,2,3\n1 0 1 1\n0 0 0 0\n9, 9 ,9,0",
            {"alltoallv": [[0, 1, 2, 3], [1, 0, 1, 1], [0] * 4, [9, 9, 9, 0]]},
        ),
    ],
)
def test_counts_have_a_file_of_their_own(
    tmp_path: Path, name: str, text: str, expected: dict[str, object]
) -> None:
    file = tmp_path / "counts.txt"
    file.write_text(text)
    root = "2" if "root" in expected else None
    found = counted_spec(machine("ring:4"), name, root, file)
    assert found == replace(read({"name": "mine", "ranks": 4, **expected}), name=name)


@pytest.mark.parametrize(
    ("collective", "text", "says"),
    [
        (("allgatherv",), None, "allgatherv needs counts of elements: give --counts FILE"),
        (("allgather",), "1 2 3 4", "unknown collective of counts 'allgather'"),
        (("allgatherv",), "1 2 3", "3 entries, expected one for each of 4 ranks"),
        (("allgatherv",), "1 2 x 4", "line 1: 'x' is no count"),
        (("allgatherv",), "1 2 -3 4", "line 1: '-3' is no count"),
        (("allgatherv",), "[1, 2, 3.5, 4]", "expected an array of counts"),
        (("allgatherv",), "[[1, 2], 3]", "allgatherv takes a count for each rank"),
        (("allgatherv",), "[1, [2], 3, 4]", "Expected `int`, got `array`"),
        (("alltoallv",), "1 2 3 4", "alltoallv takes a row of counts for each rank"),
        (("alltoallv",), "0 1\n1 0", "2 entries, expected one for each of 4 ranks"),
        (("gatherv",), "\n", "there are no counts"),
        (("allgatherv", "--root", "1"), "1 2 3 4", "allgatherv has no root"),
        (("scatterv", "--root", "7"), "1 2 3 4", "expected a rank from 0 to 3"),
    ],
)
def test_counts_that_do_not_fit_are_rejected(
    tmp_path: Path, collective: tuple[str, ...], text: str | None, says: str
) -> None:
    file = tmp_path / "counts.txt"
    given: list[str | Path] = [] if text is None else ["--counts", file]
    file.write_text(text or "")
    asked = ("synth", "teccl", "--topo", "ring:4", "--size", "1KB", "--collective", *collective)
    code, _, told = sccl(*asked, *given)
    assert (code, says in " ".join(told.split())) == (2, True), told


def test_verbs_take_counts(tmp_path: Path) -> None:
    file, plan = tmp_path / "counts.txt", tmp_path / "plan.json"
    file.write_text("3 1 4 1")
    asked = ("--collective", "allgatherv", "--counts", file, "--topo", "ring:4", "--size", "1KB")
    code, _, told = sccl("synth", "teccl", *asked, "--budget", "1", "-o", plan)
    assert code == 0, told
    code, told, _ = sccl("check", plan)
    assert (code, "valid" in told) == (0, True)
    code, _, told = sccl("pareto", *asked[:-2])
    assert code == 2
    assert "of sizes of their own" in " ".join(told.split()) or "size" in told
