"""Chunk classes of collectives, compared with the explicit list."""

from __future__ import annotations

from math import gcd

from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.collective import (
    ALL,
    SCATTERED,
    TRANSPOSE,
    Collective,
    Relation,
    root_relation,
)
from tests.kit.nightly import times
from tests.kit.strategies import specs


@settings(max_examples=times(200), deadline=None)
@given(st.data(), st.integers(2, 6), st.integers(1, 3))
def test_classes_need_not_be_listed(data: st.DataObject, ranks: int, times_unit: int) -> None:
    spec = data.draw(specs(ranks))
    collective = spec.at(spec.unit * times_unit)
    classes = collective.chunk_classes()
    assert collective.class_size_divisor == gcd(*(len(chunks) for chunks in classes.values()))
    assert collective.is_unicast == all(len(wanted - held) <= 1 for held, wanted in classes)
    inside = data.draw(st.sets(st.integers(0, ranks - 1)))
    assert collective.amount_entering(inside) == sum(
        collective.amount(chunks)
        for (held, wanted), chunks in classes.items()
        if inside.isdisjoint(held) and not inside.isdisjoint(wanted)
    )
    if collective.is_alltoall:
        assert set(classes) == {
            (collective.holders(s), collective.destinations(d * ranks))
            for s in range(ranks)
            for d in range(ranks)
        }


@settings(max_examples=times(200), deadline=None)
@given(
    st.integers(2, 4),
    st.integers(1, 20),
    st.sampled_from([ALL, SCATTERED, TRANSPOSE, root_relation(1)]),
    st.sampled_from([ALL, SCATTERED, TRANSPOSE, root_relation(0)]),
    st.data(),
)
def test_nor_where_chunks_do_not_come_out_even(
    ranks: int, chunks: int, pre: Relation, post: Relation, data: st.DataObject
) -> None:
    """Any relations with any number of chunks, as files may have them."""
    collective = Collective("any", ranks, 1, chunks, pre, post)
    classes = collective.chunk_classes()
    sizes = {len(own) for own in classes.values()}
    assert collective.class_size_divisor == gcd(*sizes)
    assert collective.is_unicast == all(len(wanted - held) <= 1 for held, wanted in classes)
    assert not collective.has_equal_classes or len(sizes) == 1
    inside = data.draw(st.sets(st.integers(0, ranks - 1)))
    assert collective.amount_entering(inside) == sum(
        len(own)
        for (held, wanted), own in classes.items()
        if inside.isdisjoint(held) and not inside.isdisjoint(wanted)
    )
    kinds = (pre.kind, post.kind)
    whole = len(sizes) == 1 and len(classes) == ranks ** (2 if post == TRANSPOSE else 1)
    for told, wanted in ((collective.is_alltoall, TRANSPOSE), (collective.is_allgather, ALL)):
        assert told == (kinds == (SCATTERED.kind, wanted.kind) and whole)
