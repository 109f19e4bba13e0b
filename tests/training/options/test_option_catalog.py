"""Options of collectives: their costs, the kept ones, and errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.errors import InputError, ParameterError
from sccl.training.fabric_names import resolve_fabric
from sccl.training.motifs.collective_motif import NAMES
from sccl.training.options.candidate_options import non_dominated, select_candidates
from sccl.training.options.option_catalog import JobOptions, OptionSettings, find_options
from sccl.training.options.option_enumeration import OptionEnumerator
from sccl.training.types.training_plan import FULL_LOAD, Option
from sccl.training.types.workload_ops import CommOp
from tests.kit.nightly import times
from tests.kit.workloads import calling, comm

HGX = resolve_fabric("hgx2x4")
MB = 2**18
"""Elements of a MiB."""


def of(*ops: CommOp, settings: OptionSettings | None = None, ranks: int = 32) -> JobOptions:
    return find_options(calling(ranks, *ops), HGX, settings)


def recipes(options: tuple[Option, ...]) -> set[str]:
    return {option.recipe for option in options}


def test_all_collectives_have_options_of_which_the_default_is_the_whole() -> None:
    ops = [comm(name, name, range(32), 32 * MB) for name in NAMES]
    found = of(*ops)
    assert list(found.by_collective) == list(NAMES)
    for options in found.by_collective.values():
        assert 2 <= len(options) <= 12
        assert (options[0].recipe, options[0].bitwise) == ("whole", True)
        assert {motif.channel for motif in options[0].motifs} == {"gpu"}
        assert len({motif.channel for o in options for motif in o.motifs}) == 2
        for option in options:
            for number, motif in enumerate(option.motifs):
                assert motif.ns > 0
                assert list(motif.loads) == sorted(motif.loads)
                assert all(1 <= load <= FULL_LOAD for _, load in motif.loads)
                assert {name for name, _ in motif.loads} <= set(found.resources)
                assert all(0 <= k < number for k in motif.after)


def test_groups_that_span_nodes_have_levels_and_trees() -> None:
    found = of(comm("ar", "allreduce", range(32), 64 * MB))
    assert {"levels(8)", "levels(8).seg(2)"} <= recipes(found.by_collective["ar"])
    little = of(comm("ar", "allreduce", range(32), 2**12), settings=OptionSettings(max_options=99))
    assert {"tree(8)", "ring"} <= recipes(little.by_collective["ar"])
    strided = of(comm("ar", "allreduce", range(0, 32, 8), 64 * MB))
    assert not any("levels" in name for name in recipes(strided.by_collective["ar"]))


def test_levels_are_faster_than_the_whole_across_nodes() -> None:
    whole, *others = of(comm("ar", "allreduce", range(32), 64 * MB)).by_collective["ar"]
    best = min((o for o in others if o.recipe.startswith("levels(8)")), key=lambda o: o.ns)
    assert best.ns < whole.ns


def test_alike_ones_share_their_options() -> None:
    ops = [comm(str(k), "allgather", range(8), 8 * MB) for k in range(3)]
    other = comm("other", "allgather", range(8), 16 * MB)
    found = of(*ops, other)
    assert found.by_collective["0"] is found.by_collective["1"] is found.by_collective["2"]
    assert found.by_collective["other"] is not found.by_collective["0"]


def test_groups_next_to_one_another_load_what_each_does() -> None:
    """By hosts four groups take the time of one on one node. Across nodes they share uplinks."""
    nodes = [tuple(range(8 * k, 8 * k + 8)) for k in range(4)]
    one = of(comm("ag", "allgather", nodes[0], 8 * MB)).by_collective["ag"]
    four = of(comm("ag", "allgather", nodes[0], 8 * MB, beside=tuple(nodes[1:]))).by_collective[
        "ag"
    ]
    assert [(o.recipe, o.ns) for o in one] == [(o.recipe, o.ns) for o in four]
    rows = [tuple(range(k, 32, 8)) for k in range(8)]
    cpu = OptionSettings(recipes=("whole",))
    alone = of(comm("ag", "allgather", rows[0], 8 * MB), settings=cpu).by_collective["ag"]
    all_of_them = comm("ag", "allgather", rows[0], 8 * MB, beside=tuple(rows[1:]))
    together = of(all_of_them, settings=cpu).by_collective["ag"]
    by_host = [
        min(o.ns for o in options if o.motifs[0].channel == "cpu") for options in (alone, together)
    ]
    assert 3.5 < by_host[1] / by_host[0] < 4  # 8 times 25 GB/s are wanted, 12.5 were


def test_links_of_two_stages_are_different_resources() -> None:
    first = comm("first", "allreduce", range(16), 64 * MB)
    second = comm("second", "allreduce", range(16, 32), 64 * MB)
    found = of(first, second, settings=OptionSettings(recipes=("whole",)))
    used = [
        {name for o in found.by_collective[op.id] for m in o.motifs for name, _ in m.loads}
        for op in (first, second)
    ]
    assert used[0]
    assert not used[0] & used[1]


def test_empty_collective_takes_its_launch() -> None:
    found = of(
        comm("alone", "allreduce", [3], MB),
        comm("empty", "broadcast", range(8), 0),
        comm("own", "alltoall", range(2), 5, splits=((5, 0), (0, 3))),
    )
    for options in found.by_collective.values():
        (option,) = options
        (motif,) = option.motifs
        assert motif.ns == 5000
        assert all(name.startswith("gpu: streams") for name, _ in motif.loads)


@settings(max_examples=times(15))
@given(st.data())
def test_same_input_same_options(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    group = data.draw(st.permutations(range(16)))[: data.draw(st.integers(1, 9))]
    count = data.draw(st.integers(0, 10**6)) * len(group)
    splits: tuple[tuple[int, ...], ...] = ()
    if name == "alltoall" and data.draw(st.booleans()):
        row = st.lists(st.integers(0, 10**6), min_size=len(group), max_size=len(group)).map(tuple)
        rows = st.lists(row, min_size=len(group), max_size=len(group)).map(tuple)
        splits = data.draw(rows)
        count = max(map(sum, splits))
    op = comm("op", name, group, count, splits=splits)
    assert of(op) == of(op)
    assert of(op).by_collective["op"][0].recipe == "whole"


def test_none_is_beaten_by_another_of_the_same_motifs() -> None:
    finder = OptionEnumerator(HGX, OptionSettings())
    for name in ("allreduce", "alltoall", "allgather", "broadcast"):
        every = finder.enumerate_options(comm(name, name, range(32), 32 * MB))
        chosen = select_candidates(non_dominated(every), 99)
        assert chosen[0] is every[0]
        for one in chosen[1:]:
            for other in every:
                if other is not one and other.after == one.after and other.ns <= one.ns:
                    assert (other.work > one.work).any() or (
                        other.ns == one.ns and (other.work == one.work).all()
                    )
        assert len(select_candidates(non_dominated(every), 5)) == 5


def test_bitwise_keeps_the_order_of_the_default() -> None:
    op = comm("ar", "allreduce", range(32), 64 * MB)
    found = of(op, settings=OptionSettings(bitwise=True)).by_collective["ar"]
    assert recipes(found) >= {"whole", "seg(2)"}
    assert not any("levels" in o.recipe or "tree" in o.recipe for o in found)
    assert {o.motifs[0].carrier for o in found} == {found[0].motifs[0].carrier}
    largest = of(replace(op, reduce="max"), settings=OptionSettings(bitwise=True)).by_collective[
        "ar"
    ]
    assert any("levels" in o.recipe for o in largest)
    plain = of(op).by_collective["ar"]
    assert {o.recipe for o in plain if not o.bitwise} >= {"levels(8)"}


def test_recipes_are_as_told() -> None:
    told = OptionSettings(recipes=("spline(4)", "lanes(gpu:3, cpu:1)"))
    found = of(comm("a", "alltoall", range(32), 32 * MB), settings=told).by_collective["a"]
    assert found[0].recipe == "spline(4)"
    assert recipes(found) == {"spline(4)", "lanes(gpu:3, cpu:1)"}
    lanes = next(o for o in found if "lanes" in o.recipe)
    assert [m.channel for m in lanes.motifs] == ["gpu", "cpu"]


def test_groups_outside_are_rejected() -> None:
    op = comm("ar", "allreduce", range(40), 40)
    with pytest.raises(ParameterError) as error:
        of(op, ranks=40)
    assert str(error.value) == (
        "operation 'ar': rank 39 is in its group, and fabric 'hgx2x4' has 32 ranks, 0 to 31: give "
        "a larger fabric"
    )


def test_operation_without_option_says_why() -> None:
    told = OptionSettings(recipes=("seg(4)", "tree(2)"), max_motifs=2)
    with pytest.raises(InputError) as error:
        of(comm("ag", "allgather", range(8), 8 * MB), settings=told)
    assert str(error.value) == (
        "operation 'ag', allgather of 8 ranks, has no option: seg(4): it makes 4 motifs, expected "
        "2 at the most; tree(2): tree applies to allreduce, not to allgather"
    )


@pytest.mark.parametrize(
    ("group", "levels"),
    [
        ((0, 1, 2, 8, 9, 10, 11, 12), "levels(3+5)"),
        ((0, 1, 2, 8, 9), "levels(3)"),
        (range(16), "levels(8)"),
        ((0, 8, 1, 9), ""),
        ((0, 1, 8, 2, 3), ""),
    ],
)
def test_levels_are_of_what_a_group_has_on_each_node(group: Sequence[int], levels: str) -> None:
    fabric = resolve_fabric("hgx2x2")
    for name in ("allgather", "allreduce", "alltoall", "reducescatter"):
        op = comm("x", name, group, 2**20 * len(group) * (8 if name == "allgather" else 1))
        options = find_options(
            calling(16, op), fabric, OptionSettings(max_options=100)
        ).by_collective["x"]
        found = {o.recipe for o in options if o.recipe.startswith("levels")}
        assert {recipe.split(".")[0] for recipe in found} <= {levels}, name
        assert bool(found) == bool(levels)
