"""``sccl bounds``: lower bounds for any algorithm, and their proofs."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_json, report_errors
from sccl.cli.subject import StepProblemOptions, load_problem
from sccl.collectives import dual_of
from sccl.core.files.bounds import bounds_to_wire, proved_limit_to_wire
from sccl.core.files.outputs import output_head, question_digests
from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.allreduce.any_family_bound import any_family_bound
from sccl.synth.common.settings import build_effort
from sccl.synth.constructions import attained_cost
from sccl.synth.packing.by_steps.limits_by_steps import check_size, step_limit
from sccl.view.text.bounds_text import (
    EQUAL_HALVES,
    print_any_family,
    print_attained,
    print_bounds,
    print_limit,
)
from sccl.view.text.problem_bounds import attained_part


@report_errors
def bounds(
    about: StepProblemOptions,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Also compute the limit of R/C for this S over all k and C; for "
            "allreduce, a bound for all families."
        ),
    ] = None,
    timeout: options.LimitTimeout = None,
    json: options.Json = False,
) -> None:
    """Compute lower bounds on S and R/C without a search, with proofs to check by hand.

    It also prints algorithms in the fewest steps that need no search: breadth first (BFB) or by
    dimensions for an allgather, by coloring for an alltoall. An allreduce has bounds for all
    algorithms and for compositions of equal halves.

    Exit code 0: done, 2: bad input, 3: the limit for --steps is known only between bounds.
    """
    effort = build_effort(timeout, 0)
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
    if json:
        found_json = msgspec.to_builtins(bounds_to_wire(class_bounds))
        if overall_bounds is not None:
            found_json = msgspec.to_builtins(bounds_to_wire(overall_bounds)) | {
                "classes": [{"class": EQUAL_HALVES, **found_json}]
            }
        names = {"topology": topology.name, "collective": spec.name}
        both = {"limit": limit, "every": overall_limit}
        more = {
            name: msgspec.to_builtins(proved_limit_to_wire(value))
            for name, value in both.items()
            if value is not None
        }
        if attained:
            more |= {"attained": msgspec.to_builtins(attained_part(attained))}
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
    unknown = limit is not None and limit.lower != limit.upper
    raise typer.Exit(ExitCode.UNKNOWN if unknown else ExitCode.OK)
