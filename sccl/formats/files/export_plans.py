"""Export plans to formats of other tools: sizes, options, and files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import msgspec

from sccl.core.algorithm import Algorithm, KSynchronousPlan
from sccl.core.cost import Costs, fastest_by_size
from sccl.core.files.disk import (
    check_can_create,
    check_can_write,
    slugify,
    write_bytes_atomically,
    write_folder,
)
from sccl.core.files.json_text import describe_problem
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import FileText, NonNegative
from sccl.core.sizes import check_divides
from sccl.errors import InputError, ParameterError, unknown_name
from sccl.formats.common.contract import Format, FormatOptions, SizedPlan, WrittenFiles
from sccl.formats.files.plans import LoadedPlan
from sccl.transform.validated import validated_schedule, validated_steps


class EntryPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan, and for which buffers it was written."""

    name: str
    min_bytes: Annotated[NonNegative, "Size of a rank's buffer; inclusive."]
    max_bytes: Annotated[int | None, "Inclusive; null: no limit."]


class ExportOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl export'."""

    kind: Literal["export"] = "export"
    format: str
    path: FileText
    files: Annotated[tuple[str, ...], "Names of the files, if it is a folder."]
    plans: tuple[EntryPart, ...]
    command: Annotated[str, "Command that runs the written files."]
    notes: Annotated[tuple[str, ...], "Limits and assumptions of the files."]
    bytes: NonNegative


@dataclass(frozen=True, slots=True)
class ExportedFiles:
    """The result of an export.

    Attributes:
        inputs: Digests of the plans, by file.
        omitted: Names of plans that are the fastest at no size.
    """

    format: Format
    path: Path
    inputs: dict[str, str]
    entries: tuple[EntryPart, ...]
    omitted: tuple[str, ...]
    written: WrittenFiles

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder: for several files, or for runtimes that read folders."""
        return len(self.written.files) > 1 or (self.format.MIXES and not self.path.suffix)

    @property
    def command(self) -> str:
        """Return the command that runs it."""
        path, names = self.path, list(self.written.files)
        if self.is_folder and len(names) == 1:
            path = path / names[0]
        return self.written.command.replace("{path}", quote(str(path)))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on limits and assumptions."""
        left_out = [
            f"{name} is not the fastest at any size, and is left out" for name in self.omitted
        ]
        return (*left_out, *self.written.notes)


def export_size(form: Format, loaded: Sequence[LoadedPlan], size_bytes: int | None) -> int | None:
    """Return the requested size, or else the size of the schedules.

    Raises:
        ParameterError: A schedule has another size.
    """
    from sccl.core.schedule import Schedule  # noqa: PLC0415 - NumPy is slow to load

    if not form.BY_SIZE or Schedule in form.TAKES:
        return size_bytes
    for source in loaded:
        if isinstance(source.plan, KSynchronousPlan) or not isinstance(
            source.plan.chunk_bytes, int
        ):
            continue
        size = source.plan.chunk_bytes * source.plan.collective.chunks
        if size_bytes not in {None, size}:
            raise ParameterError(
                f"{source.file}: it is a schedule of {size} bytes, and size is {size_bytes}: leave "
                "--size out"
            )
        size_bytes = size
    return size_bytes


def parse_options(form: Format, option_texts: Sequence[str]) -> FormatOptions:
    """Parse options of a format.

    Raises:
        ParameterError: An option has not the form ``name=value``, or has an invalid value.
        UnknownNameError: There is no such option.
    """
    option_names = [field.name.replace("_", "-") for field in msgspec.structs.fields(form.Options)]
    values: dict[str, Any] = {}
    for text in option_texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(f"--set {text!r}: expected NAME=VALUE")
        if name not in option_names:
            hint = (
                f"{form.NAME} knows {', '.join(option_names)}"
                if option_names
                else f"{form.NAME} has no options"
            )
            raise unknown_name("option", name, option_names, hint)
        values[name.replace("-", "_")] = value
    try:
        return msgspec.convert(values, form.Options, strict=False)
    except msgspec.ValidationError as error:
        description = describe_problem(error, form.Options)
        raise ParameterError(
            f"--set {' '.join(option_texts)}: {description}; give another value"
        ) from error


def sized_plans(
    form: Format, loaded: Sequence[LoadedPlan], size_bytes: int | None
) -> tuple[SizedPlan, ...]:
    """Return verified plans in the form for a format, each with the sizes at which it is fastest.

    Raises:
        InputError: One fails verification, or they are not for one machine and collective.
    """
    taken = [_convert_plan(form, source, size_bytes) for source in loaded]
    of_one: dict[str, list[SizedPlan]] = {}
    firsts: dict[str, LoadedPlan] = {}
    for source, entry in zip(loaded, taken, strict=True):
        name = source.plan.collective.name
        _check_together(form, source, firsts.setdefault(name, source) if form.MIXES else loaded[0])
        _check_together(form, source, loaded[0], mixed=form.MIXES)
        of_one.setdefault(name, []).append(entry)
    return tuple(entry for group in of_one.values() for entry in _winning_ranges(group))


def _check_together(
    form: Format, source: LoadedPlan, first: LoadedPlan, *, mixed: bool = False
) -> None:
    """Check that two plans have the same machine and, unless ``mixed``, collective and root.

    Raises:
        InputError: They have not.
    """
    plan, first_plan = source.plan, first.plan
    is_alike = mixed or (plan.collective.name, plan.collective.root) == (
        first_plan.collective.name,
        first_plan.collective.root,
    )
    if is_alike and plan.topology == first_plan.topology:
        return
    kind, expected = (
        f"{each.collective.name} on {each.topology.name!r}"
        + ("" if each.collective.root is None else f" with root {each.collective.root}")
        for each in (plan, first_plan)
    )
    raise InputError(
        f"{source.file}: it is {kind}, and {first.file} is {expected}: give plans for "
        f"{'one machine, with one root per collective' if form.MIXES else 'one collective'}, which "
        f"{form.NAME} requires"
    )


def _winning_ranges(entries: Sequence[SizedPlan]) -> Iterator[SizedPlan]:
    """Yield plans of one collective, each with the sizes at which it is modeled fastest."""
    algorithms = [e.plan for e in entries if isinstance(e.plan, Algorithm)]
    if len(algorithms) < len(entries) or len(entries) == 1:
        yield from entries
        return
    points = [(a.steps, a.bandwidth_cost) for a in algorithms]
    begin = 0
    for span in fastest_by_size(points, Costs.from_topology(algorithms[0].topology)):
        end = None if span.to_bytes is None else int(span.to_bytes)
        if end is None or end >= begin:
            yield replace(entries[span.index], min_bytes=begin, max_bytes=end)
            begin = begin if end is None else end + 1


def _convert_plan(form: Format, source: LoadedPlan, size_bytes: int | None) -> SizedPlan:
    """Verify a plan, and convert it to a form that the format supports: by steps, or by times.

    Raises:
        InputError: It fails verification, or cannot be converted.
    """
    from sccl.core.schedule import Schedule  # noqa: PLC0415 - NumPy is slow to load
    from sccl.sim.settings import finest_tick  # noqa: PLC0415
    from sccl.transform.retime import schedule_algorithm  # noqa: PLC0415

    where, plan, name = str(source.file), source.plan, slugify(source.file.stem)
    if Schedule in form.TAKES and not isinstance(plan, KSynchronousPlan):
        return SizedPlan(name, validated_schedule(plan, where), size_bytes=size_bytes)
    accepted = validated_steps(plan, where)
    algorithm, together = accepted.algorithm, accepted.combined_transfers
    if form.BY_SIZE:
        if size_bytes is None:
            raise ParameterError(f"{where}: {form.NAME} holds bytes: give --size, such as 1MB")
        check_divides(size_bytes, algorithm.collective.chunks)
    if Algorithm in form.TAKES:
        return SizedPlan(name, algorithm, size_bytes=size_bytes, together=together)
    assert size_bytes is not None
    chunk = size_bytes // algorithm.collective.chunks
    tick = finest_tick(algorithm.topology, chunk, algorithm.num_sends)
    retimed = schedule_algorithm(algorithm, chunk, tick_ps=tick)
    return SizedPlan(name, retimed, size_bytes=size_bytes)


def write_files(exported: ExportedFiles) -> None:
    """Write the file or the folder of an export.

    Raises:
        InputError: It cannot be written.
    """
    files = exported.written.files
    if exported.is_folder:
        check_can_create(exported.path)
        write_folder(exported.path, files, last=max(files))
        return
    (content,) = files.values()
    check_can_write(exported.path)
    write_bytes_atomically(exported.path, content)


def export_output(exported: ExportedFiles) -> ExportOutput:
    """Return the JSON output."""
    return build_output(
        ExportOutput,
        exported,
        format=exported.format.NAME,
        files=sorted(exported.written.files) if exported.is_folder else (),
        plans=exported.entries,
        bytes=sum(map(len, exported.written.files.values())),
    )
