"""``sccl synth tacos``, ``teccl``, and ``taccl``: schedules of chunks of one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from json import dumps
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import (
    ExitCode,
    err,
    exit_if_stopped,
    notify_first_compile,
    out,
    print_output,
    report_errors,
)
from sccl.cli.subject import SketchedProblemOptions
from sccl.core.cost import format_bytes, format_us
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.files.outputs import to_plain
from sccl.core.formatting import format_count, single_line
from sccl.errors import ParameterError
from sccl.formats.files.plans import write_plan
from sccl.synth.common.contract import (
    MatchingProgress,
    Notify,
    SearchProgress,
    VerificationProgress,
)
from sccl.synth.common.problem import build_spec
from sccl.synth.common.synthesis import (
    Synthesis,
    SynthesisOutput,
    SynthesisProblem,
    build_synthesis_problem,
    no_result_reason,
    synthesize,
)
from sccl.synth.taccl.options import Options as TacclOptions
from sccl.synth.taccl.output import TacclOutput, obeyed_sketch, taccl_output
from sccl.synth.tacos.options import Options as TacosOptions
from sccl.synth.tacos.output import tacos_output
from sccl.synth.teccl.options import Options as TecclOptions
from sccl.synth.teccl.output import TecclOutput, teccl_output
from sccl.view.text.progress_notes import share_bar


@report_errors
def tacos(
    problem_options: SketchedProblemOptions,
    *,
    size: options.Size = None,
    chunks: options.SketchedChunks = None,
    sketch: options.BySketch = None,
    method_options: Annotated[dict[str, Any], options.DerivedOptions.of(TacosOptions)],
    seed: options.Seed = 0,
    timeout: options.Deadline = None,
    record: Annotated[
        bool,
        "Write the schedule with -o, or only the seed, settings, and result that regenerate it.",
    ] = True,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Schedule thousands of ranks in seconds: match free links with chunks greedily (TACOS).

    The schedule is verified and printed with a lower bound for schedules of such chunks. With
    links of equal cost and millions of transfers the file is packed instead of JSON, with little
    more than two bytes per transfer. 'sccl check' verifies it, 'sccl show' extracts parts of it.

    Exit code 0: found, 2: bad input, 3: time ran out, 130: interrupted. The best schedule so far
    is kept.
    """
    options.check_writable(output)
    values = {"chunks": chunks, **method_options}
    problem = _build("tacos", problem_options, size, sketch, values, seed=seed, timeout=timeout)
    with _transfer_bar(problem) as on_progress:
        result = _find(problem, on_progress)
    summary = tacos_output(
        result, output, asdict(problem_options) | {"sketch": sketch}, recorded=record
    )
    if output is None or record:
        _write_schedule(result, output)
    else:
        write_atomically(output, dumps(to_plain(summary), indent=1) + "\n")
    bound = f"lower bound {format_us(summary.bound_us)} for such chunks"
    bound += " (each sent separately)" if summary.alpha == "occupies" else ""
    bound += f" within sketch {single_line(summary.sketch)}" if summary.sketch else ""
    _show(result, summary, bound, recorded=record, json=json)


@report_errors
def teccl(
    problem_options: SketchedProblemOptions,
    *,
    size: options.Size = None,
    chunks: options.SketchedChunks = None,
    sketch: options.BySketch = None,
    method_options: Annotated[dict[str, Any], options.DerivedOptions.of(TecclOptions)],
    budget: options.Budget = TecclOptions.DEFAULT_BUDGET,
    seed: options.Seed = 0,
    timeout: options.Deadline = None,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Find a schedule of few equal chunks for up to some tens of ranks (TE-CCL).

    Starts from a list schedule and improves it with CP-SAT interval models, which prove optimality
    on small instances, or uses TE-CCL's epoch models. The schedule is verified and printed with a
    lower bound for schedules of such chunks.

    Exit code 0: found, 2: bad input, 3: time or budget ran out, 130: interrupted. The best
    schedule so far is kept.
    """
    options.check_writable(output)
    values = {"chunks": chunks, **method_options}
    problem = _build(
        "teccl", problem_options, size, sketch, values, budget, seed=seed, timeout=timeout
    )
    with _search_status(problem, quiet=json) as on_progress:
        result = _find(problem, on_progress)
    summary = teccl_output(result, output, method_options["bandwidth"])
    _write_schedule(result, output)
    bound = f"lower bound {format_us(summary.bound_us)}"
    if summary.weighted_us is not None and summary.weighted_bound_us is not None:
        bound = (
            f"weighted mean completion time {format_us(summary.weighted_us)}; lower bound "
            f"{format_us(summary.weighted_bound_us)}"
        )
    _show(result, summary, f"{bound} ({summary.bound_of})", _teccl_lines(summary), json=json)


@report_errors
def taccl(
    problem_options: SketchedProblemOptions,
    *,
    size: options.Size = None,
    method_options: Annotated[dict[str, Any], options.DerivedOptions.of(TacclOptions)],
    budget: options.Budget = TacclOptions.DEFAULT_BUDGET,
    seed: options.Seed = 0,
    timeout: options.Deadline = None,
    output: options.Output = None,
    keep_sketch: Annotated[Path | None, "File for the sketch of the schedule."] = None,
    json: options.Json = False,
) -> None:
    """Find a schedule within a communication sketch, which restricts links and chunks (TACCL).

    A sketch restricts links, senders of a node, symmetries, and the number of chunks, so that
    clusters are planned in seconds. The schedule is verified and printed with a lower bound for
    schedules of such chunks in any sketch.

    Exit code 0: found, 2: bad input, 3: time or budget ran out, 130: interrupted. The best
    schedule so far is kept.
    """
    options.check_writable(output)
    options.check_writable(keep_sketch)
    if output is not None and keep_sketch is not None and output.resolve() == keep_sketch.resolve():
        raise ParameterError(
            f"-o and --keep-sketch both name {output}: a schedule and a sketch need a file each"
        )
    sketch = method_options.pop("sketch")
    problem = _build(
        "taccl", problem_options, size, sketch, method_options, budget, seed=seed, timeout=timeout
    )
    with _search_status(problem, quiet=json) as on_progress:
        result = _find(problem, on_progress)
    summary = taccl_output(result, output, keep_sketch)
    _write_schedule(result, output)
    if keep_sketch is not None and (obeyed := obeyed_sketch(result)) is not None:
        write_atomically(keep_sketch, to_text(obeyed))
    bound = f"lower bound {format_us(summary.bound_us)} for schedules in any sketch"
    bound += f" ({summary.bound_of})"
    _show(result, summary, bound, _taccl_lines(summary), json=json)


# --- the search ----------------------------------------------------------------------------------


def _build(
    name: str,
    problem_options: SketchedProblemOptions,
    size: str | None,
    sketch: Path | None,
    method_options: Mapping[str, object],
    budget: float | None = None,
    *,
    seed: int,
    timeout: float | None,
) -> SynthesisProblem:
    """Return the problem that options state.

    Raises:
        InputError: An option is out of range, or does not fit the others.
    """
    return build_synthesis_problem(
        name,
        problem_options.machine,
        lambda machine: build_spec(machine, *problem_options.collective_and_root(machine)),
        size=size,
        sketch=sketch,
        options=method_options,
        seed=seed,
        timeout_s=timeout,
        budget=budget,
    )


def _find(problem: SynthesisProblem, on_progress: Notify) -> Synthesis:
    """Return the result of a synthesizer, which has a schedule.

    Raises:
        Exit: There is none.
    """
    for note in problem.notes:
        err().print(note, markup=False, soft_wrap=True)
    result = synthesize(problem, on_progress, notify_first_compile)
    if result.solution is None:
        err().print(f"unknown: {no_result_reason(result.ended)}", markup=False)
        raise typer.Exit(ExitCode.UNKNOWN)
    return result


@contextmanager
def _transfer_bar(problem: SynthesisProblem) -> Iterator[Notify]:
    """Yield a function that shows the number of transfers found and verified so far."""
    activity = single_line(problem.title)
    with share_bar(err(), activity) as bar:

        def show(event: object) -> None:
            if isinstance(event, MatchingProgress):
                bar(event.sends, event.total)
            elif isinstance(event, VerificationProgress):
                bar(event.sends, event.total, f"verifying {activity}")

        yield show


@contextmanager
def _search_status(problem: SynthesisProblem, *, quiet: bool) -> Iterator[Notify]:
    """Yield a function that shows the best schedule so far and the lower bound."""
    activity = escape(single_line(problem.title))
    with err().status(activity) as status:

        def show(event: object) -> None:
            if isinstance(event, SearchProgress) and not quiet:
                within = f", {escape(single_line(event.sketch))}" if event.sketch else ""
                gap = event.us / event.lower_bound_us - 1 if event.lower_bound_us else 0.0
                status.update(
                    f"{activity}{within}: schedule {format_us(event.us)}, lower bound "
                    f"{format_us(event.lower_bound_us)} (gap {gap:.2%})"
                )

        yield show


def _write_schedule(result: Synthesis, output: Path | None) -> None:
    if output is not None:
        with share_bar(err(), f"writing {single_line(output)}") as bar:
            write_plan(output, result.plan, bar)


# --- text ----------------------------------------------------------------------------------------

_COMBINATION_TEXT = {
    "reversal": "reversal: the dual reversed in time; for allreduce, one phase after the other",
    "overlap": "reversal: each chunk is sent as soon as it is reduced",
    "chains": "chains: each chunk is reduced along its path to a root, then broadcast from it",
    "direct": "direct demands: each contribution is sent separately to the rank that reduces it",
    "gathered": "gathering: each contribution is sent separately to all ranks, and every rank "
    "reduces",
}


def _show(
    result: Synthesis,
    summary: SynthesisOutput,
    bound: str,
    details: Iterable[str] = (),
    *,
    recorded: bool = True,
    json: bool,
) -> None:
    """Print a result, and exit with its code.

    Args:
        bound: Lower bound, as text.
        details: Lines of the synthesizer.
        recorded: Whether the file, if any, holds the schedule.

    Raises:
        Exit: The search ended early.
    """
    if json:
        print_output(summary)
        exit_if_stopped(result.ended)
        return
    basis = "per element" if result.problem.request.spec.counts else "per rank"
    title = escape(f"{summary.collective} on {single_line(summary.topology)}")
    met = (
        "[green]lower bound attained[/]"
        if summary.proved
        else f"gap {float(result.best.gap or 0):.2%}"
    )
    console = out()
    console.print(
        f"{title}, {format_bytes(summary.size_bytes)} {basis} in C={summary.chunks}: "
        f"[bold]{format_us(summary.finish_us)}[/] ({format_count(summary.sends, 'transfer')}, "
        f"{summary.seconds:.2f} s, seed {summary.seed}), alpha {summary.alpha}"
    )
    console.print(f"{escape(bound)}: {met}")
    lines = list(details)
    if summary.ended:
        lines.append(f"{summary.ended}: this is the best plan so far")
    if summary.file is None:
        lines.append("not written: add -o FILE")
    elif recorded:
        file = single_line(summary.file)
        command = f"sccl check {single_line(quote(summary.file))}"
        lines.append(f"written to {file}; verify it with: {command}")
    else:
        lines.append(
            f"written to {single_line(summary.file)}: the inputs that reproduce the schedule, not "
            "the schedule itself"
        )
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    exit_if_stopped(result.ended)


def _teccl_lines(summary: TecclOutput) -> Iterator[str]:
    for part in summary.tenants:
        yield (
            f"  {single_line(part.collective)}, priority {part.priority}: finished after "
            f"{format_us(part.finish_us)}, lower bound alone {format_us(part.bound_us)}"
        )
    if summary.epochs is not None:
        yield f"scheduled in {format_count(summary.epochs, 'epoch')} of {summary.epoch_us:g} us"
    elif summary.by and summary.model in {"milp", "astar"} and summary.by != summary.model:
        ended = "its rounds did not end" if summary.model == "astar" else "it improved nothing"
        yield f"scheduled by {summary.by}, not by model {summary.model}: {ended}"
    if summary.bandwidth:
        yield (
            f"bandwidth varies by {single_line(summary.bandwidth)}: 'sccl check' and "
            "'sccl simulate' use these times unchanged"
        )
    if summary.combined is not None:
        yield f"combined by {_COMBINATION_TEXT[summary.combined]}"


def _taccl_lines(summary: TacclOutput) -> Iterator[str]:
    yield f"sketch {single_line(summary.sketch)}"
    for number, phase in enumerate(summary.phases, 1):
        which = f"phase {number}: " if len(summary.phases) > 1 else ""
        yield (
            f"  {which}routes alone {format_us(phase.relaxed_us)}; by {phase.by} "
            f"{format_us(phase.tried[phase.by])}"
        )
    if summary.sketch_file:
        yield f"sketch written to {single_line(summary.sketch_file)}"
