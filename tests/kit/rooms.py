"""What tests need beside Python: markers, by a test's file and the fixtures it asks for.

``make quick`` leaves them all out. pyproject.toml says what each means.
"""

from __future__ import annotations

import pytest

from tests.kit.paths import ROOT

BY_FILE = {
    "tests/emit/test_gpu.py": "compiler",
    "tests/emit/test_host.py": "mpi",
    "tests/house/test_notebooks.py": "notebook",
    "tests/house/test_readme.py": "page",
    "tests/house/test_wheel.py": "wheel",
}

BY_FIXTURE = {"browser": "browser", "site": "page"}


def mark(item: pytest.Item) -> None:
    """Give a test the markers of what it needs."""
    file = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""
    if file in BY_FILE:
        item.add_marker(BY_FILE[file])
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in BY_FIXTURE:
            item.add_marker(BY_FIXTURE[fixture])
