"""The files of a project for each target, as JSON, of algorithms whose files are read as JSON."""

from __future__ import annotations

import json
import sys

from sccl.codegen.project_writer import generate, targets
from sccl.core.algorithm import Algorithm
from sccl.core.files.algorithms import algorithm_from_wire
from sccl.core.files.json_text import parse
from sccl.core.files.shapes import AlgorithmWire


def algorithm(text: str) -> Algorithm:
    """Return the algorithm of a file."""
    found = algorithm_from_wire(parse(text, AlgorithmWire, "stdin"), "stdin")
    assert isinstance(found, Algorithm)
    return found


if __name__ == "__main__":
    given = [algorithm(text) for text in json.load(sys.stdin)]
    sys.stdout.write(json.dumps({name: generate(given, name) for name in targets()}))
