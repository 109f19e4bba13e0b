"""What motifs take on channels: durations and loads come from schedules of their patterns."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec
from sccl.core.fabric import Channel, Fabric
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.judge import violations
from sccl.motif import motifs_of, recipe_of, whole
from sccl.topo import fabric_of, resolve
from sccl.train.costs import MotifCosts, pattern_of
from tests.kit.nightly import times
from tests.kit.tacos import found, schedule


class Counting:
    """TACOS as a planner, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, topology: Topology, spec: Spec, size: int) -> Schedule:
        self.asked += 1
        return schedule(found(topology, spec, size))


def test_a_motif_takes_its_launch_and_what_its_schedule_takes() -> None:
    """1,000 bytes over a link of 1 GB/s after 3 us, and 2 us to launch."""
    pair = Fabric("pair", (Channel("only", resolve("full:2@1GB+3us"), launch_us=2.0),))
    cost = MotifCosts(pair, Counting()).of(whole("broadcast", [1, 0], 250), 0, 4)
    assert cost.us == 6
    assert cost.loads == ((0, Fraction(1, 6)),)


def test_phases_of_an_alltoall_load_one_kind_of_links_each() -> None:
    costs = MotifCosts(fabric_of("hgx2x4"), Counting())
    inside, across = motifs_of(whole("alltoall", range(32), 1 << 18), recipe_of("levels(8)"))
    names = [
        {costs.resources.names[kind] for kind, _ in costs.of(motif, 0, 4).loads}
        for motif in (inside, across)
    ]
    assert names[0] == {"gpu: rank to NVSwitch, 150 GB/s", "gpu: NVSwitch to rank, 150 GB/s"}
    assert "gpu: rank to RoCE, 12.5 GB/s" in names[1]


def test_motifs_that_are_alike_are_planned_once() -> None:
    planner = Counting()
    costs = MotifCosts(fabric_of("hgx2"), planner)
    made = motifs_of(whole("allgather", range(8), 1 << 12), recipe_of("seg(4)"))
    assert len({costs.of(motif, 0, 4) for motif in made}) == 1
    assert planner.asked == 1
    costs.of(made[0], 1, 4)
    assert planner.asked == 2


def test_uneven_parts_are_chunks_of_so_many_elements() -> None:
    splits = [[0, 1, 2], [3, 0, 5], [1, 1, 1]]
    spec, size = pattern_of(whole("alltoall", range(3), 1, splits=splits), 4, 4)
    assert (spec.counts, spec.pattern_chunks, size) == ((1, 2, 3, 5, 1, 1), 6, 4)


def test_parts_that_do_not_divide_are_as_large_as_the_largest() -> None:
    spec, size = pattern_of(whole("allgather", range(3), 10), 3, 2)
    assert (spec.counts, size) == ((), 8)


def test_an_allreduce_is_a_reducescatter_and_an_allgather_launched_as_one() -> None:
    """Each moves 500 bytes each way in 0.5 us after 3 us: 7 us, and 2 to launch."""
    pair = Fabric("pair", (Channel("only", resolve("full:2@1GB+3us"), launch_us=2.0),))
    cost = MotifCosts(pair, Counting()).of(whole("allreduce", range(2), 250), 0, 4)
    assert cost.us == 9
    assert cost.loads == ((0, Fraction(1, 9)),)


RECIPES = ["whole", "seg(2)", "spline(2)", "levels(2)", "sag", "sources(2)"]


@settings(max_examples=times(40))
@given(st.data())
def test_patterns_of_motifs_are_collectives_that_the_judge_takes(data: st.DataObject) -> None:
    names = ["allgather", "alltoall", "broadcast", "gather", "reduce", "reducescatter", "scatter"]
    name, recipe = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(RECIPES))
    group = data.draw(st.permutations(range(4)))
    try:
        motifs = motifs_of(whole(name, group, 32), recipe_of(recipe))
    except ParameterError:
        assume(False)
    ring = resolve("ring:5")
    for motif in motifs:
        spec, size = pattern_of(motif, 5, 1)
        assert violations(schedule(found(ring, spec, size))) == []
