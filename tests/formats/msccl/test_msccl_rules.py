"""Limits of MSCCL runtimes: accepted at the limit, and rejected one beyond it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from sccl.errors import InputError
from sccl.formats import msccl_xml
from sccl.formats.common.contract import SizedPlan
from sccl.formats.msccl.msccl_program import (
    MscclBlock,
    MscclGpu,
    MscclProgram,
    MscclStep,
    format_program,
)
from sccl.formats.msccl.msccl_program import parse_program as parsed
from sccl.formats.msccl.msccl_rules import RUNTIMES, find_violations
from tests.kit.easy_algorithms import frontier

RANKS = 40
ATTRIBUTES = {
    "name": "x", "proto": "Simple", "nchannels": "1", "nchunksperloop": "1", "ngpus": str(RANKS),
    "coll": "allreduce", "inplace": "0", "outofplace": "1", "minBytes": "0", "maxBytes": "8",
}  # fmt: skip
NOP = MscclStep("nop", ("i", 0), ("o", 0), 1, None, signals=False)
IDLE = MscclBlock(-1, -1, 0, ())


def program(*blocks: MscclBlock, **attributes: str) -> MscclProgram:
    """Return a program whose rank 0 has some thread blocks, and whose others have none."""
    channels = 1 + max((block.channel for block in blocks), default=0)
    told = {**ATTRIBUTES, "nchannels": str(channels), **attributes}
    empty = MscclGpu(1, 1, 0, ())
    return MscclProgram(told, 1, (replace(empty, blocks=blocks), *[empty] * (RANKS - 1)))


def rules(found: MscclProgram, runtime: str) -> str:
    """Return the pitfalls of a runtime."""
    content = format_program(found).encode()
    return " | ".join(find_violations(parsed(content, "file"), content, RUNTIMES[runtime]))


def blocks(many: int) -> MscclProgram:
    return program(*[IDLE] * many)


def steps(many: int) -> MscclProgram:
    return program(replace(IDLE, steps=(NOP,) * many))


def channel(number: int) -> MscclProgram:
    return program(replace(IDLE, channel=number))


def senders(many: int) -> MscclProgram:
    """Return one whose rank 0 sends to so many over one channel."""
    return program(*[replace(IDLE, send=peer) for peer in range(1, many + 1)])


def receivers(many: int) -> MscclProgram:
    return program(*[replace(IDLE, recv=peer) for peer in range(1, many + 1)])


def count(many: int) -> MscclProgram:
    """Return one with a step of so many chunks, which there are."""
    found = program(replace(IDLE, steps=(replace(NOP, type="cpy", count=many),)))
    room = replace(found.gpus[0], inputs=many, outputs=many)
    told = {**found.attributes, "nchunksperloop": str(many)}
    gpus = (room, *[MscclGpu(many, many, 0, ())] * (RANKS - 1))
    return MscclProgram(told, many, gpus)


def waits_for(block: int) -> MscclProgram:
    told = replace(IDLE, steps=(replace(NOP, signals=True),))
    waiting = replace(IDLE, steps=(replace(NOP, type="re", dep=(block, 0)),))
    return program(waiting, *[told] * block)


def elements(many: int) -> MscclProgram:
    """Return one whose rank 0 has so many elements, the file's own and its own among them."""
    full = 200
    whole, rest = divmod(many - 2, full + 1)
    last = [replace(IDLE, steps=(NOP,) * (rest - 1))] if rest else []
    return program(*[replace(IDLE, steps=(NOP,) * full)] * whole, *last)


def name(letters: int) -> MscclProgram:
    return program(name="n" * letters)


def attributes(many: int) -> MscclProgram:
    more = {f"a{i}": "0" for i in range(many - len(ATTRIBUTES))}
    return program(**more)


LIMITS: list[tuple[Callable[[int], MscclProgram], str, int, str]] = [
    (blocks, "rccl", 64, "gpu 0: 65 thread blocks, at most 64"),
    (blocks, "msccl", 216, "gpu 0: 217 thread blocks, at most 216"),
    (blocks, "azure", 1024, "gpu 0: 1025 thread blocks, at most 1024"),
    (steps, "rccl", 64, "65 steps, at most 64"),
    (steps, "azure", 64, "65 steps, at most 64"),
    (steps, "msccl", 256, "257 steps, at most 256"),
    (channel, "rccl", 31, "chan is 32, expected 0 to 31"),
    (senders, "rccl", 32, "33 thread blocks send over channel 0, at most 32"),
    (receivers, "msccl", 32, "33 thread blocks recv over channel 0, at most 32"),
    (count, "rccl", 71, "cnt is 72, expected 1 to 71"),
    (waits_for, "azure", 127, "it waits for thread block 128, at most 127 can be"),
    (elements, "msccl", 4096, "gpu 0: 4097 elements, and 4096 are read of a rank"),
    (name, "rccl", 254, "a value has over 254 characters"),
    (attributes, "azure", 16, "an element has over 16 attributes"),
]


@pytest.mark.parametrize(
    ("made", "runtime", "most", "says"), LIMITS, ids=[f"{m.__name__}-{r}" for m, r, *_ in LIMITS]
)
def test_at_its_edge_a_limit_is_kept_and_one_beyond_it_is_not(
    made: Callable[[int], MscclProgram], runtime: str, most: int, says: str
) -> None:
    assert rules(made(most), runtime) == ""
    assert says in rules(made(most + 1), runtime)


@pytest.mark.parametrize(
    ("runtime", "least", "most", "says"),
    [
        ("msccl", "7", "8", ""),
        ("msccl", "8", "8", "maxBytes is 8, which is exclusive"),
        ("msccl", "0", "0", "maxBytes is 0, which is exclusive"),
        ("azure", "8", "8", ""),
        ("azure", "9", "8", "maxBytes is 8, below minBytes"),
        ("azure", "9", "0", ""),
        ("rccl", "8", "8", ""),
        ("rccl", "9", "8", "maxBytes is 8, below minBytes"),
        ("rccl", "0", "-1", "maxBytes is '-1', expected a whole number"),
        ("rccl", "0", "9" * 19, ""),
        ("rccl", "0", "9" * 20, "expected a whole number"),
    ],
)
def test_sizes_that_no_call_has_are_reported(
    runtime: str, least: str, most: str, says: str
) -> None:
    """Only microsoft/msccl ends before ``maxBytes``. For the other runtimes 0 is all sizes."""
    found = rules(program(minBytes=least, maxBytes=most), runtime)
    assert re.search(re.escape(says), found)
    assert bool(says) == bool(found)


@pytest.mark.parametrize(
    ("least", "says"), [(2**27 - 1, ""), (2**27, "maxBytes is 134217728, which is exclusive")]
)
def test_without_most_bytes_msccl_serves_128_mib(least: int, says: str) -> None:
    found = program(minBytes=str(least))
    told = {name: value for name, value in found.attributes.items() if name != "maxBytes"}
    wrong = rules(replace(found, attributes=told), "msccl")
    assert re.search(re.escape(says), wrong)
    assert bool(says) == bool(wrong)


@pytest.mark.parametrize("dialect", msccl_xml.Dialect)
def test_sizes_of_plans_meet_without_a_gap(dialect: msccl_xml.Dialect) -> None:
    """Those of an allgather count all ranks' buffers, up to the last byte before the next plan."""
    algorithm = frontier("ring:4", "allgather")[0]
    options = msccl_xml.MscclOptions(dialect=dialect)
    plans = [SizedPlan("a", algorithm, 0, 99), SizedPlan("b", algorithm, 100)]
    files = msccl_xml.write(plans, options).files
    ranges = {name[0]: _range(content) for name, content in files.items()}
    assert ranges["a"] == (0, 400 if dialect == "msccl" else 399)
    assert ranges["b"][0] == 400
    assert ranges["b"][1] > 400 if dialect == "msccl" else ranges["b"][1] == 0


def _range(content: bytes) -> tuple[int, int]:
    told = parsed(content, "file").attributes
    return int(told["minBytes"]), int(told["maxBytes"])


@pytest.mark.parametrize("dialect", ["azure", "rccl"])
def test_plan_for_no_bytes_would_be_for_all(dialect: str) -> None:
    algorithm = frontier("ring:4", "allreduce")[0]
    options = msccl_xml.MscclOptions(dialect=msccl_xml.Dialect(dialect))
    assert msccl_xml.write([SizedPlan("a", algorithm, 0, 1)], options).files
    with pytest.raises(InputError, match="0 bytes only, and the format uses 0 for all sizes"):
        msccl_xml.write([SizedPlan("a", algorithm, 0, 0)], options)
