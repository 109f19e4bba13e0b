"""Rules one after the other, on groups of any sizes and on several collectives as one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.errors import InputError, ParameterError
from sccl.training.motifs import (
    apply_recipe,
    build_collective_motif,
    find_motif_fault,
    merge_collectives,
    parse_recipe,
)
from sccl.training.motifs.collective_motif import NAMES, total_elements
from sccl.training.types.motif import Motif, MotifMove
from tests.kit.motif_buffers import DTYPES, executed, held, is_done
from tests.kit.nightly import times


def sizes_of(data: st.DataObject, ranks: int) -> str:
    """Return sizes of groups that come to so many ranks."""
    cuts = data.draw(st.sets(st.integers(1, ranks - 1), min_size=1, max_size=4))
    ends = [0, *sorted(cuts), ranks]
    return "+".join(str(b - a) for a, b in pairwise(ends))


def drawn(data: st.DataObject, ranks: int) -> str:
    """Return a rule of any kind."""
    name = data.draw(
        st.sampled_from(
            ["levels", "levels", "tree", "seg", "spline", "sources", "lanes", "ring", "sag"]
        )
    )
    if name in {"ring", "sag"}:
        return name
    if name == "lanes":
        return f"lanes(a:{data.draw(st.integers(1, 3))}, b:1)"
    if name in {"levels", "tree"} and data.draw(st.booleans()):
        more = f", {data.draw(st.integers(2, 3))}" if name == "levels" else ""
        return f"{name}({sizes_of(data, ranks)}{more if data.draw(st.booleans()) else ''})"
    return f"{name}({data.draw(st.integers(2, 5))})"


def composed(data: st.DataObject, of: Motif | Sequence[Motif], ranks: int) -> tuple[Motif, ...]:
    """Draw the result of some rules, each of which is kept if it applies to the previous result."""
    recipe = "whole" if isinstance(of, Motif) else "merge"
    made = apply_recipe(of, parse_recipe(recipe))
    for _ in range(data.draw(st.integers(1, 4))):
        rule = drawn(data, ranks)
        longer = rule if recipe == "whole" else f"{recipe}.{rule}"
        try:
            made = apply_recipe(of, parse_recipe(longer))
        except ParameterError:
            continue
        recipe = longer
    return made


@settings(max_examples=times(200, by_day=100), deadline=None)
@given(st.data())
def test_any_composition_performs_its_collective(data: st.DataObject) -> None:
    name, ranks = data.draw(st.sampled_from(NAMES)), data.draw(st.integers(2, 9))
    counts = data.draw(st.lists(st.integers(1, 60), min_size=1, max_size=3))
    dtype, seed = data.draw(st.sampled_from(DTYPES)), data.draw(st.integers(0, 2**32 - 1))
    wholes = [build_collective_motif(name, range(ranks), count) for count in counts]
    motifs = composed(data, wholes[0] if len(wholes) == 1 else wholes, ranks)
    rng = np.random.default_rng(seed)
    before = [held(name, ranks, count, dtype, rng) for count in counts]
    rows = {rank: np.concatenate([one[rank] for one in before]) for rank in range(ranks)}
    after = executed(motifs, rows, random.Random(seed))  # noqa: S311 - no secret
    first = 0
    for one, count in zip(before, counts, strict=True):
        last = first + len(one[0])
        own = {rank: row[first:last] for rank, row in after.items()}
        assert is_done(name, one, own, count)
        first = last


@settings(max_examples=times(60))
@given(st.data())
def test_several_as_one_move_what_each_of_them_does(data: st.DataObject) -> None:
    name, ranks = data.draw(st.sampled_from(NAMES)), data.draw(st.integers(2, 6))
    wholes = []
    for _ in range(data.draw(st.integers(1, 4))):
        splits: list[list[int]] = []
        if name == "alltoall" and data.draw(st.booleans()):
            row = st.lists(st.integers(0, 4), min_size=ranks, max_size=ranks)
            drawn_rows = data.draw(st.lists(row, min_size=ranks, max_size=ranks))
            splits = [[1, *own[1:]] for own in drawn_rows]
        wholes.append(
            build_collective_motif(name, range(ranks), data.draw(st.integers(1, 40)), splits=splits)
        )
    one = merge_collectives(wholes)
    assert total_elements(one) == sum(map(total_elements, wholes))
    first, wanted = 0, set()
    for own in wholes:
        wanted |= {cell for move in own.moves() for cell in cells(move, first)}
        first += total_elements(own)
    assert {cell for move in one.moves() for cell in cells(move, 0)} == wanted
    assert find_motif_fault(wholes, (one,)) == ""
    if len(wholes) > 1 and any(move.span for move in wholes[-1].moves()):
        assert find_motif_fault(wholes, (merge_collectives(wholes[:-1]),)) != ""  # one is left out


def cells(move: MotifMove, first: int) -> list[tuple[object, ...]]:
    """Return each element that moves, from whom and to whom."""
    return [(first + k, move.sources, move.targets) for k in range(*move.span)]


@pytest.mark.parametrize(
    ("of", "recipe", "message"),
    [
        (["allreduce", "allreduce"], "ring", "there are 2: begin the recipe with merge"),
        (["allreduce", "reduce"], "merge", "collectives of one kind with the same ranks"),
        (["allreduce", "allreduce"], "merge.merge", "merge is the first rule of a recipe"),
        (["allreduce", "allreduce"], "merge(2)", "expected merge, without parameters"),
    ],
)
def test_unmergeable_collectives_are_rejected(of: list[str], recipe: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        apply_recipe(
            [build_collective_motif(name, range(4), 8) for name in of], parse_recipe(recipe)
        )


def test_one_alone_is_not_merged() -> None:
    with pytest.raises(InputError, match="of several collectives: here it is one alone"):
        apply_recipe(build_collective_motif("allreduce", range(4), 8), parse_recipe("merge"))


def test_alltoalls_of_too_many_cells_are_not_merged() -> None:
    with pytest.raises(ParameterError, match="4 alltoalls of 600 ranks have 5760000 cells as one"):
        merge_collectives([build_collective_motif("alltoall", range(600), 600)] * 4)
