"""Every command of sccl that does something, as Typer made it, and a way to run one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from sccl.cli.main import app, load_verb
from sccl.cli.verbs import VERBS

COMMANDS: dict[str, Any] = {f"sccl {verb.name}": load_verb(verb) for verb in VERBS}
"""Every command, by its name."""


def sccl(*arguments: str | Path) -> tuple[int, str, str]:
    """Run the command in this process and return (exit code, stdout, stderr)."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr
