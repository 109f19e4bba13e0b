"""Verify files of algorithms and schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.collectives import misnaming_reason
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.clock import AlphaText
from sccl.core.files.disk import is_folder
from sccl.core.files.outputs import Output, build_output, plan_digests
from sccl.core.files.shapes import FileText, Part
from sccl.core.formatting import format_count
from sccl.core.progress import ProgressCallback
from sccl.errors import ParameterError
from sccl.formats.files.foreign import ForeignFault, ForeignFile, find_faults, load_foreign_files
from sccl.formats.files.plans import LoadedPlan, UnreadFiles, is_pattern, load_plans
from sccl.judge import Violation, violations
from sccl.training.offered_options import (
    LoadedOptions,
    load_option_files,
    option_digests,
    option_faults,
)
from sccl.training.plan_files import (
    LoadedTraining,
    claim_text,
    load_cost_table,
    load_training_files,
    training_digests,
    training_faults,
    training_notes,
)

if TYPE_CHECKING:
    from sccl.training.validate.plan_faults import PlanFault


class ViolationPart(Part, frozen=True, kw_only=True):
    """A violation that the verifier found."""

    kind: str
    message: str
    step: int | None = None
    chunk: int | None = None
    rank: Annotated[
        int | None,
        Meta(description="Number of a rank, or of a switch (switches are numbered after ranks)."),
    ] = None
    block: Annotated[
        int | None, Meta(description="For programs: the thread block, and step is its step.")
    ] = None
    link: Annotated[
        tuple[int, int] | None, Meta(description="For schedules: the link [src, dst].")
    ] = None
    tick: Annotated[int | None, Meta(description="For schedules: the time.")] = None


class CheckedFilePart(Part, frozen=True, kw_only=True):
    """An algorithm, a schedule or a training plan, and the judge's verdict."""

    file: FileText
    valid: bool
    digest_matches: Annotated[
        bool, Meta(description="Whether the file is unchanged since sccl wrote it.")
    ] = True
    collective: str = ""
    topology: str = ""
    finish_us: Annotated[
        float | None, Meta(description="For schedules: arrival of the last chunk.")
    ] = None
    alpha: Annotated[
        AlphaText | None,
        Meta(description="For schedules: whether alpha occupies the link or travels."),
    ] = None
    violations: tuple[ViolationPart, ...]
    format: Annotated[
        str | None, Meta(description="Name of its format in 'sccl export'; null: sccl's format.")
    ] = None
    about: Annotated[str, Meta(description="Description of a foreign file.")] = ""
    notes: Annotated[
        tuple[str, ...], Meta(description="Problems in some runtimes, and assumptions.")
    ] = ()
    refused: Annotated[
        tuple[str, ...], Meta(description="Reason why no runtime accepts it; or empty.")
    ] = ()


class CheckOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl check'."""

    kind: Literal["check"] = "check"
    files: tuple[CheckedFilePart, ...]


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A file and everything that is wrong with its plan."""

    loaded: LoadedPlan
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class CheckedTraining:
    """A file of a training plan, and everything that is wrong with it."""

    loaded: LoadedTraining
    faults: tuple[PlanFault, ...]


@dataclass(frozen=True, slots=True)
class CheckedOptions:
    """A file of options, and everything that is wrong with it.

    Attributes:
        has_unknown_costs: whether no table of costs is given.
    """

    loaded: LoadedOptions
    faults: tuple[PlanFault, ...]
    has_unknown_costs: bool

    @property
    def about(self) -> str:
        """Return a description of the offered options."""
        offered = self.loaded.offered
        options = format_count(len(offered.options), "option")
        calls = format_count(sum(1 for _ in offered.workload.collectives()), "collective")
        return f"{offered.workload.name} on {offered.fabric.name}, {options} of {calls}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences on values that are trusted without verification."""
        if not self.loaded.offered.costs or not self.has_unknown_costs:
            return ()
        return (
            "times come from a table of costs and are not verified; pass the table with --costs",
        )


@dataclass(frozen=True, slots=True)
class CheckedForeign:
    """A foreign file, and its violations."""

    source: ForeignFile
    faults: tuple[ForeignFault, ...]

    @property
    def is_valid(self) -> bool:
        """Return whether it is right, and some runtime would run it."""
        return not self.faults and not self.source.content.refused


def are_several_files(words: Sequence[str | Path]) -> bool:
    """Return whether words name several files, of which each is verified by itself."""
    return len(words) > 1 or any(is_folder(Path(word)) or is_pattern(word) for word in words)


def verify_training(
    words: Iterable[str | Path], costs: Path | None = None, unread: UnreadFiles | None = None
) -> tuple[list[CheckedTraining], list[CheckedOptions], list[str | Path]]:
    """Return the verdicts on training plans and on options, and the words that name anything else.

    Args:
        costs: the file of the table of costs by which they were made.
        unread: takes the files that cannot be read. None: they are refused.

    Raises:
        InputError: a file says that it is one and is none. There are costs, and no such file.
    """
    table = None if costs is None else load_cost_table(costs)
    offers, others = load_option_files(words, unread)
    plans, rest = load_training_files(others, table, unread)
    if costs is not None and not plans and not offers:
        raise ParameterError(
            f"{costs} is a table of costs, and no training plan is given: give one, or leave out "
            "the table"
        )
    return (
        [CheckedTraining(entry, training_faults(entry)) for entry in plans],
        [CheckedOptions(entry, option_faults(entry, table), costs is None) for entry in offers],
        rest,
    )


def verify_foreign(
    words: Iterable[str | Path], unread: UnreadFiles | None = None
) -> tuple[list[CheckedForeign], list[str | Path]]:
    """Return the verdicts on files of others, and the words that name anything else.

    Args:
        unread: takes the files that cannot be read, and why. None: they are refused.

    Raises:
        InputError: a file cannot be read, or is larger than is verified.
    """
    foreign_files, rest = load_foreign_files(words, unread)
    return [
        CheckedForeign(foreign_file, tuple(find_faults(foreign_file)))
        for foreign_file in foreign_files
    ], rest


def verify_files(
    files: Iterable[str | Path],
    reading: ProgressCallback = lambda *_: None,
    judging: ProgressCallback = lambda *_: None,
    unread: UnreadFiles | None = None,
) -> list[CheckedPlan]:
    """Verify plans in files. All are read before the first verdict.

    Args:
        unread: Receives the files that cannot be read. None: they are refused.
        reading: Receives the bytes read of a packed schedule, and all its bytes.
        judging: Receives the verified transfers of a packed schedule, and all its transfers.

    Raises:
        InputError: There is no file, or one is no algorithm and no schedule.
    """
    loaded = load_plans(files, reading, unread)
    return [
        CheckedPlan(entry, (*_name_violations(entry), *violations(entry.plan, judging)))
        for entry in loaded
    ]


def _name_violations(loaded: LoadedPlan) -> list[Violation]:
    text = misnaming_reason(loaded.plan.collective)
    return [Violation("collective", text)] if text else []


def check_output(
    judged: Sequence[CheckedPlan],
    foreign: Sequence[CheckedForeign] = (),
    training: Sequence[CheckedTraining] = (),
    options: Sequence[CheckedOptions] = (),
) -> CheckOutput:
    """Return the verdicts."""
    theirs = {str(verdict.source.file): verdict.source.digest for verdict in foreign}
    ours = plan_digests({str(x.loaded.file): x.loaded.plan for x in judged})
    return CheckOutput(
        inputs=ours
        | theirs
        | training_digests([verdict.loaded for verdict in training])
        | option_digests([verdict.loaded for verdict in options]),
        files=(
            *map(_plan_part, judged),
            *map(_foreign_part, foreign),
            *map(_training_part, training),
            *map(_options_part, options),
        ),
    )


def _training_part(judged: CheckedTraining) -> CheckedFilePart:
    loaded = judged.loaded
    return build_output(
        CheckedFilePart,
        loaded,
        valid=not judged.faults,
        digest_matches=loaded.intact,
        topology=loaded.plan.fabric,
        violations=judged.faults,
        about=claim_text(loaded, wrong=bool(judged.faults)),
        notes=training_notes(loaded),
    )


def _options_part(judged: CheckedOptions) -> CheckedFilePart:
    return build_output(
        CheckedFilePart,
        judged,
        file=judged.loaded.file,
        valid=not judged.faults,
        topology=judged.loaded.offered.fabric,
        violations=judged.faults,
    )


def _foreign_part(judged: CheckedForeign) -> CheckedFilePart:
    content = judged.source.content
    return build_output(
        CheckedFilePart,
        content,
        file=judged.source.file,
        valid=judged.is_valid,
        digest_matches=False,
        collective=content.plan.collective if content.plan else "",
        violations=judged.faults,
        format=judged.source.format.NAME,
    )


def _plan_part(judged: CheckedPlan) -> CheckedFilePart:
    loaded, plan = judged.loaded, judged.loaded.plan
    timed = None if isinstance(plan, KSynchronousPlan) else plan
    return build_output(
        CheckedFilePart,
        plan,
        file=loaded.file,
        valid=not judged.violations,
        digest_matches=loaded.intact,
        finish_us=timed.clock.us(timed.finish) if timed else None,
        alpha=timed.model.text if timed else None,
        violations=judged.violations,
    )
