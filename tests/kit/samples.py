"""Files of others that lie beside the project, for tests of what reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sccl.topo import importers
from sccl.topo.importers import Hints, Imported
from tests.conftest import NO_SHARED
from tests.kit.paths import SHARED


def sample(path: str) -> Path:
    """Return a sample's path; the test is skipped where samples are not."""
    file = SHARED / "data" / "samples" / path
    if not file.exists():
        pytest.skip(NO_SHARED)
    return file


def imported(path: str, reader: str, hints: Hints | None = None) -> Imported:
    """Return what a sample's format is found to be, and read as.

    Raises:
        AssertionError: another reader took it for its own.
    """
    file = sample(path)
    text = importers.decode_text(file.read_bytes(), file.name)
    importer, found = importers.read_machine(text, hints or Hints(file.stem), file.name)
    assert reader == importer.NAME
    return found
