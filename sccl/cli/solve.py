"""``sccl solve``: one question, one answer."""

from __future__ import annotations

from shlex import quote

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, on_a_line, out, print_output, reported
from sccl.cli.searching import KeptOptions, SearchOptions, settings_of
from sccl.cli.subject import SubjectOptions, subject_from
from sccl.core.answer import Answer, Sat, verdict
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.disk import write_atomically
from sccl.core.files.text import text_of
from sccl.tasks.solve import find_algorithm, scope_of, solve_output
from sccl.transform import Question, pose
from sccl.view.text.reasons import reason_of, solver_of

_EXIT = {"sat": ExitCode.OK, "unsat": ExitCode.NO, "unknown": ExitCode.UNKNOWN}


@reported
def solve(
    about: SubjectOptions,
    *,
    chunks: options.Chunks,
    steps: options.Steps,
    rounds: options.Rounds,
    search: SearchOptions,
    timeout: options.Timeout = None,
    kept: KeptOptions,
    output: options.Output = None,
    json: options.Json = False,
) -> None:
    """Decide whether an algorithm with C chunks, S steps, and R rounds exists, and write it.

    For an allreduce it asks about compositions of equal halves only: a reducescatter and an
    allgather of S/2 steps and R/2 rounds each. 'sccl pareto' covers all families.

    Exit code 0: sat, 1: unsat, 2: bad input, 3: unknown, 130: interrupted.
    """
    settings = settings_of(search, timeout, kept)
    subject = subject_from(about)
    topology, spec = subject.topology, subject.spec
    posed = pose(topology, spec, chunks, steps, rounds)
    options.writable(output)
    with err().status(escape(f"{spec.name} on {topology.name} with {settings.solver}")):
        answer = find_algorithm(spec, posed, settings)
    if isinstance(answer, Sat) and output is not None:
        write_atomically(output, text_of(algorithm_to_wire(answer.algorithm)))
    file = str(output) if output is not None and isinstance(answer, Sat) else None
    if json:
        print_output(solve_output(spec, posed, answer, file))
    else:
        _print(posed, answer, file)
    raise typer.Exit(_EXIT[verdict(answer)])


def _print(question: Question, answer: Answer, file: str | None) -> None:
    c, q = question.collective, question
    console = out()
    console.print(
        f"{escape(f'{c.name} on {q.topology.name}')}, C={c.chunks} S={q.steps} R={q.rounds}: "
        f"[bold]{verdict(answer)}[/] ({solver_of(answer)}, {answer.seconds:.2f} s): "
        f"{reason_of(answer)}"
    )
    if scope := scope_of(question, answer):
        console.print(f"class: {scope}")
    if isinstance(answer, Sat):
        found = answer.algorithm
        rounds = ", ".join(str(r) for r in found.rounds_per_step)
        console.print(
            f"R/C = {found.bandwidth_cost}, rounds per step {rounds}, {found.num_sends} sends"
        )
        kept = (
            f"written to {on_a_line(file)}; see it with: sccl show {on_a_line(quote(file or ''))}"
        )
        console.print(kept if file else "not kept: add -o FILE to write it", markup=False)
