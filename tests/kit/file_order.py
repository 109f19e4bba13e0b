"""Order of the test files: every worker begins with slow ones, so none is left at the end.

xdist gives each of n workers an nth of the list. A worker that has finished takes files of others.

Durations are in ``durations.json``, which ``make durations`` measures again, at the speed of the
machine of the first records. A file without a row comes first and counts like the slowest.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.kit.processor_time import PROPERTY, speed_ratio

DURATIONS = Path(__file__).with_name("durations.json")
"""Processor seconds of each file, of all its tests together, and of each test of at least
:data:`_LEAST_S`."""

_LEAST_S = 0.3
"""Less than :data:`~tests.kit.markers.LONG_S`, so that ``make test`` has tests to compare speeds
by."""


@cache
def stored_durations() -> dict[str, float]:
    """Return the seconds of files and of tests, by their names, as they were last measured."""
    seconds: dict[str, float] = json.loads(DURATIONS.read_text())
    return seconds


def sort_by_duration(items: list[pytest.Item], workers: int = 1) -> list[pytest.Item]:
    """Return tests by file, the longest files first in each worker's part of the list.

    Those of a file stay together and in their order, but where a part ends.
    """
    seconds = stored_durations()
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.split("::")[0], []).append(item)
    turn = sorted(files, key=lambda file: (-seconds.get(file, math.inf), file))
    longest = max((seconds[file] for file in files if file in seconds), default=1.0)
    room = math.ceil(len(items) / workers)
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    taken = [0.0] * workers
    left: list[pytest.Item] = []
    for file in turn:
        part = taken.index(min(taken))
        if len(parts[part]) + len(files[file]) > room:
            left += files[file]
            continue
        parts[part] += files[file]
        taken[part] += seconds.get(file, longest)
    for items_of_part in parts:
        free = room - len(items_of_part)
        items_of_part.extend(left[:free])
        del left[:free]
    return [item for items_of_part in parts for item in items_of_part]


def measured_durations(report: Path, recorded: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of files and tests by a report of ``pytest --junitxml``.

    They are those of the machine of the records, so that limits keep their meaning.
    """
    tests: dict[str, float] = {}
    files: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - it is our own
        file = case.attrib["classname"].replace(".", "/") + ".py"
        spent = case.find(f"properties/property[@name='{PROPERTY}']")
        own = float(case.attrib["time"] if spent is None else spent.attrib["value"])
        files[file] = files.get(file, 0.0) + own
        tests[f"{file}::{case.attrib['name']}"] = own
    ratio = speed_ratio(tests, recorded)
    rows = {name: round(own / ratio, 1) for name, own in sorted((files | tests).items())}
    return {name: own for name, own in rows.items() if own >= _LEAST_S or name in files}


if __name__ == "__main__":
    measured = measured_durations(Path(sys.argv[1]), stored_durations())
    DURATIONS.write_text(json.dumps(measured, indent=1) + "\n")
