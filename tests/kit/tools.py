"""Output of ``sccl doctor --json``, which tries every tool and runs once per test run."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from sccl.cli.main import app
from tests.kit import once


def tried_tools() -> tuple[int, dict[str, Any]]:
    """Return the exit code and the document."""

    def ask() -> tuple[int, str]:
        done = CliRunner().invoke(app, ["doctor", "--json"])
        return done.exit_code, done.stdout

    code, text = once.value("sccl doctor --json", ask)
    return code, json.loads(text)
