"""``sccl bound``: lower bounds for any algorithm, and their proofs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_output, report_errors
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.core.cost import format_bytes, format_us
from sccl.core.sizes import parse_sizes
from sccl.synth.common.settings import build_effort
from sccl.view.text.bounds_text import (
    print_any_family,
    print_attained,
    print_bounds,
    print_limit,
)
from sccl.view.text.problem_bounds import prove_bounds


@report_errors
def bound(
    problem_options: StepProblemOptions,
    steps: Annotated[
        int | None,
        "Also compute the limit of R/C for this S over all k and C; for allreduce, a bound for all "
        "families.",
    ] = None,
    size: Annotated[
        str | None,
        "Also bound the completion time for this buffer of a rank: sizes and ranges in factors of "
        "4, 64KB,1MB..1GB.",
        "no time",
    ] = None,
    timeout: options.LimitTimeout = None,
    json: options.Json = False,
) -> None:
    """Compute lower bounds on S and R/C without a search, with proofs to check by hand.

    It also prints algorithms in the fewest steps that need no search: breadth first (BFB) or by
    dimensions for an allgather, by coloring for an alltoall. An allreduce has bounds for all
    algorithms and for compositions of equal halves. A bound on the completion time holds for every
    schedule with any chunks: 'sccl synth fastest' finds one close to it.

    Exit code 0: done, 2: bad input, 3: the limit for --steps is known only between bounds.
    """
    seconds = build_effort(timeout, 0).seconds
    sizes = parse_sizes(size) if size is not None else ()
    subject = load_problem(problem_options)
    topology, spec = subject.topology, subject.spec
    activity = escape(f"limit of {spec.name} on {topology.name} for S={steps}")
    with nullcontext() if steps is None else err().status(activity):
        proved = prove_bounds(topology, spec, steps, seconds, sizes)
    limit = proved.limit
    if json:
        print_output(proved.output())
    else:
        if proved.overall is not None:
            print_any_family(out(), proved.overall, topology, spec, proved.overall_limit)
        print_bounds(out(), proved.family, topology, spec)
        if proved.attained:
            print_attained(out(), proved.attained, proved.family)
        if limit:
            print_limit(out(), limit, proved.family.scope)
        for size_bytes, bound_us in proved.times:
            out().print(
                f"completion time at {format_bytes(size_bytes)} per rank: at least "
                f"{format_us(bound_us)} for every schedule, alpha travels"
            )
    unknown = limit is not None and limit.lower != limit.upper
    raise typer.Exit(ExitCode.UNKNOWN if unknown else ExitCode.OK)
