"""Time-varying bandwidth: its files, and the rates of links over time."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.files.json_text import to_text
from sccl.errors import FormatError, InputError, TopologyError
from sccl.synth.network.bandwidth_files import (
    bandwidth_from_text,
    bandwidth_to_wire,
    load_bandwidth,
)
from sccl.synth.network.variable_bandwidth import BandwidthInterval, VariableBandwidth
from sccl.topo import resolve_topology
from tests.kit.strategies import bandwidths

RING = resolve_topology("ring:4")


def least(bandwidth: VariableBandwidth, edge: tuple[int, int], at: Fraction) -> Fraction:
    """Return the fraction that a link has at a time, by looking at every interval."""
    found = [
        one.fraction
        for one in bandwidth.intervals
        if (not one.links or edge in one.links)
        and one.from_us <= at
        and (one.to_us is None or at < one.to_us)
    ]
    return min(found, default=Fraction(1))


@given(bandwidths(RING), st.integers(0, 60))
def test_links_have_the_least_that_is_said_of_a_time(
    bandwidth: VariableBandwidth, half_us: int
) -> None:
    at = Fraction(half_us, 2)
    for edge in sorted(RING.edges):
        steps = bandwidth.link_fractions(edge)
        assert steps[0][0] == 0
        assert [time for time, _ in steps] == sorted({time for time, _ in steps})
        assert [value for time, value in steps if time <= at][-1] == least(bandwidth, edge, at)


@given(bandwidths(RING), st.integers(1, 60))
def test_means_are_those_of_short_times(bandwidth: VariableBandwidth, until_us: int) -> None:
    """Intervals of this strategy begin and end at whole microseconds."""
    parts = [least(bandwidth, (0, 1), Fraction(at)) for at in range(until_us)]
    assert bandwidth.mean_fraction((0, 1), Fraction(until_us)) == sum(parts) / Fraction(until_us)


@given(bandwidths(RING))
def test_files_come_back(bandwidth: VariableBandwidth) -> None:
    text = to_text(bandwidth_to_wire(bandwidth))
    assert bandwidth_from_text(text, bandwidth.name) == bandwidth


def test_numbers_are_the_decimals_that_are_written(tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    file.write_text('{"intervals": [{"from_us": 0.1, "fraction": 0.3}]}')
    said = load_bandwidth(file)
    assert said == VariableBandwidth(
        (BandwidthInterval((), Fraction(1, 10), None, Fraction(3, 10)),), str(file)
    )


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        ('"from_us": 1, "to_us": 2, "fraction": 1.5', r"fraction is 1.5, .* verification"),
        ('"from_us": 1, "to_us": 2, "fraction": -1', "fraction is -1, expected 0 to 1$"),
        ('"from_us": 2, "to_us": 2, "fraction": 0', "it lasts from 2 to 2 us, expected a begin"),
        ('"from_us": -1, "fraction": 0', "it lasts from -1 to 0 us"),
        ('"from_us": 1, "to_us": 1e300, "fraction": 0', "a later end of at most 1e"),
        ('"from_us": 1, "part": 0', "unknown field `part`"),
        ('"from_us": 1', "missing required field `fraction`"),
        ('"links": [[0]], "from_us": 1, "fraction": 0', "Expected `array` of length 2"),
    ],
)
def test_contradictory_bandwidth_is_rejected(interval: str, says: str) -> None:
    with pytest.raises(FormatError, match=says) as error:
        bandwidth_from_text(f'{{"intervals": [{{{interval}}}]}}', "b.json")
    assert str(error.value).startswith("b.json")
    assert "\n" not in str(error.value)


def test_links_that_a_machine_lacks_are_named() -> None:
    said = VariableBandwidth((BandwidthInterval(((0, 2),), Fraction(0), None, Fraction(0)),), "b")
    with pytest.raises(TopologyError, match=r"b, interval 0: link 0->2 is not a link of .*ring:4"):
        said.check_fits(RING)


def test_file_of_nothing_is_rejected() -> None:
    with pytest.raises(InputError, match="length >= 1"):
        bandwidth_from_text('{"intervals": []}', "b.json")
