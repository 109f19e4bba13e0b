"""``sccl smt2``: the paper's problem as text for any SMT solver."""

from __future__ import annotations

from pathlib import Path

import typer

from sccl.cli import options
from sccl.cli.report import out, print_output, report_errors
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.collectives import Spec
from sccl.core.files.disk import write_atomically
from sccl.core.files.outputs import question_digests
from sccl.core.formatting import single_line
from sccl.core.topology import Topology
from sccl.synth.syncoll.smt2_output import Smt2Output, problem_text
from sccl.transform import Question, build_question


@report_errors
def smt2(
    about: StepProblemOptions,
    chunks: options.Chunks,
    steps: options.Steps,
    rounds: options.Rounds,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Write the problem as SMT-LIB 2 (QF_LIA), the constraints of SCCL section 3.4.

    A solver answers sat exactly if an algorithm exists. A reduction is written as its dual. An
    allreduce is written as one half of a composition of equal halves (S/2 steps, R/2 rounds), so
    unsat does not exclude other allreduces.
    """
    subject = load_problem(about)
    topology, spec = subject.topology, subject.spec
    problem = build_question(topology, spec, chunks, steps, rounds)
    write_formula(topology, spec, problem, output, json=json)


def write_formula(
    topology: Topology, spec: Spec, problem: Question, output: Path | None, *, json: bool
) -> None:
    """Write a question's formula to a file, or print it."""
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
