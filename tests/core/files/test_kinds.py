"""Kinds of files: one list for detection, errors and publication."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.answer import Sat, Unknown, describe_solver
from sccl.core.clock import Clock
from sccl.core.collective import ALL, SCATTERED, Collective
from sccl.core.files.algorithms import (
    algorithm_from_wire,
    algorithm_to_wire,
    answer_from_wire,
    answer_to_wire,
    instance_to_wire,
)
from sccl.core.files.collectives import collective_to_wire
from sccl.core.files.json_text import detect_text_kind, digest, parse, text_with_digest, to_text
from sccl.core.files.kinds import KINDS, VERIFIED_KINDS, kind_of_shape, published_shapes
from sccl.core.files.schedule_shapes import (
    BandwidthIntervalWire,
    PackedScheduleWire,
    VariableBandwidthWire,
)
from sccl.core.files.schedules import schedule_to_wire
from sccl.core.files.shapes import (
    AlgorithmWire,
    AnswerWire,
    CustomCollectiveWire,
    GeneratorWire,
    GroupsWire,
    GroupWire,
    NetworkWire,
    SymmetricAlgorithmWire,
    SymmetryWire,
)
from sccl.core.files.topologies import topology_to_wire
from sccl.core.instance import Instance
from sccl.core.schedule import build_schedule
from sccl.core.stop import StopReason
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm, Symmetry
from sccl.errors import FormatError
from sccl.synth.sketches.sketch import RelayPattern, RelayRules, Sketch
from sccl.synth.sketches.sketch_files import sketch_to_wire
from sccl.topo import resolve_topology
from sccl.topo.profiles.measurement_files import measurements_to_wire
from sccl.training.fabric_names import resolve_fabric
from sccl.training.files.fabrics import fabric_to_wire
from sccl.training.files.training_plans import (
    offered_options_to_wire,
    timeline_to_wire,
    training_plan_to_wire,
)
from sccl.training.files.workloads import workload_to_wire
from sccl.training.timeline import simulate_timeline
from tests.kit.profiles import measured
from tests.kit.training_plans import prefetching_offers, prefetching_plan
from tests.kit.workloads import prefetching

RING = resolve_topology("ring:4")
GATHER = Collective("allgather", 4, 1, 4, SCATTERED, ALL)
PLAIN = Algorithm(RING, GATHER, (1, 1), (make_send(0, 0, 1, 0), make_send(0, 1, 2, 1)))
SYMMETRIC = SymmetricAlgorithm(
    RING,
    GATHER,
    (1, 1),
    (Symmetry((1, 2, 3, 0)),),
    (make_send(0, 0, 1, 0), make_send(0, 1, 2, 1)),
    8,
)

WIRES: list[Any] = [
    topology_to_wire(RING),
    NetworkWire(joining="rails", gb_per_s=25.0, nics=2),
    VariableBandwidthWire(intervals=(BandwidthIntervalWire(from_us=1.0, fraction=0.5),)),
    fabric_to_wire(resolve_fabric("dgx1-pcie")),
    collective_to_wire(GATHER),
    CustomCollectiveWire(name="mine", ranks=2, pre=((0, 0),), post=((0, 1),)),
    GroupsWire(groups=(GroupWire(ranks=(0, 1), collective="broadcast", root=1),)),
    algorithm_to_wire(PLAIN),
    algorithm_to_wire(SYMMETRIC),
    instance_to_wire(Instance(RING, GATHER, 2, 2)),
    sketch_to_wire(Sketch("sketch", 2, relays=RelayRules(RelayPattern.DIRECT_MAP))),
    answer_to_wire(Unknown(StopReason.parse("timeout"), "cpsat", 1.0)),
    SymmetryWire(generators=(GeneratorWire(ranks=(1, 0)),)),
    measurements_to_wire(measured({(0, 1): (1.0, 50.0)}, 2, "kinds")),
    workload_to_wire(prefetching()),
    training_plan_to_wire(prefetching_plan()),
    timeline_to_wire(prefetching_plan(), simulate_timeline(prefetching_plan())),
    offered_options_to_wire(prefetching_offers()),
    schedule_to_wire(
        build_schedule(RING, GATHER, [(0, 1, 0, 0, False)], Clock.from_topology(RING, 1))
    ),
    PackedScheduleWire(
        collective=collective_to_wire(GATHER),
        topology=topology_to_wire(RING),
        alpha="occupies",
        tick_ps=1,
        chunk_bytes=1,
        passes=("stores",),
        rounds=0,
        sends=0,
        chunk_bits=16,
        finish=0,
    ),
]


def test_every_kind_says_its_own_name_and_is_told_by_fields_it_has() -> None:
    for kind in KINDS:
        if kind.shape is not None:
            fields = {field.name: field for field in msgspec.structs.fields(kind.shape)}
            assert fields["kind"].default == kind.name
            assert all(telling <= fields.keys() for telling in kind.identifying_fields)
            assert kind_of_shape(kind.shape) == kind
    assert (
        len({kind.name for kind in KINDS})
        == len({kind.identifying_fields for kind in KINDS})
        == len(KINDS)
    )


def test_every_published_kind_with_a_digest_is_tried_here() -> None:
    others = {published_shapes()[kind] for kind in ("certificate", "program")}
    assert {type(wire) for wire in WIRES} == {*published_shapes().values()} - others


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.kind)
def test_file_is_told_with_and_without_its_kind(wire: Any) -> None:
    text = to_text(wire)
    assert detect_text_kind(text, "a file") == kind_of_shape(type(wire))
    fields = json.loads(text)
    del fields["kind"]
    assert detect_text_kind(json.dumps(fields), "a file") == kind_of_shape(type(wire))


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.kind)
def test_edited_unverifiable_file_is_rejected(wire: Any) -> None:
    """Plans are verified by content. For other files an edit may be a slip."""
    text = text_with_digest(wire, "sha256:" + 64 * "0")
    if kind_of_shape(type(wire)) in VERIFIED_KINDS:
        assert parse(text, type(wire), "file.json")
        return
    with pytest.raises(FormatError, match=r"^file.json: edited since .*remove its field 'digest'"):
        parse(text, type(wire), "file.json")
    told = json.loads(text)
    del told["digest"]
    assert digest(parse(json.dumps(told), type(wire), "file.json")) == digest(wire)


def test_fields_that_are_as_usual_are_not_told_and_so_digests_outlive_new_ones() -> None:
    for wire in WIRES:
        assert type(wire).__struct_config__.omit_defaults


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.kind)
def test_file_of_another_kind_is_named_and_so_is_what_was_expected(wire: Any) -> None:
    text, kind = to_text(wire), kind_of_shape(type(wire))
    for wanted in KINDS:
        if wanted.home is None or wanted.name == wire.kind:
            continue
        with pytest.raises(FormatError) as error:
            parse(text, published_shapes()[wanted.name], "file.json")
        assert str(error.value).startswith(f"file.json: it holds {kind}; expected {wanted} file")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"kind": "solve"}', "$.kind is 'solve'; expected a topology file"),
        ('{"kind": "topology", "nane": "x"}', "`nane` (did you mean `name`?); expected a topology"),
        ('{"kind": "topology", "\\n": 1}', "unknown field `?`; expected a topology"),
        ("[1]", "Expected `object`, got `array`; expected a topology file"),
        ("{,}", "file.json, line 1 column 2: not JSON"),
        ('{"schema": NaN}', "file.json: not JSON (NaN is not a JSON number"),
        (
            '{"schema": 1, "alpha_us": -Infinity}',
            "file.json: not JSON (-Infinity is not a JSON number",
        ),
        ('{"alpha_us": 1e999}', "out of range"),
        ('{"ranks": ' + "9" * 5000 + "}", "not JSON that sccl can read"),
        ("[" * 100_000, "not JSON that sccl can read"),
        ("", "not JSON"),
    ],
)
def test_file_of_unknown_kind_gives_one_sentence(text: str, says: str) -> None:
    with pytest.raises(FormatError) as error:
        parse(text, published_shapes()["topology"], "file.json")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("algorithm", [PLAIN, SYMMETRIC], ids=["plain", "symmetric"])
def test_algorithms_and_their_answers_come_back(algorithm: AnyAlgorithm) -> None:
    wire = algorithm_to_wire(algorithm)
    assert isinstance(wire, SymmetricAlgorithmWire) == isinstance(algorithm, SymmetricAlgorithm)
    again: AlgorithmWire | SymmetricAlgorithmWire = parse(to_text(wire), type(wire), "it")
    assert digest(again) == digest(wire)
    assert algorithm_from_wire(again, "it") == algorithm
    for answer in (Sat(algorithm, "cpsat", 0.5), Sat(algorithm, "orbits", 0.5, group="turns (4)")):
        text = msgspec.json.encode(answer_to_wire(answer)).decode()
        assert answer_from_wire(parse(text, AnswerWire, "it"), "it") == answer


def test_answer_of_an_older_store_says_its_group_in_words_alone() -> None:
    wire = algorithm_to_wire(PLAIN)
    assert isinstance(wire, AlgorithmWire)
    old = AnswerWire(answer="sat", solver="orbits (translations)", seconds=0.5, algorithm=wire)
    answer = answer_from_wire(old, "it")
    assert describe_solver(answer) == describe_solver(
        Sat(PLAIN, "orbits", 0.5, group="translations")
    )
    assert answer_to_wire(answer) == old
