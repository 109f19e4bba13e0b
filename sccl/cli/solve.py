"""``sccl solve``: whether an algorithm with C chunks, S steps, and R rounds exists."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_output, report_errors
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.collectives import Spec
from sccl.core.answer import Answer, Sat, verdict
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.files.outputs import question_digests
from sccl.core.formatting import single_line
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.synth.syncoll.question_search import find_algorithm
from sccl.synth.syncoll.search_options import SearchOptions, StoreOptions, build_settings
from sccl.synth.syncoll.smt2_output import Smt2Output, problem_text
from sccl.transform import Question, build_question
from sccl.view.text.reasons import answer_reason, answer_solver
from sccl.view.text.solve_output import solve_output

_EXIT = {"sat": ExitCode.OK, "unsat": ExitCode.NO, "unknown": ExitCode.UNKNOWN}


@report_errors
def solve(
    problem_options: StepProblemOptions,
    *,
    chunks: options.Chunks,
    steps: options.Steps,
    rounds: options.Rounds,
    search: SearchOptions,
    timeout: options.Timeout = None,
    storage: StoreOptions,
    output: options.Output = None,
    smt2: Annotated[
        Path | None,
        "File for the formula (SMT-LIB 2, QF_LIA, SCCL section 3.4), which is then not solved; "
        "'-': standard output.",
    ] = None,
    json: options.Json = False,
) -> None:
    """Decide whether an algorithm with C chunks, S steps, and R rounds exists, and write it.

    For an allreduce it considers only compositions of equal halves: a reducescatter and an
    allgather of S/2 steps and R/2 rounds each. 'sccl pareto' covers all families.

    With --smt2 a solver answers sat exactly if an algorithm exists. A reduction is written as its
    dual, an allreduce as one half of a composition.

    Exit code 0: sat, 1: unsat, 2: bad input, 3: unknown, 130: interrupted.
    """
    settings = build_settings(search, timeout, storage)
    subject = load_problem(problem_options)
    topology, spec = subject.topology, subject.spec
    problem = build_question(topology, spec, chunks, steps, rounds)
    if smt2 is not None:
        if output is not None:
            raise ParameterError(
                "--output and --smt2 are both given, but a formula is written and not solved: "
                "leave one out"
            )
        to_file = None if str(smt2) == "-" else smt2
        _write_formula(topology, spec, problem, to_file, json=json)
        return
    options.check_writable(output)
    with err().status(escape(f"{spec.name} on {topology.name} with {settings.solver}")):
        answer = find_algorithm(spec, problem, settings)
    if isinstance(answer, Sat) and output is not None:
        write_atomically(output, to_text(algorithm_to_wire(answer.algorithm)))
    file = str(output) if output is not None and isinstance(answer, Sat) else None
    if json:
        print_output(solve_output(spec, problem, answer, file))
    else:
        _print(problem, answer, file)
    raise typer.Exit(_EXIT[verdict(answer)])


def _write_formula(
    topology: Topology, spec: Spec, problem: Question, output: Path | None, *, json: bool
) -> None:
    """Write the formula of a problem to a file, or print it."""
    options.check_writable(output)
    text = problem_text(problem)
    if output is not None:
        write_atomically(output, text)
    if json:
        inputs, file = question_digests(topology, spec), str(output) if output else None
        print_output(Smt2Output(inputs=inputs, file=file, text=None if output else text))
    elif output is None:
        typer.echo(text, nl=False)
    else:
        out().print(f"written to {single_line(output)}", markup=False)


def _print(question: Question, answer: Answer, file: str | None) -> None:
    c, q = question.collective, question
    console = out()
    console.print(
        f"{escape(f'{c.name} on {q.topology.name}')}, C={c.chunks} S={q.steps} R={q.rounds}: "
        f"[bold]{verdict(answer)}[/] ({escape(answer_solver(answer))}, "
        f"{answer.seconds:.2f} s): {escape(answer_reason(answer))}"
    )
    if scope := question.answer_scope(answer):
        console.print(f"class: {scope}", markup=False)
    if isinstance(answer, Sat):
        plan = answer.algorithm
        rounds = ", ".join(str(r) for r in plan.rounds_per_step)
        console.print(
            f"R/C = {plan.bandwidth_cost}, rounds per step {rounds}, {plan.num_sends} sends"
        )
        file_note = (
            f"written to {single_line(file)}; see it with: sccl show "
            f"{single_line(quote(file or ''))}"
        )
        console.print(file_note if file else "not written: add -o FILE", markup=False)
