"""Write plans and training plans in the formats of other tools."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from sccl import formats
from sccl.api.arguments import check_arguments
from sccl.core.files.disk import slugify
from sccl.core.files.outputs import build_output, plan_digests
from sccl.core.sizes import parse_size
from sccl.errors import InputError, ParameterError
from sccl.formats.common.contract import Format, VerifiedTrainingPlan
from sccl.formats.files.export_plans import (
    EntryPart,
    ExportedFiles,
    export_size,
    parse_options,
    sized_plans,
    write_files,
)
from sccl.formats.files.plans import load_plans
from sccl.training.plan_files import (
    LoadedTraining,
    load_training_files,
    training_digests,
    valid_timeline,
)

_TUNER_FORMAT = "tuner-csv"
"""Format whose files have times of other algorithms next to the plans."""


@check_arguments
def export(
    *files: str | PathLike[str],
    format: str,  # noqa: A002 - as the command line calls it
    path: str | PathLike[str],
    size: int | str | None = None,
    options: Sequence[str] = (),
) -> ExportedFiles:
    """Write algorithms, schedules, or a training plan for another runtime, simulator, or viewer.

    Args:
        files: Files, folders, or patterns such as ``"found/*.json"``.
        format: ``"mscclpp"``, ``"msccl-xml"``, ... (``sccl export --help``).
        path: File, or a folder for several files.
        size: Size of C chunks, for formats that contain bytes.
        options: Options of the format, each ``"name=value"``.

    Returns:
        The written files, with the ``command`` that runs them, and ``notes`` on their limits.

    Raises:
        InputError: The format or an option does not exist, a file contains no valid plan, the
            format cannot express the plans, or the output cannot be written.

    Examples:
        >>> import sccl
        >>> ring = sccl.baseline("ring", "allgather", "ring:4").save("ring.json")
        >>> sccl.export(ring, format="msccl-xml", path="ring.xml").command
        'RCCL_MSCCL_FORCE_ENABLE=1 MSCCL_ALGO_DIR=$(dirname ring.xml) PROGRAM'
    """
    if not files:
        raise ParameterError("sccl.export is given no file")
    size_bytes = None if size is None else parse_size(str(size))
    form = formats.load(format)
    parsed_options = parse_options(form, options)
    if not form.TAKES:
        form.write((), parsed_options)  # raises the reason why it is only read
    training, rest = load_training_files([Path(file) for file in files])
    if training:
        if size_bytes is not None or options:
            setting = "options (--set)" if options else "size"
            raise ParameterError(
                f"{training[0].file}: a training plan defines its own sizes: leave {setting} out"
            )
        return _export_training(form, training, rest, Path(path))
    loaded = load_plans(rest)
    size_bytes = export_size(form, loaded, size_bytes)
    entries = sized_plans(form, loaded, size_bytes)
    if form.NAME == _TUNER_FORMAT:
        from sccl.comparison.tuner_rules import rules_for_plans  # noqa: PLC0415 - loads the solvers

        written = rules_for_plans(entries, size_bytes)
    else:
        written = form.write(entries, parsed_options)
    plans = {str(source.file): source.plan for source in loaded}
    exported_names = {entry.name for entry in entries}
    left_out = tuple(
        name for source in loaded if (name := slugify(source.file.stem)) not in exported_names
    )
    parts = tuple(build_output(EntryPart, entry) for entry in entries)
    exported = ExportedFiles(form, Path(path), plan_digests(plans), parts, left_out, written)
    write_files(exported)
    return exported


def _export_training(
    form: Format,
    training: Sequence[LoadedTraining],
    rest: Sequence[str | Path],
    path: Path,
) -> ExportedFiles:
    loaded = training[0]
    if form.NAME not in formats.STEP_WRITERS:
        raise InputError(
            f"{loaded.file}: it is a training plan, which {form.NAME} does not support: export it "
            f"as {' or '.join(sorted(formats.STEP_WRITERS))}"
        )
    if len(training) > 1 or rest:
        raise InputError(f"{loaded.file}: it is a training plan: export each one separately")
    from sccl.training.scheduling.workload_problem import all_waits  # noqa: PLC0415 - loads NumPy

    timeline = valid_timeline(loaded)
    stepped = VerifiedTrainingPlan(
        slugify(loaded.file.stem),
        loaded.plan,
        timeline,
        all_waits(loaded.plan.workload, loaded.plan.memory_bytes),
    )
    written = formats.step_writer(form.NAME)(stepped)
    entry = EntryPart(name=stepped.name, min_bytes=0, max_bytes=None)
    exported = ExportedFiles(form, path, training_digests([loaded]), (entry,), (), written)
    write_files(exported)
    return exported
