"""Conformance test of an importer of machines: :func:`check_importer`.

`tests/topo/` tests the content of its files by format.
"""

from __future__ import annotations

import random
import re

from sccl.core.files.json_text import parse, to_text
from sccl.core.files.shapes import TopologyWire
from sccl.core.files.topologies import topology_from_wire, topology_to_wire
from sccl.errors import InputError
from sccl.topo import importers
from sccl.topo.importers import Hints, Imported, Importer
from tests.kit.nightly import times

HINTS = Hints("machine")


def check_importer(name: str) -> None:
    """Check the contract of an importer on its own example and on damaged copies of it.

    Raises:
        AssertionError: The importer violates the contract.
    """
    importer = importers.load_importer(name)
    assert name == importer.NAME
    assert importer.ABOUT
    assert importer.SOURCE
    check_sniff(importer)
    check_imported(importer, importer.EXAMPLE)
    check_damage(importer, importer.EXAMPLE)


def check_sniff(importer: Importer) -> None:
    """Check that it knows its own example, and no other reader does."""
    mine = [
        name
        for name in importers.importer_names()
        if importers.load_importer(name).sniff(importer.EXAMPLE)
    ]
    assert mine == [importer.NAME]
    assert not importer.sniff("")


def check_imported(importer: Importer, text: str) -> Imported:
    """Check that a text gives the same bytes twice, reads back, and reports assumptions."""
    imported = importer.read(text, HINTS)
    wire = to_text(topology_to_wire(imported.topology))
    assert to_text(topology_to_wire(importer.read(text, HINTS).topology)) == wire
    assert topology_from_wire(parse(wire, TopologyWire, "m"), "m") == imported.topology
    assert imported.understood
    for line in (*imported.understood, *imported.assumed):
        assert re.fullmatch(r"\S.*\S", line)
    named = importer.read(text, Hints("machine", alpha_us=3.25)).topology
    assert named == imported.topology or {link.alpha_us for link in named.links} >= {3.25}
    return imported


def check_damage(importer: Importer, text: str) -> None:
    """Check that a damaged text is read, or rejected with one sentence.

    Damages: truncation anywhere, a missing or repeated line, replaced characters, and numbers that
    are huge, negative or missing.
    """
    lines = text.splitlines(keepends=True)
    damaged = [text[:end] for end in range(0, len(text), max(1, len(text) // 200))]
    for i, line in enumerate(lines):
        damaged += [
            "".join(lines[:i] + lines[i + 1 :]),
            "".join([*lines[: i + 1], line, *lines[i:]]),
        ]
    draw = random.Random(7)  # noqa: S311 - the same damage every time
    for _ in range(times(300, by_day=150)):
        at = draw.randrange(len(text))
        damaged.append(
            text[:at] + draw.choice("\0\t\n <>&\"'{}[]-0\ud7ff\U0001f600") + text[at + 1 :]
        )
    numbers = list(re.finditer(r"-?\d+(\.\d+)?", text))
    for found in draw.sample(numbers, min(len(numbers), 100)):
        for number in ("-1", "0", "999999999999", "1e400", "nan", ""):
            damaged.append(text[: found.start()] + number + text[found.end() :])
    for one in damaged:
        importer.sniff(one)
        assert re.fullmatch("[^\n]*", refusal(importer, one)), one


def refusal(importer: Importer, text: str) -> str:
    """Return the error of a text, or an empty text if it is valid."""
    try:
        topology_to_wire(importer.read(text, HINTS).topology)
    except InputError as error:
        return str(error)
    return ""
