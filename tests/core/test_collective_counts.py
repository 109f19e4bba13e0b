"""What a collective says of its classes without listing them, against the list."""

from __future__ import annotations

from math import gcd

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.nightly import times
from tests.kit.strategies import specs


@settings(max_examples=times(200), deadline=None)
@given(st.data(), st.integers(2, 6), st.integers(1, 3))
def test_classes_need_not_be_listed(data: st.DataObject, ranks: int, times_unit: int) -> None:
    spec = data.draw(specs(ranks))
    collective = spec.at(spec.unit * times_unit)
    classes = collective.classes()
    assert collective.alike == gcd(*(len(chunks) for chunks in classes.values()))
    assert collective.to_one == all(len(wanted - held) <= 1 for held, wanted in classes)
    inside = data.draw(st.sets(st.integers(0, ranks - 1)))
    assert collective.entering(inside) == sum(
        collective.amount(chunks)
        for (held, wanted), chunks in classes.items()
        if inside.isdisjoint(held) and not inside.isdisjoint(wanted)
    )
    if collective.is_transpose:
        assert set(classes) == {
            (collective.holders(s), collective.wanted(d * ranks))
            for s in range(ranks)
            for d in range(ranks)
        }
