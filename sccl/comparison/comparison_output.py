"""Convert comparisons to the output of ``sccl compare --json`` and to data for charts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.comparison.comparison import Comparison, ContenderResult
from sccl.comparison.contender_selection import FilePlan
from sccl.comparison.tuner_rules import TunerPart
from sccl.core.clock import AlphaText
from sccl.core.files.outputs import Output, build_output, plan_digests, question_digests
from sccl.core.files.shapes import FileText, NonNegative, Part, Seconds
from sccl.view.charts import SystemTimes

GbPerS = Annotated[float, Meta(ge=0, description="Size / time, 10^9 bytes/s.")]
Gap = Annotated[float | None, Meta(description="time_us / bound_us - 1; null: the bound is 0.")]


class StandingPart(Part, frozen=True, kw_only=True):
    """The time of a system at a size."""

    size_bytes: NonNegative
    time_us: float
    algorithm_gb_per_s: GbPerS
    gap: Gap
    plan: Annotated[str, "Description of its fastest plan."]


class ComparedSystemPart(Part, frozen=True, kw_only=True):
    """A synthesizer, a classical algorithm, or a file."""

    name: str
    what: Literal["synthesiser", "baseline", "file"]
    about: Annotated[str, "Source or description, in one line."]
    seconds: Annotated[Seconds, "Seconds of its synthesis, which differ between runs."]
    times: Annotated[tuple[StandingPart, ...], "Results by size, for the sizes that it supports."]
    why: Annotated[str, "Reason why some or all sizes are missing; or empty."]


class ComparedSizePart(Part, frozen=True, kw_only=True):
    """The fastest system at a size."""

    size_bytes: Annotated[NonNegative, "Size of a rank's buffer, L."]
    bound_us: Annotated[float, "Lower bound for all chunkings."]
    bound_by: Annotated[
        Literal["cuts", "prices"], "Proof: cuts of the machine and R/C, or prices of links in time."
    ]
    winner: Annotated[
        str | None, "Fastest system, the first of several equals; null: no system has a plan."
    ]
    time_us: float | None
    algorithm_gb_per_s: GbPerS | None
    gap: Gap
    plan: str
    file: FileText | None


class CompareOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl compare'."""

    kind: Literal["compare"] = "compare"
    collective: str
    topology: str
    alpha: Annotated[AlphaText, "Whether alpha occupies the link or travels."]
    seed: NonNegative
    sizes: tuple[ComparedSizePart, ...]
    systems: tuple[ComparedSystemPart, ...]
    ended: Annotated[str, "Reason why it ended early; or empty."]
    plot: FileText | None
    tuner: Annotated[TunerPart | None, "Rules for NCCL's tuner, if asked for."]


def compare_output(
    comparison: Comparison,
    files: Mapping[str, FilePlan],
    plan_files: Mapping[int, Path],
    plot: Path | None,
    tuner: TunerPart | None,
) -> CompareOutput:
    """Return the JSON output.

    Args:
        comparison: Comparison.
        files: Plans that were loaded from files.
        plan_files: File of the fastest plan, by size.
        plot: File of the chart. None: no chart.
        tuner: Rules for NCCL's tuner. None: not requested.
    """
    problem = comparison.problem
    digests = question_digests(problem.topology, problem.spec)
    return build_output(
        CompareOutput,
        problem,
        inputs=digests | plan_digests(files),
        collective=problem.spec,
        alpha="travels" if problem.model == "travels" else "occupies",
        sizes=(_size_part(comparison, size, plan_files) for size in comparison.sizes),
        systems=(_system_part(comparison, system) for system in comparison.systems),
        ended=comparison.end_reason,
        plot=plot,
        tuner=tuner,
    )


def _size_part(
    comparison: Comparison, size: int, plan_files: Mapping[int, Path]
) -> ComparedSizePart:
    winner = comparison.winner(size)
    row = winner.measurements[size] if winner else None
    return build_output(
        ComparedSizePart,
        size_bytes=size,
        bound_us=comparison.bound_us(size),
        bound_by=comparison.lower_bounds.source(size),
        winner=winner,
        time_us=row.us if row else None,
        algorithm_gb_per_s=row.gb_per_s if row else None,
        gap=comparison.gap(row) if row else None,
        plan=row.plan if row else "",
        file=plan_files.get(size),
    )


def _system_part(comparison: Comparison, system: ContenderResult) -> ComparedSystemPart:
    times = [
        build_output(
            StandingPart,
            row,
            time_us=row.us,
            algorithm_gb_per_s=row.gb_per_s,
            gap=comparison.gap(row),
        )
        for row in system.measurements.values()
    ]
    return build_output(
        ComparedSystemPart, system, what=system.kind, times=times, why=system.reason
    )


def chart_data(output: CompareOutput) -> tuple[list[SystemTimes], list[tuple[int, float]]]:
    """Return the times of each system that has any, and the lower bound of each size."""
    systems = [
        SystemTimes(system.name, tuple((row.size_bytes, row.time_us) for row in system.times))
        for system in output.systems
        if system.times
    ]
    return systems, [(size.size_bytes, size.bound_us) for size in output.sizes]
