"""Define the contract of foreign formats of plans, which are the modules of this package.

A format defines these constants:

- ``NAME``: its name in ``--format``.
- ``ABOUT``: a description in one line.
- ``SOURCE``: its specification, and the supported versions.
- ``TAKES``: the kinds of plans that it can write. Empty: it is only read.
- ``BY_SIZE``: whether it contains bytes, so that a size is required.
- ``MIXES``: whether its runtime accepts plans of several collectives together.
- ``Options``: a struct with help and default of each option.

It has these functions:

- ``write(plans, options) -> WrittenFiles``: files, and the command that runs them. If a plan
  exceeds a limit of the format or its runtime, an :class:`~sccl.errors.InputError` names the limit
  and the remedy. Content that a runtime would silently ignore, or fail on, is never written.
- ``sniff(content) -> bool``: whether content has this format. It is fast for any bytes, and always
  False for a format that is only written.
- ``read(content, where) -> ForeignPlan``: content of a file.

A format of training plans also has ``write_step(plan) -> WrittenFiles`` of a verified plan.

Limits are at the top of the module, each with its source. Files are untrusted: a reader has size
limits, and must not hang or raise other errors on any bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from sccl.errors import FormatError
from sccl.training.types.training_plan import StepSpan, StepTimeline, TrainingPlan
from sccl.training.types.workload_ops import Dependency

if TYPE_CHECKING:
    from sccl.core.algorithm import Algorithm, Send
    from sccl.core.collective import Collective
    from sccl.core.schedule import Schedule
    from sccl.formats.common.program_graph import StepProgram

MAX_BYTES = 2**28
"""Maximum size of a file, bytes."""


class FormatOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a format. Each field has a default and a help text."""


@dataclass(frozen=True, slots=True)
class SizedPlan:
    """A verified plan with the range of buffers that it serves.

    Attributes:
        name: Name of the plan: letters, digits and hyphens.
        min_bytes: Minimum bytes of a rank's buffer, which is the C chunks.
        max_bytes: Maximum bytes of a rank's buffer, None without a limit.
        size_bytes: Bytes of a rank's buffer for times and messages, None if unknown.
        together: Transfer number of each send of an algorithm that shares a transfer.
    """

    name: str
    plan: Algorithm | Schedule
    min_bytes: int = 0
    max_bytes: int | None = None
    size_bytes: int | None = None
    together: Mapping[Send, int] = field(default_factory=dict)

    @property
    def larger_buffer_range(self) -> tuple[int, int | None]:
        """Return the minimum and the maximum bytes of a rank's larger buffer. None: no limit."""
        ratio = larger_buffer_ratio(self.plan.collective)
        last = None if self.max_bytes is None else (self.max_bytes + 1) * ratio - 1
        return self.min_bytes * ratio, last


def larger_buffer_ratio(collective: Collective) -> int:
    """Return the ratio of a rank's larger buffer, input or output, to its C chunks."""
    return collective.ranks if collective.name == "allgather" else 1


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files of an export.

    Attributes:
        files: Content by name. Several files form a folder.
        command: Command that runs them. ``{path}`` stands for the file or the folder.
        notes: Notes for the user, as sentences.
    """

    files: Mapping[str, bytes]
    command: str
    notes: tuple[str, ...] = ()


NO_DEMAND_NOTE = (
    "its final state is not given: verified are termination, that nothing is read before it is "
    "written, and that no two steps touch a chunk at the same time"
)
"""Note on a program whose collective is unknown."""


@dataclass(frozen=True, slots=True)
class ForeignPlan:
    """The content of a file.

    Attributes:
        plan: The plan. None: it has none, for example selection rules.
        about: Description.
        notes: Problems in some runtimes, and assumptions, as sentences.
        refused: Reasons why no runtime accepts it, as sentences. Empty: some accept it.
    """

    plan: Algorithm | Schedule | StepProgram | None
    about: str
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def write_only(why: str) -> tuple[Callable[[bytes], bool], Callable[[bytes, str], ForeignPlan]]:
    """Return ``sniff`` and ``read`` of a format whose files are not read.

    Args:
        why: Reason why files are not read, as a clause.
    """

    def sniff(content: bytes) -> bool:  # noqa: ARG001 - the contract's
        """Return False, since no content is read."""
        return False

    def read(content: bytes, where: str) -> ForeignPlan:  # noqa: ARG001 - the contract's
        raise FormatError(f"{where}: {why}: there is no plan in it")

    return sniff, read


def read_only(why: str) -> Callable[[Sequence[SizedPlan], FormatOptions], WrittenFiles]:
    """Return ``write`` of a format whose files are only read.

    Args:
        why: Reason why files are not written, as a sentence.
    """

    def write(plans: Sequence[SizedPlan], options: FormatOptions) -> WrittenFiles:  # noqa: ARG001
        raise FormatError(why)

    return write


class Format(Protocol):
    """A module of this package that defines a format."""

    NAME: str
    ABOUT: str
    SOURCE: str
    TAKES: tuple[type, ...]
    BY_SIZE: bool
    MIXES: bool
    Options: type[FormatOptions]

    def write(self, plans: Sequence[SizedPlan], options: Any) -> WrittenFiles:
        """Return the files of plans on one machine, and unless ``MIXES`` of one collective.

        Raises:
            InputError: The format or its runtime does not support them.
        """
        ...

    def sniff(self, content: bytes) -> bool:
        """Return whether bytes are of this format."""
        ...

    def read(self, content: bytes, where: str) -> ForeignPlan:
        """Return the content of a file.

        Args:
            where: Its name, for messages.

        Raises:
            InputError: It is not in this format, or exceeds a limit.
        """
        ...


@dataclass(frozen=True, slots=True)
class VerifiedTrainingPlan:
    """A training plan that passed verification.

    Attributes:
        name: Name of its file: letters, digits and hyphens.
        waits: All dependencies: of the workload, of the order of streams, and of host programs.
    """

    name: str
    plan: TrainingPlan
    timeline: StepTimeline
    waits: tuple[Dependency, ...]


def dependency_arrows(
    stepped: VerifiedTrainingPlan, spans: Iterable[StepSpan]
) -> Iterator[tuple[StepSpan, StepSpan]]:
    """Yield pairs of a span and a dependent span.

    For an operation of several motifs, dependents wait for the last one to end, and the first one
    to begin waits. Computations of one stream follow one another in any case.
    """
    of: dict[tuple[str, int], list[StepSpan]] = defaultdict(list)
    for span in spans:
        of[span.op, span.iteration].append(span)
    options = dict(stepped.plan.options)
    for op_spans in of.values():
        if op_spans[0].computes:
            continue
        by_motif = {span.motif: span for span in op_spans}
        for span in op_spans:
            for motif in options[span.op].motifs[span.motif].after:
                if motif in by_motif:
                    yield by_motif[motif], span
    iterations = sorted({iteration for _, iteration in of})
    for wait in stepped.waits:
        for iteration in iterations:
            op_spans = of.get((wait.after, iteration), [])
            before = of.get((wait.before, iteration - wait.lag))
            if not before or not op_spans:
                continue
            last = max(before, key=lambda span: (span.end_ns, span.motif))
            first = min(op_spans, key=lambda span: (span.start_ns, span.motif))
            if not (last.computes and last.lane == first.lane):
                yield last, first


class StepFormat(Format, Protocol):
    """A format that can also contain training plans."""

    def write_step(self, stepped: VerifiedTrainingPlan) -> WrittenFiles:
        """Return the files of a training plan."""
        ...
