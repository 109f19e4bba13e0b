"""The turn of each file of tests: the longest first, so that no worker is left with one at the end.

How long they take is data, in ``durations.json``; ``make durations`` measures it anew. A file that
has no row yet comes first.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds of each file, of all its tests together, and of each test of a second or more."""


@cache
def known() -> dict[str, float]:
    """Return the seconds of files and of tests, by their names, as they were last measured."""
    seconds: dict[str, float] = json.loads(DURATIONS.read_text())
    return seconds


def in_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests by file, the longest file first; those of a file stay in their order."""
    seconds = known()
    files = {item.nodeid.split("::")[0] for item in items}
    turn = sorted(files, key=lambda file: (-seconds.get(file, float("inf")), file))
    place = {file: number for number, file in enumerate(turn)}
    return sorted(items, key=lambda item: place[item.nodeid.split("::")[0]])


def durations(report: Path) -> dict[str, float]:
    """Return the seconds of files and tests by a report of ``pytest --junitxml``."""
    seconds: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - it is our own
        file = case.attrib["classname"].replace(".", "/") + ".py"
        own = float(case.attrib["time"])
        seconds[file] = seconds.get(file, 0.0) + own
        seconds[f"{file}::{case.attrib['name']}"] = own
    kept = [name for name in sorted(seconds) if seconds[name] >= 1 or "::" not in name]
    return {name: round(seconds[name], 1) for name in kept}


if __name__ == "__main__":
    DURATIONS.write_text(json.dumps(durations(Path(sys.argv[1])), indent=1) + "\n")
