"""Sketches as files: round trips, published ones, and errors that name their entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.files.json_text import to_text
from sccl.errors import FormatError
from sccl.synth.sketches.sketch import (
    Hyperedge,
    HyperedgePolicy,
    RelayPattern,
    RelayRules,
    Rotation,
    Sketch,
)
from sccl.synth.sketches.sketch_files import load_sketch, sketch_from_text, sketch_to_wire
from tests.kit.nightly import times
from tests.kit.samples import sample

NUMBERS = st.integers(0, 20)
PAIRS = st.dictionaries(NUMBERS, st.sets(NUMBERS, min_size=1), max_size=4)


def pairs(found: dict[int, set[int]]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((number, tuple(sorted(to))) for number, to in sorted(found.items()))


@st.composite
def relays(draw: st.DrawFn) -> RelayRules:
    some = PAIRS.filter(bool).map(pairs)
    by = draw(st.sampled_from(["map", "number", "any"]))
    return RelayRules(
        draw(st.sampled_from(RelayPattern) | some),
        leaves_by=draw(PAIRS.map(pairs)) if by == "map" else (),
        relay_map=draw(st.tuples(st.integers(1, 9), NUMBERS)) if by == "number" else None,
        shares=tuple(sorted(draw(st.dictionaries(NUMBERS, st.integers(1, 1024))).items())),
        local_first=draw(st.booleans()),
    )


@st.composite
def sketches(draw: st.DrawFn) -> Sketch:
    nodes = draw(st.integers(1, 5))
    local = st.lists(NUMBERS, unique=True, min_size=2).map(tuple)
    edges = st.builds(Hyperedge, local, st.sampled_from(HyperedgePolicy))
    turns = st.integers(2, 40).flatmap(lambda n: st.builds(Rotation, st.integers(1, n - 1),
                                                           st.just(n)))  # fmt: skip
    return Sketch(
        draw(st.text("abc -", min_size=1)),
        nodes,
        draw(st.integers(1, 1024)),
        draw(st.none() | st.integers(1, 2**60)),
        draw(st.none() | PAIRS.map(pairs)),
        tuple(draw(st.lists(edges, unique_by=lambda edge: frozenset(edge.local)))),
        draw(st.none() | relays()) if nodes > 1 else None,
        tuple(draw(st.lists(turns, max_size=3))),
    )


@settings(max_examples=times(50))
@given(sketches())
def test_sketches_come_back(sketch: Sketch) -> None:
    text = to_text(sketch_to_wire(sketch))
    assert sketch_from_text(text, "file.json") == sketch
    assert to_text(sketch_to_wire(sketch_from_text(text, "file.json"))) == text


PUBLISHED = {
    "sk-dgx2-n1": (1, 2),
    "sk-ndv2-n1-cUp6": (1, 6),
    "sk1-dgx2-n1": (1, 1),
    "sk1-dgx2-n2": (2, 2),
    "sk1-ndv2-n1": (1, 1),
    "sk1-ndv2-n2": (2, 1),
    "sk1-ndv2-n4": (4, 1),
    "sk2-dgx2-n2": (2, 1),
    "sk2-ndv2-n2": (2, 1),
    "sk2-ndv2-n4": (4, 1),
    "sk3-ndv2-n2": (2, 1),
}
"""Nodes and chunks of each."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_file_is_read_and_says_the_same_as_ours(name: str) -> None:
    file = sample(f"taccl/sketch/{name}.json")
    sketch, given = load_sketch(file), json.loads(file.read_text())
    assert (sketch.name, (sketch.nodes, sketch.chunks)) == (name, PUBLISHED[name])
    ours = json.loads(to_text(sketch_to_wire(sketch)))
    assert ours.get("symmetry_offsets", []) == given["symmetry_offsets"]
    for field in ("intranode_sketch", "internode_sketch"):
        assert ours.get(field) == given.get(field)


def test_dgx2_sk_1_is_read_correctly() -> None:
    sketch = load_sketch(sample("taccl/sketch/sk1-dgx2-n2.json"))
    assert sketch.hyperedges == (Hyperedge(tuple(range(16)), HyperedgePolicy.MIN),)
    assert sketch.rotations == (Rotation(2, 16), Rotation(16, 32))
    assert sketch.relays is not None
    for number in range(16):
        assert sketch.relays.senders(number) == frozenset({number // 2 * 2 + 1})
        assert sketch.relays.receivers(number, 16) == ({number - 1} if number % 2 else set())
    assert sketch.relays.local_first
    assert sketch.size_bytes is None


def test_papers_map_of_chunks_is_that_of_its_ranks() -> None:
    by = RelayRules(RelayPattern.DIRECT_MAP, relay_map=(2, 1))
    listed = RelayRules(
        RelayPattern.DIRECT_MAP, leaves_by=tuple((n + 1, (n, n + 1)) for n in range(0, 16, 2))
    )
    assert [by.senders(n) for n in range(16)] == [listed.senders(n) for n in range(16)]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1M", 10**6), ("64KB", 64_000), ("1GiB", 2**30), ("2 Ki", 2048), (7, 7), ("7", 7)],
)
def test_sizes_have_units(text: str | int, size: int) -> None:
    given: dict[str, Any] = {"nnodes": 1, "intranode_sketch": {"strategy": "none"}}
    given["hyperparameters"] = {"input_size": text}
    assert sketch_from_text(json.dumps(given), "it").size_bytes == size


WRONG: list[tuple[str, Any, str]] = [
    ("nnodes", 0, "nnodes is 0"),
    ("nnodes", 1, "internode_sketch is given for 1 node"),
    ("nnodes", None, r"nnodes"),
    ("senders", 1, "unknown field `senders`"),
    ("intranode_sketch.strategy", "minmax", r"'minmax' - at `\$.intranode_sketch.strategy`"),
    ("intranode_sketch.switches", [[0, 1]], "strategy none and switches"),
    ("intranode_sketch.intranode_conn", {"-1": [0]}, r"intranode_conn\['-1'\]"),
    ("internode_sketch.internode_conn", {}, "internode_conn has no sender"),
    ("internode_sketch.internode_conn", {"0": [1], "3": []}, r"internode_conn\[3\] has no rec"),
    ("internode_sketch.internode_conn", {"00": [1]}, r"internode_conn\['00'\]: expected the num"),
    ("internode_sketch.internode_conn", "all", r"'all' - at `\$.internode_sketch.internode_conn`"),
    ("internode_sketch.gpus_to_sender_rev_map", {"x": [0]}, r"gpus_to_sender_rev_map\['x'\]"),
    ("internode_sketch.beta_split", {"0": 0}, "beta_split of 0 is 0, expected 1 to 1024"),
    ("internode_sketch.beta_split", {"a": 1}, r"beta_split\['a'\]"),
    ("internode_sketch.chunk_to_relay_map", [0, 1], r"chunk_to_relay_map is \[0, 1\]"),
    ("internode_sketch.chunk_to_relay_map", [1], r"chunk_to_relay_map"),
    ("symmetry_offsets", [[0, 16]], r"symmetry_offsets \[0, 16\]: expected"),
    ("symmetry_offsets", [[16, 16]], r"symmetry_offsets \[16, 16\]: expected"),
    ("hyperparameters.input_chunkup", 0, "input_chunkup is 0, expected 1 to 1024"),
    ("hyperparameters.input_chunkup", 1.5, r"hyperparameters.input_chunkup"),
    ("hyperparameters.input_size", "0", "input_size is '0', expected bytes"),
    ("hyperparameters.input_size", "abc", "input_size is 'abc', expected bytes"),
    ("hyperparameters.input_size", -5, "input_size is -5, expected bytes"),
    ("hyperparameters.input_size", "1.5M", "input_size is '1.5M', expected bytes"),
    ("hyperparameters.input_size", "9999999T", "bytes, expected 1 to"),
    ("hyperparameters.chunks", 3, r"unknown field `chunks` - at `\$.hyperparameters`"),
]


@pytest.mark.parametrize(("entry", "value", "message"), WRONG)
def test_sketch_error_names_its_entry(entry: str, value: object, message: str) -> None:
    given: dict[str, Any] = {
        "nnodes": 2,
        "intranode_sketch": {"strategy": "none"},
        "internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]}},
        "hyperparameters": {},
    }
    assert sketch_from_text(json.dumps(given), "it").nodes == 2
    *path, last = entry.split(".")
    inner = given[path[0]] if path else given
    inner[last] = value
    with pytest.raises(FormatError, match=message) as error:
        sketch_from_text(json.dumps(given), "mine.json")
    assert str(error.value).startswith("mine.json: ")
    assert "\n" not in str(error.value)


def test_switches_and_policies_belong_together() -> None:
    given = {"strategy": "switch", "switches": [[0, 1]], "switch_hyperedge_strategy": ["free"]}
    told = {"nnodes": 1, "intranode_sketch": given}
    sketch = sketch_from_text(json.dumps(told), "it")
    assert sketch.hyperedges == (Hyperedge((0, 1), HyperedgePolicy.FREE),)
    for field, value, message in (
        ("switches", [[0]], r"switches has one of ranks \[0\]"),
        ("switches", [[0, 0]], r"switches has one of ranks \[0, 0\]"),
        ("switch_hyperedge_strategy", [], "switch_hyperedge_strategy has 0 entries, expected 1"),
        ("switch_hyperedge_strategy", ["most"], "'most'"),
    ):
        broken = told | {"intranode_sketch": given | {field: value}}
        with pytest.raises(FormatError, match=message):
            sketch_from_text(json.dumps(broken), "it")


def test_ranks_of_a_switch_have_one_policy() -> None:
    given = {"strategy": "switch", "switches": [[2, 3], [0, 1], [1, 0]]}
    policies = ["free", "uc-max", "uc-max"]
    told = {"nnodes": 1, "intranode_sketch": given | {"switch_hyperedge_strategy": policies}}
    assert len(sketch_from_text(json.dumps(told), "it").hyperedges) == 3  # a duplicate counts once
    policies[2] = "uc-min"
    with pytest.raises(FormatError) as error:
        sketch_from_text(json.dumps(told), "it")
    assert str(error.value) == (
        "it: intranode_sketch.switches[2] has the ranks of switches[1], but "
        "switch_hyperedge_strategy is 'uc-min' for it and 'uc-max' for that: leave one of "
        "the two out"
    )


def test_one_map_of_chunks_is_enough() -> None:
    inter: dict[str, Any] = {
        "strategy": "relay",
        "internode_conn": "direct-map",
        "chunk_to_relay_map": [2, 1],
    }
    told = {"nnodes": 2, "intranode_sketch": {"strategy": "none"}, "internode_sketch": inter}
    assert sketch_from_text(json.dumps(told), "it").relays is not None
    inter["gpus_to_sender_rev_map"] = {"0": [0]}
    with pytest.raises(FormatError, match="leave one out"):
        sketch_from_text(json.dumps(told), "it")


def test_messages_call_a_file_without_a_name_by_its_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"nnodes": 1, "intranode_sketch": {"strategy": "none"}}')
    assert load_sketch(file).name == "mine"
