"""What somebody else's format of plans is: a module of this room, read and written in one file.

It states ``NAME`` (as in ``--format``), ``ABOUT`` (whose format it is, in a line), ``SOURCE``
(where it is described, and for which versions), ``TAKES`` (which plans it can hold; none: it is
only read), ``BY_SIZE`` (whether it holds bytes, so that a size has to be told), ``MIXES`` (whether
its runtime takes plans of several collectives together), ``Options`` (a struct. Each field with its
help and its default), and has

- ``write(plans, options) -> WrittenFiles``: files, and the command that runs them. What the format
  or its runtime does not allow is an :class:`~sccl.errors.InputError` that names the limit, and
  what to do. Nothing that a runtime would ignore in silence, or fail on, is ever written.
- ``sniff(content) -> bool``: whether bytes are of this format; quick, and of any bytes. Always
  False of a format that is only written.
- ``read(content, where) -> Foreign``: what a file of anybody holds.

Limits stand at the head of the module, each with where it is from. Files come from strangers: a
reader states how much it takes, and neither hangs nor fails otherwise on any bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from sccl.errors import FormatError

if TYPE_CHECKING:
    from sccl.core.algorithm import Algorithm, Send
    from sccl.core.schedule import Schedule
    from sccl.lower.step_graph import StepProgram

MAX_BYTES = 2**28
"""Of a file that is read."""


class FormatOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a format can be told beside the plans. Each field has a default, and its help."""


@dataclass(frozen=True, slots=True)
class SizedPlan:
    """A plan, judged, and for which buffers.

    Attributes:
        name: of the plan: letters, digits and hyphens.
        min_bytes: of a rank's buffer, the C chunks; inclusive.
        max_bytes: inclusive. None: all that are larger.
        size_bytes: that times and messages are for. None: unknown.
        together: of an algorithm's sends that are one transfer with others, which.
    """

    name: str
    plan: Algorithm | Schedule
    min_bytes: int = 0
    max_bytes: int | None = None
    size_bytes: int | None = None
    together: Mapping[Send, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """What is to be written.

    Attributes:
        files: content by name; several lie in a folder.
        command: that runs them, in which ``{path}`` stands for the file or the folder.
        notes: what a user has to know of them, in sentences.
    """

    files: Mapping[str, bytes]
    command: str
    notes: tuple[str, ...] = ()


NOT_SAID = (
    "its final state is not given: verified are termination, that nothing is read before it is "
    "written, and that no two steps touch a chunk at the same time"
)
"""The note on a program whose collective is not known."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """What was read of a file.

    Attributes:
        plan: None: it has none, as rules by which others choose.
        about: what it is, in words.
        notes: what some runtime would trip over, or was assumed, in sentences.
        refused: why no runtime would run it, in sentences. Empty: some would.
    """

    plan: Algorithm | Schedule | StepProgram | None
    about: str
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def only_written(why: str) -> tuple[Callable[[bytes], bool], Callable[[bytes, str], Foreign]]:
    """Return ``sniff`` and ``read`` of a format whose files are not read.

    Args:
        why: they are not, as a clause.
    """

    def sniff(content: bytes) -> bool:  # noqa: ARG001 - the contract's
        """Return False: none is read."""
        return False

    def read(content: bytes, where: str) -> Foreign:  # noqa: ARG001 - the contract's
        """Refuse it."""
        raise FormatError(f"{where}: {why}: there is no plan in it")

    return sniff, read


class Format(Protocol):
    """A module of this room."""

    NAME: str
    ABOUT: str
    SOURCE: str
    TAKES: tuple[type, ...]
    BY_SIZE: bool
    MIXES: bool
    Options: type[FormatOptions]

    def write(self, plans: Sequence[SizedPlan], options: Any) -> WrittenFiles:
        """Return the files of some plans on one machine. If not ``MIXES``, of one collective.

        Raises:
            InputError: the format, or who reads it, does not allow them.
        """
        ...

    def sniff(self, content: bytes) -> bool:
        """Return whether bytes are of this format."""
        ...

    def read(self, content: bytes, where: str) -> Foreign:
        """Return what a file holds.

        Args:
            where: what to call it in a message.

        Raises:
            InputError: it is not of this format, or larger than is read.
        """
        ...
