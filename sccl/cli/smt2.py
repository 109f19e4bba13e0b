"""``sccl smt2``: the paper's problem as text for any SMT solver."""

from __future__ import annotations

import typer

from sccl.cli import options
from sccl.cli.asking import asked_for
from sccl.cli.report import named, out, print_output, reported
from sccl.core.files.disk import write_atomically
from sccl.errors import ParameterError
from sccl.prove.bounds import require_reachable
from sccl.tasks.answers import Smt2Output
from sccl.tasks.outputs import question_digests
from sccl.transform import Question, pose


@reported
def smt2(
    question: options.Question,
    chunks: options.Chunks,
    steps: options.Steps,
    rounds: options.Rounds,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Write the problem as SMT-LIB 2 (QF_LIA), constraints C1 to C6 of SCCL section 3.4.

    Any solver answers sat exactly if an algorithm exists. A combining collective is written as its
    dual; an allreduce as one half of compositions of equal halves, of S/2 steps and R/2 rounds, so
    that unsat says nothing of other allreduces.
    """
    topology, spec = asked_for(question)
    posed = pose(topology, spec, chunks, steps, rounds)
    if len(posed.instances) > 1:
        raise ParameterError(
            f"{spec.name} on {topology.name!r} is two problems, as its links differ by direction; "
            "write reducescatter and allgather each"
        )
    require_reachable(posed.instances)
    options.writable(output)
    from sccl.synth.ksync.smtlib import smtlib_text  # noqa: PLC0415 - pySMT is slow to import

    text = _class_of(posed) + smtlib_text(posed.instances[0])
    if output is not None:
        write_atomically(output, text)
    if json:
        inputs, file = question_digests(topology, spec), str(output) if output else None
        print_output(Smt2Output(inputs=inputs, file=file, text=None if output else text))
    elif output is None:
        typer.echo(text, nl=False)
    else:
        out().print(f"written to {named(output)}", markup=False)


def _class_of(question: Question) -> str:
    """Return a comment on what unsat holds for; empty: for all k-synchronous algorithms."""
    if not question.scope:
        return ""
    return (
        f"; One half of {question.scope},\n"
        f"; of S={question.steps} steps and R={question.rounds} rounds in all: unsat says nothing "
        "of algorithms of other classes.\n"
    )
