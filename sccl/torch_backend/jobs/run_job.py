"""Run PyTorch jobs under a plan, or record their calls."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from sccl.core.files.disk import write_atomically
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import FileText
from sccl.errors import InputError, ScclWarning, ToolError
from sccl.runtime.command_sessions import run_session
from sccl.torch_backend.script import CLAIMED_SUFFIX, RECORD, SCRIPT, format_script
from sccl.training.files.workload_shapes import WorkloadWire
from sccl.training.files.workloads import workload_to_wire
from sccl.training.traces import TraceHints
from sccl.training.workload_outputs import ImportedWorkload, import_workload

_STDERR = 2

_BACKEND_HINT = (
    "call init_process_group('sccl') in it, and import sccl.torch if torch loads no extensions by "
    "itself"
)


class EnforceOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train run'."""

    kind: Literal["enforce"] = "enforce"
    command: Annotated[tuple[str, ...], "Command of the job."]
    plan: Annotated[FileText | None, "Plan that it followed, if any."]
    understood: Annotated[tuple[str, ...], "Recorded calls, by rank."] = ()
    assumed: Annotated[tuple[str, ...], "Assumptions about the recording."] = ()
    file: Annotated[FileText | None, "Written file, if any."]
    workload: Annotated[WorkloadWire | None, "Recorded workload, if any."]


def run_job(
    words: Sequence[str], environment: Mapping[str, str], end: signal.Signals, *, aside: bool
) -> None:
    """Run a job to its end. An exception in this function ends the job.

    Args:
        words: Command of the job.
        environment: Variables that are added to those of this process.
        end: Signal that ends the job. torchrun forwards it to its workers, which have their own
            sessions.
        aside: Whether the job's output goes to stderr.

    Raises:
        InputError: There is no such command.
        ToolError: The job failed.
    """
    if not words or shutil.which(words[0]) is None:
        raise InputError(
            f"there is no command {(words[0] if words else '')!r:.200}: give the command that "
            "starts the job, as in: sccl train run --record w.json -- torchrun job.py"
        )
    out = _STDERR if aside else None
    with run_session(words, end, env={**os.environ, **environment}, stdout=out) as process:
        code = process.wait()
    if code:
        reason = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise ToolError(f"the job ended with {reason}: nothing was written")


def run_under_plan(
    words: Sequence[str], plan: Path | None, output: Path | None, *, aside: bool = False
) -> ImportedWorkload | None:
    """Run a job under a plan, or record its calls, or both.

    Args:
        words: Command of the job.
        plan: File of a training plan. None: calls keep their order.
        output: File for the recorded workload. None: nothing is recorded.
        aside: Whether the job's output goes to stderr.

    Warns:
        ScclWarning: The job did not load the plan, or it was interrupted.

    Raises:
        KeyboardInterrupt: The user interrupted, and there is no recording to write.
        InputError: There is no such command, the plan is invalid, nothing was recorded, or the
            recording has no repeated steps.
        ToolError: The job failed.
    """
    with tempfile.TemporaryDirectory(prefix="sccl-enforce-") as name:
        folder = Path(name)
        environment = {} if output is None else {RECORD: name}
        if plan is not None:
            from sccl.torch_backend.jobs.compile_plan import compile_file  # noqa: PLC0415 - loads synthesizers

            environment[SCRIPT] = str(folder / "script.json")
            write_atomically(folder / "script.json", format_script(compile_file(plan)))
        interrupted = False
        # After SIGINT Python runs its exit handlers, so ranks write their recordings.
        end = signal.SIGTERM if output is None else signal.SIGINT
        try:
            run_job(words, environment, end, aside=aside)
        except KeyboardInterrupt:
            if output is None:
                raise
            interrupted = True
        if plan is not None and not (folder / f"script{CLAIMED_SUFFIX}").exists():
            message = f"the job has not asked for the plan, and ran without it: {_BACKEND_HINT}"
            warnings.warn(message, ScclWarning, stacklevel=2)
        if output is None:
            return None
        if interrupted:
            return _save_interrupted(folder, output)
        return _import_recording(folder, output)


def _import_recording(folder: Path, output: Path) -> ImportedWorkload:
    files = sorted(folder.glob("rank-*.json"), key=lambda file: int(file.stem[5:]))
    if not files:
        raise InputError(
            f"the job recorded nothing: {_BACKEND_HINT}; it must destroy its groups, or end "
            "normally"
        )
    return import_workload(files, TraceHints(), output.name.partition(".")[0], output)


def _save_interrupted(folder: Path, output: Path) -> ImportedWorkload:
    """Write the recorded steps of an interrupted job, and warn that they are incomplete."""
    try:
        recorded = _import_recording(folder, output)
    except InputError as error:
        message = f"the recording was interrupted, and nothing was written: {error}"
        warnings.warn(message, ScclWarning, stacklevel=3)
        raise KeyboardInterrupt from error
    message = f"the recording was interrupted: {output} has the steps until then"
    warnings.warn(message, ScclWarning, stacklevel=3)
    return recorded


def enforce_output(
    words: Sequence[str],
    plan: Path | None,
    recorded: ImportedWorkload | None,
    output: Path | None,
) -> EnforceOutput:
    """Return the JSON output."""
    read = None if recorded is None else recorded.read
    return build_output(
        EnforceOutput,
        read,
        inputs={},
        command=words,
        plan=plan,
        file=output,
        workload=None if read is None else workload_to_wire(read.workload),
    )
