"""Shell completion: existing names, with a description each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from glob import escape
from pathlib import Path

Offer = Callable[[str], list[tuple[str, str]]]
"""From the start of a word to the words it can become, each with a line of help."""


def words(names: Iterable[str], what: str) -> Offer:
    """Return a completer that offers ``names``, each described as ``what``."""
    known = tuple(names)
    return lambda incomplete: _starting(((name, what) for name in known), incomplete)


def topology(incomplete: str) -> list[tuple[str, str]]:
    """Return the machines, an example of each generator, and files that may be machines.

    Shells whose words end at a colon (bash) complete the whole example, colon included.
    """
    from sccl.topo import catalogue_names, makers  # noqa: PLC0415 - only shells ask

    machines = [(name, "a machine of the catalogue") for name in catalogue_names()]
    made = [(g.example, g.describes) for g in makers()]
    return _starting([*machines, *made, *_files(incomplete)], incomplete)


def collective(incomplete: str) -> list[tuple[str, str]]:
    """Return the names of collectives."""
    from sccl import collectives  # noqa: PLC0415 - only shells ask

    return words(collectives.names(), "a collective")(incomplete)


def file(incomplete: str) -> list[tuple[str, str]]:
    """Return folders and JSON files."""
    return _starting(_files(incomplete), incomplete)


def _files(incomplete: str) -> list[tuple[str, str]]:
    """Return folders and JSON files: shells offer no files of their own beside words."""
    typed = incomplete.rpartition("/")[2]
    folder = incomplete.removesuffix(typed)
    found = sorted(Path(folder).glob(f"{escape(typed)}*"))
    return [
        (f"{folder}{path.name}{'/' if path.is_dir() else ''}", "a file")
        for path in found
        if (path.is_dir() or path.suffix == ".json") and not path.name.startswith(".")
    ]


def _starting(offers: Iterable[tuple[str, str]], incomplete: str) -> list[tuple[str, str]]:
    return [offer for offer in offers if offer[0].startswith(incomplete)]
