"""Every command of sccl that does something, as Typer made it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sccl.cli.main import VERBS, load


def _commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, by its name."""
    waiting: list[tuple[str, Any]] = [(f"sccl {verb.name}", load(verb)) for verb in VERBS]
    for name, command in waiting:  # grows while it is walked
        inner = getattr(command, "commands", {})
        waiting += [(f"{name} {word}", one) for word, one in inner.items()]
        if not inner:
            yield name, command


COMMANDS = dict(_commands())
