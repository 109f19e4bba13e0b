"""Sample files of other tools next to the project, for tests of readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sccl.topo import importers
from sccl.topo.importers import Hints, Imported
from tests.conftest import NO_SHARED
from tests.kit.paths import SHARED


def sample(path: str) -> Path:
    """Return a sample's path, and skip the test without samples."""
    file = SHARED / "data" / "samples" / path
    if not file.exists():
        pytest.skip(NO_SHARED)
    return file


def expected(folder: str) -> dict[str, dict[str, Any]]:
    """Return the known content of each sample of a folder, or one without a name for a skip."""
    file = SHARED / "data" / "samples" / folder / "expected.json"
    return json.loads(file.read_text()) if file.exists() else {"": {}}


def imported(path: str, reader: str, hints: Hints | None = None) -> Imported:
    """Return the content of a sample, read with the detected format.

    Raises:
        AssertionError: Another reader claims the sample.
    """
    file = sample(path)
    text = importers.decode_text(file.read_bytes(), file.name)
    importer, found = importers.read_machine(text, hints or Hints(file.stem), file.name)
    assert reader == importer.NAME
    return found
