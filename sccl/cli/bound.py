"""``sccl bound``: lower bounds for any algorithm, and their proofs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_json, report_errors
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.collectives import dual_of
from sccl.core.cost import format_bytes, format_us
from sccl.core.files.bounds import bounds_to_wire, proved_limit_to_wire
from sccl.core.files.outputs import output_head, question_digests
from sccl.core.sizes import parse_sizes
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.common.settings import build_effort
from sccl.synth.packing.by_steps.limits_by_steps import check_size, step_limit
from sccl.tasks.bounds import any_family_bound, attained_cost, attained_part, time_bounds
from sccl.view.text.bounds_text import (
    EQUAL_HALVES,
    print_any_family,
    print_attained,
    print_bounds,
    print_limit,
)


@report_errors
def bound(
    about: StepProblemOptions,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Also compute the limit of R/C for this S over all k and C; for "
            "allreduce, a bound for all families."
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Also bound the completion time for this buffer of a rank: sizes and ranges in "
            "factors of 4, 64KB,1MB..1GB.",
            show_default="no time",
        ),
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
    effort = build_effort(timeout, 0)
    sizes = parse_sizes(size) if size is not None else ()
    subject = load_problem(about)
    topology, spec = subject.topology, subject.spec
    if steps is not None:
        check_size(topology, spec, steps)
    class_bounds = lower_bounds(topology, spec)
    attained = attained_cost(topology, spec)
    overall_bounds = any_class_bounds(topology, spec) if dual_of(spec).phases == 2 else None
    limit = overall_limit = None
    if steps is not None:
        with err().status(escape(f"limit of {spec.name} on {topology.name} for S={steps}")):
            if overall_bounds is not None:
                overall_limit = any_family_bound(topology, spec, overall_bounds, steps)
            if overall_bounds is None or (steps % 2 == 0 and steps >= class_bounds.steps):
                limit = step_limit(topology, spec, steps, class_bounds, effort.seconds).limit
                limit.require_consistent()
    times = time_bounds(topology, spec, sizes) if sizes else ()
    if json:
        found_json = msgspec.to_builtins(bounds_to_wire(class_bounds))
        if overall_bounds is not None:
            found_json = msgspec.to_builtins(bounds_to_wire(overall_bounds)) | {
                "classes": [{"class": EQUAL_HALVES, **found_json}]
            }
        names = {"topology": topology.name, "collective": spec.name}
        both = {"limit": limit, "every": overall_limit}
        parts: dict[str, object] = {
            name: value and proved_limit_to_wire(value) for name, value in both.items()
        }
        parts |= {"attained": attained and attained_part(attained), "times": times or None}
        more = {name: msgspec.to_builtins(part) for name, part in parts.items() if part}
        start = output_head("bounds", question_digests(topology, spec))
        print_json(start | names | found_json | more)
    else:
        if overall_bounds is not None:
            print_any_family(out(), overall_bounds, topology, spec, overall_limit)
        print_bounds(out(), class_bounds, topology, spec)
        if attained:
            print_attained(out(), attained, class_bounds)
        if limit:
            print_limit(out(), limit, class_bounds.scope)
        for part in times:
            out().print(
                f"completion time at {format_bytes(part.size_bytes)} per rank: at least "
                f"{format_us(part.lower_bound_us)} for every schedule, alpha travels"
            )
    unknown = limit is not None and limit.lower != limit.upper
    raise typer.Exit(ExitCode.UNKNOWN if unknown else ExitCode.OK)
