"""Verify files of algorithms, schedules, programs of other tools, and training plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from sccl.api.arguments import check_arguments
from sccl.collectives import misnaming_reason
from sccl.core.algorithm import KSynchronousPlan
from sccl.core.clock import AlphaText
from sccl.core.files.disk import UnreadFiles, is_folder
from sccl.core.files.outputs import Output, build_output, plan_digests, to_plain
from sccl.core.files.shapes import FileText, Part
from sccl.core.formatting import format_count
from sccl.core.progress import ProgressCallback
from sccl.errors import InputError, ParameterError
from sccl.formats.files.foreign import ForeignFile, find_faults, load_foreign_files
from sccl.formats.files.plans import LoadedPlan, is_pattern, load_plans
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
    from sccl.core.outcome import Plan
    from sccl.training.options.measured_costs import CostTable


class ViolationPart(Part, frozen=True, kw_only=True):
    """A violation that the verifier found."""

    kind: str
    message: str
    step: int | None = None
    chunk: int | None = None
    rank: Annotated[
        int | None, "Number of a rank, or of a switch (switches are numbered after ranks)."
    ] = None
    block: Annotated[int | None, "For programs: the thread block, and step is its step."] = None
    link: Annotated[tuple[int, int] | None, "For schedules: the link [src, dst]."] = None
    tick: Annotated[int | None, "For schedules: the time."] = None


class CheckedFilePart(Part, frozen=True, kw_only=True):
    """An algorithm, a schedule, or a training plan, and the verdict of the verifier."""

    file: FileText
    valid: bool
    digest_matches: Annotated[bool, "Whether the file is unchanged since sccl wrote it."] = True
    collective: str = ""
    topology: str = ""
    finish_us: Annotated[float | None, "For schedules: arrival of the last chunk."] = None
    alpha: Annotated[
        AlphaText | None, "For schedules: whether alpha occupies the link or travels."
    ] = None
    violations: tuple[ViolationPart, ...]
    format: Annotated[str | None, "Name of its format in 'sccl export'; null: sccl's format."] = (
        None
    )
    about: Annotated[str, "Description of a foreign file."] = ""
    notes: Annotated[tuple[str, ...], "Problems in some runtimes, and assumptions."] = ()
    refused: Annotated[tuple[str, ...], "Reason why no runtime accepts it; or empty."] = ()


class CheckOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl check'."""

    kind: Literal["check"] = "check"
    files: tuple[CheckedFilePart, ...]


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file and its verdict.

    Attributes:
        title: The file and its content, as text.
        digests: Function that returns the digest of its content, by file.
    """

    part: CheckedFilePart
    title: str
    digests: Callable[[], dict[str, str]]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The verdicts on files.

    Attributes:
        files: Each file with its verdict.
        unread: Files that cannot be read, and why, if several are given.

    Examples:
        >>> import sccl
        >>> ring = sccl.baseline("ring", "allgather", "ring:4").save("ring.json")
        >>> [(file.title, file.part.violations) for file in sccl.check(ring).files]
        [('ring.json: allgather on ring:4, C=1 S=3 R=3', ())]
    """

    files: tuple[CheckedFile, ...]
    unread: dict[Path, InputError]

    @property
    def valid(self) -> bool:
        """Return whether all files can be read, and each is valid."""
        return not self.unread and all(file.part.valid for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return the verdicts as plain values, as ``sccl check --json`` prints them.

        Examples:
            >>> import sccl
            >>> ring = sccl.baseline("ring", "allgather", "ring:4").save("ring.json")
            >>> sccl.check(ring).to_json()["kind"]
            'check'
        """
        inputs = {name: digest for file in self.files for name, digest in file.digests().items()}
        parts = tuple(file.part for file in self.files)
        return to_plain(CheckOutput(inputs=inputs, files=parts))


@check_arguments
def check(
    *files: str | PathLike[str],
    costs: str | PathLike[str] | None = None,
    on_progress: Callable[..., None] = lambda *_: None,
) -> CheckReport:
    """Verify files of algorithms, schedules, programs of other tools, and training plans.

    Args:
        files: Files, folders, or patterns such as ``"found/*.json"``.
        costs: Table of costs of training plans. None: their times are not verified.
        on_progress: Function that receives the amount of work done, the total, and the activity.

    Raises:
        InputError: There is no file, a single file cannot be read, or there are costs and no
            training plan.

    Examples:
        >>> import sccl
        >>> sccl.check(sccl.baseline("ring", "allgather", "ring:4").save("ring.json")).valid
        True
    """
    if not files:
        raise ParameterError("sccl.check is given no file")
    words = [Path(file) for file in files]
    unread: UnreadFiles = {}
    several = len(words) > 1 or is_folder(words[0]) or is_pattern(words[0])
    collector = unread if several else None  # None: the error is raised
    table = None if costs is None else load_cost_table(Path(costs))
    offers, rest = load_option_files(words, collector)
    training, rest = load_training_files(rest, table, collector)
    if costs is not None and not training and not offers:
        raise ParameterError(
            f"{costs} is a table of costs, and no training plan is given: give one, or leave out "
            "the table"
        )
    trained = [_checked_training(loaded) for loaded in training]
    trained += [_checked_options(loaded, table) for loaded in offers]
    foreign, rest = load_foreign_files(rest, collector)
    others = [_checked_foreign(source) for source in foreign]
    plans = load_plans(rest, on_progress, collector) if rest else []

    def on_verify(done: int, total: int) -> None:
        on_progress(done, total, "verifying")

    return CheckReport((*(_checked_plan(x, on_verify) for x in plans), *others, *trained), unread)


def _checked_training(loaded: LoadedTraining) -> CheckedFile:
    faults = training_faults(loaded)
    about = claim_text(loaded, wrong=bool(faults))
    part = CheckedFilePart(
        file=str(loaded.file),
        valid=not faults,
        digest_matches=loaded.intact,
        topology=loaded.plan.fabric.name,
        violations=_violation_parts(faults),
        about=about,
        notes=training_notes(loaded),
    )
    return CheckedFile(part, f"{loaded.file}: {about}", partial(training_digests, [loaded]))


def _checked_options(loaded: LoadedOptions, table: CostTable | None) -> CheckedFile:
    offered, faults = loaded.offered, option_faults(loaded, table)
    options = format_count(len(offered.options), "option")
    calls = format_count(sum(1 for _ in offered.workload.collectives()), "collective")
    about = f"{offered.workload.name} on {offered.fabric.name}, {options} of {calls}"
    note = "times come from a table of costs and are not verified; pass the table with --costs"
    part = CheckedFilePart(
        file=str(loaded.file),
        valid=not faults,
        topology=offered.fabric.name,
        violations=_violation_parts(faults),
        about=about,
        notes=(note,) if offered.costs and table is None else (),
    )
    return CheckedFile(part, f"{loaded.file}: {about}", partial(option_digests, [loaded]))


def _checked_foreign(source: ForeignFile) -> CheckedFile:
    content, faults = source.content, tuple(find_faults(source))
    part = CheckedFilePart(
        file=str(source.file),
        valid=not faults and not content.refused,
        digest_matches=False,
        collective=content.plan.collective.name if content.plan else "",
        violations=_violation_parts(faults),
        format=source.format.NAME,
        about=content.about,
        notes=content.notes,
        refused=content.refused,
    )
    digests = {str(source.file): source.digest}
    return CheckedFile(part, f"{source.file}: {content.about}", lambda: digests)


def _checked_plan(loaded: LoadedPlan, on_verify: ProgressCallback) -> CheckedFile:
    plan, file = loaded.plan, str(loaded.file)
    collective, topology = plan.collective.name, plan.topology.name
    name_fault = misnaming_reason(plan.collective)
    faults = [Violation("collective", name_fault)] if name_fault else []
    faults += violations(plan, on_verify)
    timed = None if isinstance(plan, KSynchronousPlan) else plan
    part = CheckedFilePart(
        file=file,
        valid=not faults,
        digest_matches=loaded.intact,
        collective=collective,
        topology=topology,
        finish_us=timed.clock.us(timed.finish) if timed else None,
        alpha=timed.model.text if timed else None,
        violations=_violation_parts(faults),
    )
    title = f"{file}: {collective} on {topology}, C={plan.collective.chunks} {_costs_text(plan)}"
    return CheckedFile(part, title, partial(plan_digests, {file: plan}))


def _costs_text(plan: Plan) -> str:
    if isinstance(plan, KSynchronousPlan):
        return f"S={plan.steps} R={plan.rounds}"
    from sccl.view.text.plan_text import cost_text  # noqa: PLC0415 - NumPy is slow to load

    return cost_text(plan)


def _violation_parts(faults: Iterable[object]) -> tuple[ViolationPart, ...]:
    return tuple(build_output(ViolationPart, fault) for fault in faults)
