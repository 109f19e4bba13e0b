"""What a reader of other people's descriptions of machines is: a module of this folder.

It states ``NAME`` (as in ``--format``), ``ABOUT`` (whose file it is, in a line), ``SOURCE`` (where
the format is described), ``EXAMPLE`` (a small text that it reads), and has

- ``sniff(text) -> bool``: whether a text is of this format, from what no other format has; quick,
  and of any text;
- ``read(text, hints) -> Imported``: the machine. An :class:`~sccl.errors.InputError` says in a
  sentence what is wrong, in which line or field, and what to do.

Texts come from strangers: a reader states at its head how much it takes, in nodes and in depth, and
neither hangs nor fails otherwise on any text. It never guesses in silence: what the text does not
say and the machine needs is in ``Imported.assumed``, as are numbers that no known GPU can have
(:func:`~sccl.topo.importers.gpus.link_questions`). ``Imported.understood`` lists the fields, tables
and lines that the reader met and does not use (:mod:`~sccl.topo.importers.unused`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sccl.core.topology import Topology
from sccl.topo.network import Nic

MAX_BYTES = 2**26
"""Of a file that is read."""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the user says beside the file.

    Attributes:
        name: of the machine, where the file has none.
        gpu: whose speeds its links have, where the file does not say. None: unknown.
        alpha_us: latency of its links, microseconds, where the file does not say. None: unknown.
    """

    name: str
    gpu: str | None = None
    alpha_us: float | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """A machine, and how it was come by.

    Attributes:
        understood: what the text says, a line for each kind of thing.
        assumed: what it does not say, where that was taken from, and how to say otherwise.
        nics: its network cards, by which copies of it can be joined. Empty: the text has none.
    """

    topology: Topology
    understood: tuple[str, ...]
    assumed: tuple[str, ...]
    nics: tuple[Nic, ...] = ()


class Importer(Protocol):
    """A module of this folder."""

    NAME: str
    ABOUT: str
    SOURCE: str
    EXAMPLE: str

    def sniff(self, text: str) -> bool:
        """Return whether a text is of this format."""
        ...

    def read(self, text: str, hints: Hints) -> Imported:
        """Return the machine that a text describes.

        Raises:
            InputError: it does not, or what it describes is larger than is read.
        """
        ...
