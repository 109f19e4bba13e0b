"""Conformance test of a foreign format: :func:`check_format`.

`tests/formats/` tests the execution of its files by format.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import partial

from sccl import formats
from sccl.core.algorithm import Algorithm
from sccl.core.collective import Collective
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.json_text import to_text
from sccl.core.files.kinds import json_schema
from sccl.core.schedule import Schedule
from sccl.errors import InputError
from sccl.formats.common.contract import Format, SizedPlan, WrittenFiles
from sccl.formats.common.program_check import run_graph
from sccl.formats.common.program_graph import GraphFault, StepProgram
from sccl.transform.retime import schedule_algorithm
from tests.kit import once
from tests.kit.easy_algorithms import frontier
from tests.kit.nightly import times
from tests.kit.processes import run_with_other_hashes

SIZE_BYTES = 3 * 2**20
COLLECTIVES = ("allgather", "allreduce", "reducescatter", "alltoall", "broadcast")


def program_faults(plan: object) -> list[GraphFault]:
    """Return the faults of a program in all modes of a call, at every speed of its blocks."""
    assert isinstance(plan, StepProgram)
    return [f for mode in plan.call_modes for f in (*mode.faults, *run_graph(mode.graph).faults)]


def check_format(name: str) -> None:
    """Check the contract of a format on a small machine and on damaged files.

    Raises:
        AssertionError: The format violates the contract.
    """
    form = formats.load(name)
    assert name == form.NAME
    assert form.ABOUT
    assert form.SOURCE
    for field in _fields(form):
        assert field["description"]
        assert "default" in field
    assert not form.sniff(b"")
    for collective in COLLECTIVES:
        check_written(form, collective)
    if form.TAKES:
        check_same_bytes(form)


def _fields(form: Format) -> list[dict[str, object]]:
    shape = json_schema(form.Options)["$defs"][form.Options.__name__]
    return list(shape["properties"].values())


def plans(form: Format, algorithms: Sequence[Algorithm]) -> list[SizedPlan]:
    """Return algorithms as the format takes them, each for sizes of its own."""
    last = len(algorithms) - 1
    return [
        SizedPlan(
            f"plan-{i}",
            convert_plan(form, found),
            4096 * i,
            None if i == last else 4095,
            SIZE_BYTES,
        )
        for i, found in enumerate(algorithms)
    ]


def convert_plan(form: Format, found: Algorithm) -> Algorithm | Schedule:
    """Return an algorithm, or its schedule where the format takes these alone."""
    if Algorithm in form.TAKES:
        return found
    return schedule_algorithm(found, SIZE_BYTES // found.collective.chunks)


def export_default(form: Format, algorithms: Sequence[Algorithm]) -> WrittenFiles:
    """Export algorithms to a format with default options."""
    try:
        return form.write(plans(form, algorithms), form.Options())
    except InputError:
        return WrittenFiles({}, "")  # some formats have no such collective, and say so


def algorithms_of(collective: str) -> list[Algorithm]:
    """Return two algorithms of a ring of four."""
    return frontier("ring:4", collective)[:2]


def check_written(form: Format, collective: str) -> None:
    """Check that files are whole, are made again the same, and are read back as the same plan."""
    found = algorithms_of(collective)
    written = export_default(form, found)
    for file, content in written.files.items():
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", file)
        assert isinstance(content, bytes)
    readable = [content for content in written.files.values() if form.sniff(content)]
    for content in readable:
        assert [n for n in formats.names() if formats.load(n).sniff(content)] == [form.NAME]
        check_read(form, content, found[0].collective)
    for content in readable[:1]:
        check_damage(form, content)


def check_read(form: Format, content: bytes, collective: Collective) -> None:
    """Check that a file is read as a plan of its collective."""
    read = form.read(content, "file")
    assert read.about
    assert read.plan is not None
    assert read.plan.collective.name == collective.name
    assert read.plan.collective.ranks == collective.ranks


def check_damage(form: Format, content: bytes) -> None:
    """Check that a truncated file is read, or rejected with one sentence."""
    draw = random.Random(7)  # noqa: S311 - the same damage every time
    step = max(1, len(content) // 100)
    damaged = [content[:end] for end in range(0, len(content), step)]
    for _ in range(times(300, by_day=150)):
        at, length = draw.randrange(len(content)), draw.choice((0, 1, 1, 1, 8, 64))
        insert = draw.choice((b"", b"\0", b"-", b"9" * 12, b'"', b"<", b"{", b"\xff", b"-1"))
        damaged.append(content[:at] + insert + content[at + length :])
    for one in damaged:
        form.sniff(one)
        assert re.fullmatch("[^\n]*", _refusal(form, one)), one


def _refusal(form: Format, content: bytes) -> str:
    """Return the error of a file, or an empty text if it is valid."""
    try:
        form.read(content, "file")
    except InputError as error:
        return str(error)
    return ""


def check_same_bytes(form: Format) -> None:
    """Check that it writes the same where sets of strings have another order."""
    texts = [[to_text(algorithm_to_wire(a)) for a in algorithms_of(c)] for c in COLLECTIVES]
    program = partial(run_with_other_hashes, "tests.programs.exported", texts)
    written = [hexadecimal(export_default(form, algorithms_of(c))) for c in COLLECTIVES]
    assert once.value("files of all formats, with other hashes", program)[form.NAME] == written


def hexadecimal(written: WrittenFiles) -> dict[str, str]:
    """Return the content of files by name, in hexadecimal."""
    return {name: content.hex() for name, content in written.files.items()}
