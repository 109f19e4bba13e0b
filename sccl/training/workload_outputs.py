"""Import, generate, and summarize workloads."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import digest, file_kind, to_text
from sccl.core.files.kinds import WORKLOAD
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import FileText, NonNegative, Part
from sccl.training.files.workload_shapes import WorkloadWire
from sccl.training.files.workloads import load_workload, workload_to_wire
from sccl.training.models import GeneratedWorkload, generate_workload
from sccl.training.traces import ParsedWorkload, TraceHints, iterate_files, read_workload
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp, HostAction

_Us = Annotated[float, Meta(ge=0, description="Microseconds.")]


class CollectivesPart(Part, frozen=True, kw_only=True):
    """The collectives of a kind and of a size of group."""

    collective: str
    group_ranks: Annotated[int, Meta(ge=1), "Number of ranks in each group."]
    groups: Annotated[
        int,
        Meta(ge=1),
        "Number of different groups, including groups that run the same collective in parallel.",
    ]
    operations: Annotated[int, Meta(ge=1)]
    bytes: Annotated[NonNegative, "Sum of the sizes, each counted as a rank's largest buffer."]
    least_bytes: NonNegative
    most_bytes: NonNegative
    uneven: Annotated[NonNegative, "Number of operations with unequal splits."]


class StreamPart(Part, frozen=True, kw_only=True):
    """Computation of a role on one of its streams."""

    role: str
    stream: str
    operations: Annotated[int, Meta(ge=1)]
    us: _Us


class AcrossPart(Part, frozen=True, kw_only=True):
    """A dependency from one iteration to a later one."""

    before: str
    after: str
    lag: Annotated[int, Meta(ge=1), "Iterations."]


class RolePart(Part, frozen=True, kw_only=True):
    """A role, and its program in numbers."""

    name: str
    ranks: Annotated[int, Meta(ge=1)]
    submits: NonNegative
    waits: NonNegative
    waits_across: Annotated[NonNegative, "For submissions of an earlier iteration."]


class WorkloadPart(Part, frozen=True, kw_only=True):
    """A workload in numbers."""

    name: str
    source: str
    ranks: Annotated[int, Meta(ge=1)]
    iteration_us: Annotated[float | None, "As traced; null: it was not."]
    left_out_us: Annotated[float | None, "Of that, time in no operation; null: unknown."]
    roles: tuple[RolePart, ...]
    collectives: tuple[CollectivesPart, ...]
    computation: tuple[StreamPart, ...]
    dependencies: NonNegative
    across: tuple[AcrossPart, ...]


class WorkloadShowOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train show'."""

    kind: Literal["workload-show"] = "workload-show"
    workload: WorkloadPart


class WorkloadImportOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train import'."""

    kind: Literal["workload-import"] = "workload-import"
    formats: Annotated[tuple[str, ...], "Files of the traces, one for each rank."]
    understood: Annotated[tuple[str, ...], "Content of the traces, by rank."]
    assumed: Annotated[tuple[str, ...], "Assumed values that the traces lack."]
    unread: Annotated[tuple[str, ...], "Parts of the traces that were not used."]
    file: Annotated[FileText | None, "Written file, if any."]
    workload: Annotated[WorkloadWire, "The workload, in the format of its file."]


class WorkloadMakeOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train make'."""

    kind: Literal["workload-make"] = "workload-make"
    family: str
    preset: Annotated[str | None, "Preset that supplied the parameters; some may be changed."]
    about: Annotated[str, "Sources and assumptions of the sizes."]
    parameters: Annotated[
        dict[str, bool | int | float | str | tuple[int, ...]],
        "All of them, as options of the command line are named.",
    ]
    file: Annotated[FileText | None, "Written file, if any."]
    workload: Annotated[WorkloadWire, "The workload, in the format of its file."]


@dataclass(frozen=True, slots=True)
class ImportedWorkload:
    """A workload from traces, and the digest of each trace by its path."""

    read: ParsedWorkload
    digests: dict[str, str]


def import_workload(
    files: Sequence[Path], hints: TraceHints, name: str | None, output: Path | None
) -> ImportedWorkload:
    """Build a workload from traces, and write it if there is an output file.

    Args:
        files: Trace files, archives, or folders.
        hints: Options for traces.
        name: Name of the workload. None: that of the first file.
        output: File for the workload. None: do not write it.

    Raises:
        InputError: A trace cannot be read, ranks disagree, or there are no collectives.
    """
    digests: dict[str, str] = {}
    skipped: list[str] = []

    def trace_files() -> Iterator[tuple[str, bytes]]:
        for file in files:
            for where, content in iterate_files(file, skipped.append):
                digests[where] = f"sha256:{hashlib.sha256(content).hexdigest()}"
                yield where, content

    read = read_workload(
        trace_files(), hints, name or files[0].name.partition(".")[0] or "workload"
    )
    read = replace(read, unread=(*read.unread, *skipped))
    if output is not None:
        write_atomically(output, to_text(workload_to_wire(read.workload)))
    return ImportedWorkload(read, digests)


def workload_import_output(imported: ImportedWorkload, output: Path | None) -> WorkloadImportOutput:
    """Return the JSON output of an import."""
    workload = workload_to_wire(imported.read.workload)
    return build_output(
        WorkloadImportOutput,
        imported.read,
        inputs=imported.digests,
        file=output,
        workload=workload,
    )


def make_workload(
    family: str,
    parameters: Mapping[str, Any],
    preset: str | None,
    name: str | None,
    output: Path | None,
) -> GeneratedWorkload:
    """Generate the workload of a model by formulas, and write it if there is an output file.

    Args:
        family: Family of models.
        parameters: Parameters by name. Missing ones come from the preset, or are defaults.
        preset: Name of a preset. None: none.
        name: Name of the workload. None: that of the preset, or else of the family.
        output: File for the workload. None: do not write it.

    Raises:
        InputError: The family or preset is unknown, or parameters contradict one another.
    """
    made = generate_workload(family, parameters, preset, name)
    if output is not None:
        write_atomically(output, to_text(workload_to_wire(made.workload)))
    return made


def workload_make_output(made: GeneratedWorkload, output: Path | None) -> WorkloadMakeOutput:
    """Return the JSON output of a generated workload."""
    return build_output(
        WorkloadMakeOutput,
        made,
        inputs={},
        parameters=made.job.list_parameters(),
        file=output,
        workload=workload_to_wire(made.workload),
    )


def is_workload_file(path: Path) -> bool:
    """Return whether a path is an existing JSON file of the kind workload."""
    return path.suffix == ".json" and path.is_file() and file_kind(path) == WORKLOAD


def workload_show_output(file: Path) -> WorkloadShowOutput:
    """Return the summary of a workload file.

    Raises:
        InputError: The file cannot be read, or is not a workload.
    """
    workload = load_workload(file)
    return WorkloadShowOutput(
        inputs={str(file): digest(workload_to_wire(workload))}, workload=workload_part(workload)
    )


def workload_part(workload: Workload) -> WorkloadPart:
    """Return the summary of a workload."""
    kinds: dict[tuple[str, int], list[CommOp]] = defaultdict(list)
    for op in workload.collectives():
        kinds[op.collective, len(op.group)].append(op)
    streams: dict[tuple[str, str], list[float]] = defaultdict(list)
    for task in workload.computation():
        streams[task.role, task.stream].append(task.duration_us)
    return build_output(
        WorkloadPart,
        workload,
        roles=_role_parts(workload),
        collectives=[_collectives_part(*key, ops) for key, ops in sorted(kinds.items())],
        computation=[
            StreamPart(role=role, stream=stream, operations=len(us), us=round(sum(us), 3))
            for (role, stream), us in streams.items()
        ],
        dependencies=len(workload.deps),
        across=[dep for dep in workload.deps if dep.lag],
    )


def _collectives_part(collective: str, ranks: int, ops: Sequence[CommOp]) -> CollectivesPart:
    sizes = [op.size_bytes for op in ops]
    return CollectivesPart(
        collective=collective,
        group_ranks=ranks,
        groups=len({group for op in ops for group in op.groups}),
        operations=len(ops),
        bytes=sum(sizes),
        least_bytes=min(sizes),
        most_bytes=max(sizes),
        uneven=sum(bool(op.splits) for op in ops),
    )


def _role_parts(workload: Workload) -> Iterator[RolePart]:
    programs = {program.role: program.events for program in workload.submits}
    for role in workload.roles:
        events = programs.get(role.name, ())
        waits = [event for event in events if event.action is HostAction.WAIT]
        yield RolePart(
            name=role.name,
            ranks=len(role.ranks),
            submits=len(events) - len(waits),
            waits=len(waits),
            waits_across=sum(event.lag > 0 for event in waits),
        )
