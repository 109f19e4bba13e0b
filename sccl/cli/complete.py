"""Shell completion: existing names, with a description each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from glob import escape
from pathlib import Path

Completer = Callable[[str], list[tuple[str, str]]]
"""From the start of a word to the words it can become, each with a line of help."""


def complete_words(names: Iterable[str], description: str) -> Completer:
    """Return a completer that offers ``names``, each described as ``description``."""
    choices = tuple(names)
    return lambda incomplete: _filter_by_prefix(
        ((name, description) for name in choices), incomplete
    )


def complete_topology(incomplete: str) -> list[tuple[str, str]]:
    """Return the machines, an example of each generator, and files that may be machines.

    Shells whose words end at a colon (bash) complete the whole example, colon included.
    """
    from sccl.topo import catalogue_names, topology_makers  # noqa: PLC0415 - only shells ask

    machines = [(name, "a machine of the catalogue") for name in catalogue_names()]
    made = [(g.example, g.description) for g in topology_makers()]
    return _filter_by_prefix([*machines, *made, *_matching_files(incomplete)], incomplete)


def complete_collective(incomplete: str) -> list[tuple[str, str]]:
    """Return the names of collectives."""
    from sccl import collectives  # noqa: PLC0415 - only shells ask

    return complete_words(collectives.collective_names(), "a collective")(incomplete)


def complete_file(incomplete: str) -> list[tuple[str, str]]:
    """Return folders and JSON files."""
    return _filter_by_prefix(_matching_files(incomplete), incomplete)


def _matching_files(incomplete: str) -> list[tuple[str, str]]:
    """Return folders and JSON files: shells offer no files of their own beside words."""
    typed = incomplete.rpartition("/")[2]
    folder = incomplete.removesuffix(typed)
    matches = sorted(Path(folder).glob(f"{escape(typed)}*"))
    return [
        (f"{folder}{path.name}{'/' if path.is_dir() else ''}", "a file")
        for path in matches
        if (path.is_dir() or path.suffix == ".json") and not path.name.startswith(".")
    ]


def _filter_by_prefix(offers: Iterable[tuple[str, str]], incomplete: str) -> list[tuple[str, str]]:
    return [offer for offer in offers if offer[0].startswith(incomplete)]
