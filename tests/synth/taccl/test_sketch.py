"""Sketches on machines: fitting ones, and the link, route or entry that violates another."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.clock import Clock
from sccl.core.topology import Budget, Topology
from sccl.errors import InputError, TopologyError
from sccl.synth.network.routes import build_routes
from sccl.synth.scheduling.sketch import MachineSketch
from sccl.synth.sketches.sketch import (
    Hyperedge,
    HyperedgePolicy,
    RelayPattern,
    RelayRules,
    Rotation,
    Sketch,
)
from sccl.synth.sketches.sketch_files import load_sketch
from sccl.topo import resolve_topology
from sccl.topo.importers.taccl import machine_of_profile
from tests.kit.nightly import times
from tests.kit.samples import sample

LEAST = HyperedgePolicy.MIN
NDV2 = Sketch("one", 2, relays=RelayRules(((0, (1,)),)), rotations=(Rotation(8, 16),))


def fits(sketch: Sketch, machine: Topology) -> tuple[int, int]:
    """Return how many ways are left, and how many symmetries there are."""
    sketched = MachineSketch(sketch, machine)
    ways = build_routes(machine, Clock.from_topology(machine, 10**6))
    factors = sketched.route_factors(ways.src, ways.dst)
    sketched.check_symmetric(ways.src, ways.dst)
    return int((factors > 0).sum()), len(sketched.group)


def test_sketch_of_the_catalogue_s_machines() -> None:
    assert fits(NDV2, resolve_topology("ndv2x2")) == (66, 2)
    odd = tuple((n, (n - 1,)) for n in range(1, 16, 2))
    leaves = tuple((n, (n - 1, n)) for n in range(1, 16, 2))
    turns = (Rotation(2, 16), Rotation(16, 32))
    switch = (Hyperedge(tuple(range(16)), LEAST),)
    dgx2 = Sketch("two", 2, 2, hyperedges=switch, relays=RelayRules(odd, leaves), rotations=turns)
    assert fits(dgx2, resolve_topology("dgx2:2")) == (2 * 16 * 15 + 16, 16)


WRONG: list[tuple[str, Sketch, str]] = [
    ("ndv2x2", replace(NDV2, nodes=3), "nnodes is 3, and 16 ranks are not 3 equal nodes"),
    ("ndv2x2", replace(NDV2, nodes=4, rotations=()), r"nnodes is 4, and the machine has 2"),
    ("ndv2x4", replace(NDV2, rotations=()), "nnodes is 2, and the machine has 4 nodes"),
    ("dgx2:2", NDV2, r"internode_conn\[0\]: no link or path .* from rank 0 to rank 17"),
    (
        "ndv2x2",
        replace(NDV2, relays=RelayRules(RelayPattern.DIRECT_MAP)),
        "internode_conn is 'direct-map': no link or path .* from rank 0 to rank 8",
    ),
    (
        "ndv2x2",
        replace(NDV2, relays=RelayRules(((0, (12,)),))),
        r"internode_sketch.internode_conn\[0\] names rank 12 of a node, and a node has 8",
    ),
    (
        "ndv2x2",
        replace(NDV2, relays=RelayRules(((0, (1,)),), leaves_by=((3, (1,)),))),
        r"gpus_to_sender_rev_map\[3\]: rank 3 of a node sends to no other node",
    ),
    (
        "ndv2x2",
        replace(NDV2, relays=RelayRules(((0, (1,)),), shares=((2, 1),))),
        r"beta_split\[2\]: rank 2 of a node sends to no other node",
    ),
    (
        "ndv2x2",
        replace(NDV2, relays=RelayRules(((0, (1,)),), relay_map=(2, 1))),
        r"chunk_to_relay_map \[2, 1\]: chunks of rank 0 leave their node by rank 1, which sends",
    ),
    (
        "ndv2x2",
        replace(NDV2, intranode_links=((0, (5,)),)),
        r"intranode_conn\[0\]: no link or path .* from rank 0 to rank 5",
    ),
    (
        "ndv2x2",
        replace(NDV2, hyperedges=(Hyperedge((0, 1, 5), LEAST),)),
        r"intranode_sketch.switches\[0\]: no link or path .* from rank 0 to rank 5",
    ),
    (
        "ndv2x2",
        replace(NDV2, rotations=(Rotation(8, 32),)),
        r"symmetry_offsets \[8, 32\]: 16 ranks are no groups of 32",
    ),
    (
        "ndv2x2",
        replace(NDV2, rotations=(Rotation(4, 8),)),
        r"symmetry_offsets \[4, 8\] is no symmetry of the machine: link 0 -> 9 would be 4 -> 13",
    ),
    (
        "ndv2x2",
        replace(NDV2, rotations=(Rotation(1, 16),)),
        r"\[1, 16\] is no symmetry .*: link 0 -> 1 would be 1 -> 2, which has another cost",
    ),
    (
        "dgx2:2",
        Sketch("one", 2, rotations=(Rotation(1, 16),)),
        r"\[1, 16\] is no symmetry of the machine: link 1 -> 16 would be 2 -> 17, which does",
    ),
    (
        "full:4",
        Sketch("one", 2, relays=RelayRules(((0, (1,)),)), rotations=(Rotation(1, 2),)),
        r"\[1, 2\] is no symmetry of .*: route 0 -> 3 would be 1 -> 2, which .*internode_conn",
    ),
    (
        "full:4",
        Sketch("one", 1, intranode_links=((0, (1, 2)),), rotations=(Rotation(1, 4),)),
        "route 0 -> 1 would be 1 -> 2, which intranode_sketch.intranode_conn leaves out",
    ),
    (
        "full:4",
        Sketch(
            "one",
            2,
            relays=RelayRules(RelayPattern.FULLY_CONNECTED, shares=((0, 2),)),
            rotations=(Rotation(1, 2),),
        ),
        "route 0 -> 2 would be 1 -> 3, with internode_sketch.beta_split 1, expected 2",
    ),
    (
        "full:4",
        Sketch(
            "one",
            2,
            relays=RelayRules(RelayPattern.FULLY_CONNECTED, leaves_by=((0, (0, 1)),)),
            rotations=(Rotation(1, 2),),
        ),
        "gpus_to_sender_rev_map lets rank 0 send chunks of rank 0 .* rank 1 cannot send",
    ),
    (
        "full:4",
        Sketch("one", 1, hyperedges=(Hyperedge((0, 1), LEAST),), rotations=(Rotation(1, 4),)),
        r"intranode_sketch.switches\[0\], ranks \[0, 1\], would be ranks \[1, 2\], which are no",
    ),
    (
        "switch2d:4x2",
        Sketch("one", 2, rotations=(Rotation(3, 8),)),
        r"\[3, 8\] is no symmetry of the machine: ranks of one switch",
    ),
]


@pytest.mark.parametrize(("machine", "sketch", "message"), WRONG)
def test_sketch_contradiction_names_its_entry(machine: str, sketch: Sketch, message: str) -> None:
    with pytest.raises(TopologyError, match=message) as error:
        fits(sketch, resolve_topology(machine))
    assert str(error.value).startswith(f"sketch one, on '{machine}': ")
    assert "\n" not in str(error.value)


def test_budget_that_has_no_image_is_reported() -> None:
    full = resolve_topology("full:4")
    shared = replace(full, name="shared", budgets=(Budget("bus", ((0, 1), (0, 2)), 1),))
    turned = Sketch("one", 1, rotations=(Rotation(1, 4),))
    assert fits(turned, full) == (12, 4)
    with pytest.raises(TopologyError, match="that share 'bus', including 0 -> 1"):
        fits(turned, shared)
    four = tuple(Budget(f"bus {i}", ((i, (i + 1) % 4), (i, (i + 2) % 4)), 1) for i in range(4))
    assert fits(turned, replace(full, budgets=four)) == (12, 4)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Sketch, int]:
    """Draw a sketch of nodes of few ranks with one rotation, and the number of ranks."""
    local, nodes = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    numbers = st.integers(0, local - 1)
    some = st.dictionaries(numbers, st.sets(numbers, min_size=1), min_size=1)
    ranks = local * nodes
    sizes = [n for n in range(2, ranks + 1) if not ranks % n]
    size = draw(st.sampled_from(sizes))
    relays = None
    if nodes > 1:
        joined = {a: tuple(sorted(to)) for a, to in sorted(draw(some).items())}
        by = {a: tuple(sorted(own)) for a, own in sorted(draw(some).items()) if a in joined}
        shares = {a: draw(st.integers(1, 2)) for a in joined}
        relays = RelayRules(
            draw(st.sampled_from([*RelayPattern, tuple(joined.items())])),
            tuple(by.items()) if draw(st.booleans()) else (),
            shares=tuple(shares.items()) if draw(st.booleans()) else (),
        )
    edges = draw(st.none() | st.sets(numbers, min_size=2))
    within = {a: tuple(b for b in range(local) if b != a and draw(st.booleans()))
              for a in range(local)}  # fmt: skip
    sketch = Sketch(
        "one",
        nodes,
        intranode_links=tuple(within.items()) if draw(st.booleans()) else None,
        hyperedges=(Hyperedge(tuple(sorted(edges)), LEAST),) if edges else (),
        relays=relays,
        rotations=(Rotation(draw(st.integers(1, size - 1)), size),),
    )
    return sketch, ranks


def left(sketch: Sketch, ranks: int) -> set[tuple[object, ...]]:
    """Return the restrictions of a sketch on a fully connected machine."""
    local, found = ranks // sketch.nodes, set[tuple[object, ...]]()
    for origin in range(ranks):
        for a, b in permutations(range(ranks), 2):
            share, relays = 1, sketch.relays
            if a // local == b // local:
                if sketch.intranode_links and b % local not in dict(sketch.intranode_links).get(
                    a % local, ()
                ):
                    continue
            elif relays is not None:
                by = relays.senders(origin % local)
                if b % local not in relays.receivers(a % local, local):
                    continue
                share = relays.share(a % local)
                if by is not None and a % local not in by:
                    found.add((a, b, share, "for others"))
                    continue
            found.add((a, b, share, "for others"))
            found.add((a, b, share, origin))
    return found


def turned(one: tuple[object, ...], turn: Rotation) -> tuple[object, ...]:
    a, b, share, origin = one
    assert isinstance(a, int)
    assert isinstance(b, int)
    return (
        turn.image(a),
        turn.image(b),
        share,
        turn.image(origin) if isinstance(origin, int) else origin,
    )


@settings(max_examples=times(100))
@given(drawn())
def test_rotation_is_rejected_if_it_changes_what_is_left(given: tuple[Sketch, int]) -> None:
    sketch, ranks = given
    (turn,), local = sketch.rotations, ranks // sketch.nodes
    everything = left(sketch, ranks)
    switches = {
        frozenset(node * local + n for n in edge.local)
        for edge in sketch.hyperedges
        for node in range(sketch.nodes)
    }
    same = {turned(one, turn) for one in everything} == everything
    same = same and {frozenset(map(turn.image, one)) for one in switches} == switches
    mixed = any((a // local == b // local) != (turn.image(a) // local == turn.image(b) // local)
                for a, b in permutations(range(ranks), 2))  # fmt: skip
    try:
        fits(sketch, resolve_topology(f"full:{ranks}"))
    except TopologyError as error:
        if "symmetr" in str(error):  # mixtures of nodes are rejected if chunks leave by senders
            assert not same or mixed
        return
    assert same


@pytest.mark.parametrize("size", ["1KB", "32KB", "1MB"])
@pytest.mark.parametrize(
    ("name", "ways", "group"),
    [
        ("sk-ndv2-n1-cUp6", 32, 1),
        ("sk1-ndv2-n1", 32, 1),
        ("sk1-ndv2-n2", 66, 2),
        ("sk1-ndv2-n4", 128 + 12, 4),
        ("sk2-ndv2-n2", 64 + 128, 2),
        ("sk2-ndv2-n4", 128 + 768, 4),
        ("sk3-ndv2-n2", 64 + 16, 2),
        ("sk-dgx2-n1", 240, 8),
        ("sk1-dgx2-n1", 240, 8),
        ("sk1-dgx2-n2", 480 + 16, 16),
        ("sk2-dgx2-n2", 480 + 32, 16),
    ],
)
def test_published_sketches_fit_published_profiles(
    name: str, ways: int, group: int, size: str
) -> None:
    kind = name.split("-")[1]
    if (kind, size) == ("dgx2", "32KB"):
        size = "1MB"  # there is none
    sketch = load_sketch(sample(f"taccl/sketch/{name}.json"))
    text = sample(f"taccl/topo/topo-{kind}-{size}.json").read_text()
    assert fits(sketch, machine_of_profile(text, sketch.nodes, "m")) == (ways, group)


def test_reversed_phase_obeys_the_same_routes() -> None:
    machine = resolve_topology("ndv2x2")
    ways = build_routes(machine, Clock.from_topology(machine, 10**6))
    there = MachineSketch(NDV2, machine).route_factors(ways.src, ways.dst)
    back = MachineSketch(NDV2, machine.reversed(), is_backwards=True).route_factors(
        ways.dst, ways.src
    )
    assert np.array_equal(there, back)
    turned_back = replace(NDV2, rotations=(Rotation(1, 8),))
    for sketched, src, dst in (
        (MachineSketch(turned_back, machine), ways.src, ways.dst),
        (MachineSketch(turned_back, machine.reversed(), is_backwards=True), ways.dst, ways.src),
    ):
        with pytest.raises(InputError, match=r"symmetry_offsets \[1, 8\]"):
            sketched.check_symmetric(src, dst)
