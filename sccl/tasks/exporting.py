"""``sccl export``: plans in the formats that others run, simulate and draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sccl import formats
from sccl.core.algorithm import Algorithm, KSynchronous
from sccl.core.cost import Costs, winners
from sccl.core.files.disk import (
    check_can_create,
    check_can_write,
    slug,
    write_bytes_atomically,
    write_folder,
)
from sccl.core.files.fields import Count, FileText
from sccl.core.files.text import problem
from sccl.errors import InputError, ParameterError, unknown_name
from sccl.formats import Format, FormatOptions, SizedPlan, SteppedPlan, WrittenFiles
from sccl.tasks.files import LoadedPlan, load_plans
from sccl.tasks.judged import judged_schedule, judged_steps
from sccl.tasks.outputs import Output, plan_digests
from sccl.tasks.sizes import check_divides
from sccl.tasks.training_files import (
    LoadedTraining,
    right_timeline,
    training_digests,
    training_files,
)

_COMPARED = "tuner-csv"
"""Format whose files have times of other algorithms next to the plans."""


class EntryPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan, and for which buffers it was written."""

    name: str
    min_bytes: Annotated[int, Meta(ge=0, description="Size of a rank's buffer; inclusive.")]
    max_bytes: Annotated[int | None, Meta(description="Inclusive; null: all that are larger.")]


class ExportOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl export'."""

    kind: Literal["export"] = "export"
    format: str
    path: FileText
    files: Annotated[tuple[str, ...], Meta(description="Names of the files, if it is a folder.")]
    plans: tuple[EntryPart, ...]
    command: Annotated[str, Meta(description="Command that runs the written files.")]
    notes: Annotated[tuple[str, ...], Meta(description="Limits and assumptions of the files.")]
    bytes: Count


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export.

    Attributes:
        inputs: Digests of the plans, by file.
        left_out: Names of plans that are the fastest at no size.
    """

    format: Format
    path: Path
    inputs: dict[str, str]
    entries: tuple[EntryPart, ...]
    left_out: tuple[str, ...]
    written: WrittenFiles

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder: of several files, or where runtimes read folders."""
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
        left_out = [f"{name} is the fastest at no size, and left out" for name in self.left_out]
        return (*left_out, *self.written.notes)


def export(
    words: Iterable[str | Path],
    format_name: str,
    path: Path,
    size_bytes: int | None,
    told: Sequence[str],
) -> Exported:
    """Write the plans of files in a format.

    Args:
        size_bytes: of the C chunks, for formats that hold bytes. None: unknown.
        told: ``name=value``, for the format's options.

    Raises:
        InputError: there is no such format or option, a file holds no plan or one that the judge
            rejects, the format does not allow them, or nothing can be written there.
    """
    form = formats.load(format_name)
    options = options_of(form, told)
    if not form.TAKES:
        form.write((), options)  # says why it is only read
    training, rest = training_files(words)
    if training:
        if size_bytes is not None or told:
            what = "--set" if told else "--size"
            raise ParameterError(
                f"{training[0].file}: a training plan has its own bytes, and nothing to choose: "
                f"leave {what} out"
            )
        return _step(form, training, rest, path)
    loaded = load_plans(rest)
    size_bytes = _size_of(form, loaded, size_bytes)
    entries = _entries(form, loaded, size_bytes)
    if form.NAME == _COMPARED:
        from sccl.tasks.tuner import rules_beside  # noqa: PLC0415 - loads the solvers

        written = rules_beside(entries, size_bytes)
    else:
        written = form.write(entries, options)
    given = {str(one.file): one.plan for one in loaded}
    taken = {entry.name for entry in entries}
    left_out = tuple(name for one in loaded if (name := slug(one.file.stem)) not in taken)
    parts = tuple(
        EntryPart(name=e.name, min_bytes=e.min_bytes, max_bytes=e.max_bytes) for e in entries
    )
    found = Exported(form, path, plan_digests(given), parts, left_out, written)
    _write(found)
    return found


def _step(
    form: Format,
    training: Sequence[LoadedTraining],
    rest: Sequence[str | Path],
    path: Path,
) -> Exported:
    """Write a training plan in a format.

    Raises:
        InputError: the format holds none, more is given beside it, or it fails verification.
    """
    one = training[0]
    if form.NAME not in formats.OF_STEPS:
        raise InputError(
            f"{one.file}: it is a training plan, and {form.NAME} holds none: export it as "
            f"{' or '.join(sorted(formats.OF_STEPS))}"
        )
    if len(training) > 1 or rest:
        raise InputError(f"{one.file}: it is a training plan: export each one separately")
    from sccl.train.jobs import all_waits  # noqa: PLC0415 - loads NumPy

    timeline = right_timeline(one)
    stepped = SteppedPlan(
        slug(one.file.stem), one.plan, timeline, all_waits(one.plan.workload, one.plan.memory_bytes)
    )
    written = formats.step_writer(form.NAME)(stepped)
    entry = EntryPart(name=stepped.name, min_bytes=0, max_bytes=None)
    found = Exported(form, path, training_digests([one]), (entry,), (), written)
    _write(found)
    return found


def _size_of(form: Format, loaded: Sequence[LoadedPlan], size_bytes: int | None) -> int | None:
    """Return the size that is told, or that schedules have by themselves.

    Raises:
        ParameterError: theirs is another.
    """
    from sccl.core.schedule import Schedule  # noqa: PLC0415 - NumPy is slow to load

    if not form.BY_SIZE or Schedule in form.TAKES:
        return size_bytes
    for one in loaded:
        if isinstance(one.plan, KSynchronous) or not isinstance(one.plan.chunk_bytes, int):
            continue
        own = one.plan.chunk_bytes * one.plan.collective.chunks
        if size_bytes not in {None, own}:
            raise ParameterError(
                f"{one.file}: it is a schedule of {own} bytes, and size is {size_bytes}: leave "
                "--size out"
            )
        size_bytes = own
    return size_bytes


def options_of(form: Format, told: Sequence[str]) -> FormatOptions:
    """Return a format's options as they are told.

    Raises:
        ParameterError: one is not of the form ``name=value``, or has a value that it cannot have.
        UnknownNameError: there is no such option.
    """
    known = [field.name.replace("_", "-") for field in msgspec.structs.fields(form.Options)]
    values: dict[str, Any] = {}
    for text in told:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(f"--set {text!r}: expected NAME=VALUE")
        if name not in known:
            hint = f"{form.NAME} knows {', '.join(known)}" if known else f"{form.NAME} knows none"
            raise unknown_name("option", name, known, hint)
        values[name.replace("-", "_")] = value
    try:
        return msgspec.convert(values, form.Options, strict=False)
    except msgspec.ValidationError as error:
        what = problem(error, form.Options)
        raise ParameterError(f"--set {' '.join(told)}: {what}; give another value") from error


def _entries(
    form: Format, loaded: Sequence[LoadedPlan], size_bytes: int | None
) -> tuple[SizedPlan, ...]:
    taken = [_taken(form, one, size_bytes) for one in loaded]
    of_one: dict[str, list[SizedPlan]] = {}
    firsts: dict[str, LoadedPlan] = {}
    for one, entry in zip(loaded, taken, strict=True):
        name = one.plan.collective.name
        _check_together(form, one, firsts.setdefault(name, one) if form.MIXES else loaded[0])
        _check_together(form, one, loaded[0], mixed=form.MIXES)
        of_one.setdefault(name, []).append(entry)
    return tuple(entry for those in of_one.values() for entry in _ranges(those))


def _check_together(
    form: Format, one: LoadedPlan, first: LoadedPlan, *, mixed: bool = False
) -> None:
    """Check that two plans are for one machine, and if not mixed for one collective and root.

    Raises:
        InputError: they are not.
    """
    plan, beside = one.plan, first.plan
    same = mixed or (plan.collective.name, plan.collective.root) == (
        beside.collective.name,
        beside.collective.root,
    )
    if same and plan.topology == beside.topology:
        return
    what, whose = (
        f"{each.collective.name} on {each.topology.name!r}"
        + ("" if each.collective.root is None else f" with root {each.collective.root}")
        for each in (plan, beside)
    )
    raise InputError(
        f"{one.file}: it is {what}, and {first.file} is {whose}: {form.NAME} takes plans of "
        f"{'one machine, and of a collective one root,' if form.MIXES else 'one collective'} "
        "together: name those"
    )


def _ranges(entries: Sequence[SizedPlan]) -> Iterator[SizedPlan]:
    """Yield plans of one collective, each for the sizes at which the cost model has it win."""
    algorithms = [e.plan for e in entries if isinstance(e.plan, Algorithm)]
    if len(algorithms) < len(entries) or len(entries) == 1:
        yield from entries
        return
    points = [(a.steps, a.bandwidth_cost) for a in algorithms]
    begin = 0
    for span in winners(points, Costs.of(algorithms[0].topology)):
        end = None if span.to_bytes is None else int(span.to_bytes)
        if end is None or end >= begin:
            yield replace(entries[span.index], min_bytes=begin, max_bytes=end)
            begin = begin if end is None else end + 1


def _taken(form: Format, one: LoadedPlan, size_bytes: int | None) -> SizedPlan:
    """Return a plan, judged, as the format takes it: with steps, or with times at a size.

    Raises:
        InputError: it fails verification, or it is not to be had so.
    """
    from sccl.core.schedule import Schedule  # noqa: PLC0415 - NumPy is slow to load
    from sccl.tasks.terms import finest_tick  # noqa: PLC0415
    from sccl.transform.retime import schedule_of  # noqa: PLC0415

    where, plan, name = str(one.file), one.plan, slug(one.file.stem)
    if Schedule in form.TAKES and not isinstance(plan, KSynchronous):
        return SizedPlan(name, judged_schedule(plan, where), size_bytes=size_bytes)
    found = judged_steps(plan, where)
    algorithm, together = found.algorithm, found.together
    if form.BY_SIZE:
        if size_bytes is None:
            raise ParameterError(f"{where}: {form.NAME} holds bytes: give --size, such as 1MB")
        check_divides(size_bytes, algorithm.collective.chunks)
    if Algorithm in form.TAKES:
        return SizedPlan(name, algorithm, size_bytes=size_bytes, together=together)
    assert size_bytes is not None
    chunk = size_bytes // algorithm.collective.chunks
    tick = finest_tick(algorithm.topology, chunk, algorithm.num_sends)
    retimed = schedule_of(algorithm, chunk, tick_ps=tick)
    return SizedPlan(name, retimed, size_bytes=size_bytes)


def _write(found: Exported) -> None:
    """Write the files: one, or those of a folder.

    Raises:
        InputError: they cannot be written.
    """
    files = found.written.files
    if found.is_folder:
        check_can_create(found.path)
        write_folder(found.path, files, last=max(files))
        return
    (content,) = files.values()
    check_can_write(found.path)
    write_bytes_atomically(found.path, content)


def export_output(found: Exported) -> ExportOutput:
    """Return the JSON output."""
    return ExportOutput(
        inputs=found.inputs,
        format=found.format.NAME,
        path=str(found.path),
        files=tuple(sorted(found.written.files)) if found.is_folder else (),
        plans=found.entries,
        command=found.command,
        notes=found.notes,
        bytes=sum(map(len, found.written.files.values())),
    )
