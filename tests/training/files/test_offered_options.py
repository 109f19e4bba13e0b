"""Files of options: round trips, and errors of one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sccl.core.files.json_text import to_text
from sccl.errors import FormatError
from sccl.topo import resolve_topology
from sccl.training.files.training_plans import load_offered_options, offered_options_to_wire
from sccl.training.types.training_plan import Option, OptionMotif
from tests.kit.training_plans import HALVES, prefetching_offers


def test_options_come_back(tmp_path: Path) -> None:
    offered, file = prefetching_offers(), tmp_path / "options.json"
    file.write_text(to_text(offered_options_to_wire(offered)))
    assert load_offered_options(file, resolve_topology) == offered
    again = to_text(offered_options_to_wire(load_offered_options(file, resolve_topology)))
    assert again == file.read_text()


@pytest.mark.parametrize(
    ("way", "to", "says"),
    [
        (("ops", 0, "options"), [9], "'batch': option is 9, and there are 3, counted from 0"),
        (("ops", 1, "refused"), [1], "'gradients': refused recipe is 1, and there are 1"),
        (
            ("ops", 0, "op"),
            "gradients",
            "its operations differ from the 2 collectives of its workload",
        ),
        (("ops", 0, "options"), [], "length >= 1"),
        (("options", 2, "motifs", 0, "after"), [1], "option 2: motif 0 waits for 1, which is not"),
        (("fabric", "channels"), [], "channels"),
    ],
)
def test_bad_files_are_a_sentence(
    way: tuple[Any, ...], to: object, says: str, tmp_path: Path
) -> None:
    told = json.loads(to_text(offered_options_to_wire(prefetching_offers())))
    place = told
    for step in way[:-1]:
        place = place[step]
    place[way[-1]] = to
    file = tmp_path / "options.json"
    file.write_text(json.dumps(told))
    with pytest.raises(FormatError):  # edited, or no such shape at all
        load_offered_options(file, resolve_topology)
    del told["digest"]
    file.write_text(json.dumps(told))
    with pytest.raises(FormatError) as error:
        load_offered_options(file, resolve_topology)
    assert says in str(error.value)
    assert str(error.value).startswith(str(file))


def test_isolated_option_time_follows_the_rules_of_plans() -> None:
    motif = OptionMotif("gpu", "ring", 1000, (("links", 600), ("streams", 250)))
    assert Option("seg(4)", (motif,) * 4).isolated_ns == 4000  # no two of them have room
    half = OptionMotif("gpu", "ring", 1000, (("links", 500),))
    assert Option("seg(3)", (half,) * 3).isolated_ns == 2000
    short, behind = OptionMotif("gpu", "ring", 100, ()), replace(half, after=(1,))
    assert Option("tree", (half, half, short, behind)).isolated_ns == 2000
    assert Option("tree", (motif, motif, short)).isolated_ns == 2000  # not before the first issue
    assert Option("seg(4)", (motif,) * 4).work == {"links": 2_400_000, "streams": 1_000_000}
    assert HALVES.isolated_ns == HALVES.ns == 5000
