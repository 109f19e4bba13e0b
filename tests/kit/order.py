"""The turn of each file of tests: the longest first, so that no worker is left with one at the end.

How long they take is data, in ``durations.json``; ``make durations`` measures it anew. A file that
has no row yet comes first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds by file, of all its tests together."""


def known() -> dict[str, int]:
    """Return the seconds of each file as they were last measured."""
    seconds: dict[str, int] = json.loads(DURATIONS.read_text())
    return seconds


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests by file, the longest file first; those of a file stay in their order."""
    seconds = known()
    files = {item.nodeid.split("::")[0] for item in items}
    turn = sorted(files, key=lambda file: (-seconds.get(file, float("inf")), file))
    place = {file: number for number, file in enumerate(turn)}
    return sorted(items, key=lambda item: place[item.nodeid.split("::")[0]])


def durations(report: Path) -> dict[str, int]:
    """Return the whole seconds of each file by a report of ``pytest --junitxml``."""
    seconds: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - it is our own
        file = case.attrib["classname"].replace(".", "/") + ".py"
        seconds[file] = seconds.get(file, 0.0) + float(case.attrib["time"])
    return {file: round(seconds[file]) for file in sorted(seconds)}


if __name__ == "__main__":
    DURATIONS.write_text(json.dumps(durations(Path(sys.argv[1])), indent=1) + "\n")
