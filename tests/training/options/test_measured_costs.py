"""Tables of measured costs: interpolation, extrapolation, and invalid tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.errors import FormatError, ParameterError
from sccl.training.fabric_names import resolve_fabric
from sccl.training.motifs import apply_recipe, build_collective_motif, parse_recipe
from sccl.training.options.carriers import CARRIERS
from sccl.training.options.measured_costs import CostTable, parse_cost_table
from sccl.training.options.motif_costs import MotifCosts
from sccl.training.options.option_catalog import OptionSettings, find_options
from tests.kit.nightly import times
from tests.kit.workloads import calling, comm

HEAD = "collective,option,ranks,bytes,us\n"

TABLE = (
    HEAD
    + """\
allreduce,gpu ring,8,1024,10
allreduce, gpu  ring ,8,4096,20.0
allreduce,gpu ring,8,65536,1.6e2

alltoall,gpu direct,8,8000,50
"""
)


def table(text: str = TABLE) -> CostTable:
    return parse_cost_table(text, "c.csv")


@pytest.mark.parametrize(
    ("size", "us"),
    [(1024, 10), (4096, 20), (2048, 200**0.5), (512, 10 / 2**0.5), (131072, 160 * 8**0.25)],
)
def test_times_are_interpolated_along_logarithms(size: int, us: float) -> None:
    motif = build_collective_motif("allreduce", range(8), size // 4)
    assert table().time_us(motif, "gpu", "ring", 4) == pytest.approx(us)


def test_one_row_is_never_undercut() -> None:
    for count, us in ((4000, 50), (8000, 50), (12000, 75)):
        motif = build_collective_motif("alltoall", range(8), count)
        assert table().time_us(motif, "gpu", "direct", 1) == pytest.approx(us)


def test_extrapolation_beyond_twice_is_rejected() -> None:
    assert (
        table().time_us(build_collective_motif("allreduce", range(8), 512), "gpu", "ring", 1)
        is not None
    )
    for size in (511, 131073):
        with pytest.raises(ParameterError) as error:
            table().time_us(build_collective_motif("allreduce", range(8), size), "gpu", "ring", 1)
        assert str(error.value) == (
            "c.csv has allreduce of 8 ranks with 'gpu ring' for 1024 to 65536 bytes, and "
            f"{size} are asked for, more than twice as far: measure it for that, too"
        )


def test_missing_costs_are_modelled() -> None:
    known = table()
    assert (
        known.time_us(build_collective_motif("allreduce", range(4), 1024), "gpu", "ring", 4) is None
    )
    assert (
        known.time_us(build_collective_motif("allreduce", range(8), 1024), "cpu", "ring", 4) is None
    )
    part = apply_recipe(
        build_collective_motif("alltoall", range(8), 8000), parse_recipe("spline(2)")
    )[0]
    assert known.time_us(part, "gpu", "direct", 1) is None


def test_measured_times_stand_in_for_those_that_are_reckoned() -> None:
    fabric = resolve_fabric("hgx2")
    motif, ring = build_collective_motif("allreduce", range(8), 1024), CARRIERS[1]
    cost = MotifCosts(fabric, table()).carrier_cost(motif, 0, ring, 4)
    plain = MotifCosts(fabric).carrier_cost(motif, 0, ring, 4)
    assert cost.ns == 20000
    assert plain.ns != 20000
    busy = plain.loads[:16] * plain.ns / 1000
    assert (abs(cost.loads[:16] * cost.ns / 1000 - busy) <= 40).all()


def test_options_are_of_measured_times_and_say_what_was_not_measured() -> None:
    step = calling(8, comm("ar", "allreduce", range(8), 1024))
    asked = OptionSettings(recipes=("whole",), measured=table())
    carried = {
        (motif.channel, motif.carrier): option.ns
        for option in find_options(step, resolve_fabric("hgx2"), asked).by_collective["ar"]
        for motif in option.motifs
    }
    assert carried.get(("gpu", "ring"), 20000) == 20000
    everything = "".join(
        f"allreduce,{channel} {carrier.name},8,64,10\n"
        for channel in ("gpu", "cpu")
        for carrier in CARRIERS
    )
    asked = OptionSettings(recipes=("whole",), measured=table(HEAD + everything))
    with pytest.raises(ParameterError) as error:
        find_options(step, resolve_fabric("hgx2"), asked)
    told = "operation 'ar', allreduce of 8 ranks, has no option: whole on gpu: c.csv has allreduce"
    assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "c.csv, line 1: columns are missing, expected collective,option,ranks,bytes,us"),
        ("a,b\n", "c.csv, line 1: columns are a, b, expected collective,option,ranks,bytes,us"),
        (HEAD, "c.csv has no times: give a line for each, collective,option,ranks,bytes,us"),
        (HEAD + "allreduce,gpu ring,8,64\n", "c.csv, line 2: it has 4 fields, expected 5"),
        (
            HEAD + "allreduce,ring,8,64,1\n",
            (
                "c.csv, line 2: option is 'ring', expected a channel and its carrier, such as "
                "'gpu ring'"
            ),
        ),
        (
            HEAD + "allreduce,gpu ring,1,64,1\n",
            "c.csv, line 2: ranks is '1', expected a whole number from 2 on",
        ),
        (
            HEAD + "allreduce,gpu ring,8,-64,1\n",
            "c.csv, line 2: bytes is '-64', expected a whole number from 1 on",
        ),
        (
            HEAD + "allreduce,gpu ring,8,64,nan\n",
            "c.csv, line 2: us is 'nan', expected microseconds, above 0, to 1e+12",
        ),
        (
            HEAD + "allreduce,gpu ring,8,64,1\nallreduce,gpu ring,8,64,2\n",
            (
                "c.csv, line 3: allreduce of 8 ranks with 'gpu ring' and 64 bytes is there twice, "
                "with other times: give it once"
            ),
        ),
    ],
)
def test_invalid_cost_table_is_reported(text: str, wrong: str) -> None:
    with pytest.raises(FormatError) as error:
        table(text)
    assert str(error.value) == wrong


@pytest.mark.parametrize("option", ["gpu rign", "foo ring", "gpu ring beside"])
def test_options_that_there_are_not_are_reported(option: str) -> None:
    fabric = resolve_fabric("hgx2")
    MotifCosts(fabric, table(f"{HEAD}allreduce,gpu ring beside direct of alltoall,8,4096,7.5\n"))
    with pytest.raises(ParameterError, match=f"c.csv: allreduce of 8 ranks has option '{option}'"):
        MotifCosts(fabric, table(f"{HEAD}allreduce,{option},8,4096,7.5\n"))


def test_unknown_collectives_are_reported() -> None:
    with pytest.raises(FormatError, match=r"c\.csv, line 2: .*allredcue.*allreduce"):
        table(HEAD + "allredcue,gpu ring,8,64,1\n")


@settings(max_examples=times(100))
@given(st.text(max_size=80))
def test_any_text_is_a_table_or_a_sentence(text: str) -> None:
    for content in (text, HEAD + text):
        told = ""
        try:
            assert table(content).rows
        except FormatError as error:
            told = str(error)
        assert not told or told.startswith("c.csv")


def test_digests_are_of_times_and_not_of_how_they_stand() -> None:
    rows = ["allreduce,gpu ring,8,1000,10", "allreduce,gpu ring,8,4000,40", "alltoall,a b,8,1,2"]
    other = [rows[2], " allreduce , gpu  ring,8,4000,4e1", "", rows[0]]
    digests = {table(HEAD + "\n".join(own)).digest for own in (rows, other)}
    assert len(digests) == 1
    assert table(HEAD + "\n".join(rows[:2])).digest not in digests
    assert table(HEAD + "\n".join(rows).replace("40", "41")).digest not in digests
