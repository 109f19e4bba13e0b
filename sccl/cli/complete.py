"""What the shell offers when a word is completed: names that exist, with what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sccl import backends, collectives
from sccl.topo import catalogue_names, generators

Offer = Callable[[str], list[tuple[str, str]]]
"""From the start of a word to the words it can become, each with a line of help."""


def words(names: Iterable[str], what: str) -> Offer:
    """Return what offers ``names``, each described as ``what``."""
    known = tuple(names)
    return lambda incomplete: _starting(((name, what) for name in known), incomplete)


def topology(incomplete: str) -> list[tuple[str, str]]:
    """Return the machines and an example of each generator; for anything else shells offer files.

    Shells whose words end at a colon (bash) complete the whole example, colon included.
    """
    machines = [(name, "a machine of the catalogue") for name in catalogue_names()]
    made = [(g.example, g.describes) for g in generators()]
    return _starting([*machines, *made], incomplete)


collective = words(collectives.names(), "a collective")
solver = words(backends.names(), "a solver")


def _starting(offers: Iterable[tuple[str, str]], incomplete: str) -> list[tuple[str, str]]:
    return [offer for offer in offers if offer[0].startswith(incomplete)]
