"""The interface of importers: modules of this folder that read other tools' machine descriptions.

An importer defines ``NAME`` (as in ``--format``), ``ABOUT`` (the tool that writes the file, in one
line), ``SOURCE`` (the description of the format), ``EXAMPLE`` (a small valid text), and two
functions:

- ``sniff(text) -> bool``: whether a text is of this format, by features that no other format has.
  It is fast for any text.
- ``read(text, hints) -> Imported``: the machine. An :class:`~sccl.errors.InputError` states in a
  sentence the problem, its line or field, and the remedy.

Texts are untrusted. An importer defines limits on nodes and depth at the top of its module, and
neither hangs nor raises another exception on any text. It makes no silent assumptions:
``Imported.assumed`` lists every value that the machine needs and the text lacks, and numbers that
no known GPU can have (:func:`~sccl.topo.importers.common.gpus.describe_impossible_links`).
``Imported.understood`` also lists the fields, tables and lines that the importer ignores
(:mod:`~sccl.topo.importers.common.unused_fields`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sccl.core.topology import Topology
from sccl.topo.chassis_network import Nic

MAX_BYTES = 2**26
"""Maximum size of a file, bytes."""


@dataclass(frozen=True, slots=True)
class Hints:
    """Values that the user gives in addition to the file.

    Attributes:
        name: name of the machine, if the file has none.
        gpu: GPU model for link speeds that the file does not state. None: unknown.
        alpha_us: latency of links, microseconds, if the file does not state it. None: unknown.
    """

    name: str
    gpu: str | None = None
    alpha_us: float | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """A machine, and the record of its import.

    Attributes:
        understood: the content of the text, a line for each kind of object.
        assumed: each assumption, its source, and the option that overrides it.
        nics: Network cards, which can join copies of the machine. Empty: none in the text.
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
            InputError: the text is invalid, or its machine exceeds the limits.
        """
        ...
