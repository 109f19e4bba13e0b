"""List classical algorithms, and place one on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.core.bound import require_at_least_bound
from sccl.core.clock import AlphaModel, AlphaText, Clock, StepAlignment
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FileText, FractionText, NonNegative, Part
from sccl.errors import InputError
from sccl.judge import require_valid
from sccl.sim.settings import finest_tick
from sccl.synth import baselines
from sccl.synth.common.contract import Request

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule
    from sccl.synth.baselines import Pattern


class BaselinePart(Part, frozen=True, kw_only=True):
    """A classical algorithm."""

    name: str
    about: Annotated[str, "Description in one line."]
    source: Annotated[str, "The paper or code that defines it."]
    collectives: Annotated[tuple[str, ...], "Collectives that the source defines."]


class BaselineResultPart(Part, frozen=True, kw_only=True):
    """The costs of an algorithm on a machine."""

    collective: str
    topology: str
    chunks: NonNegative
    steps: NonNegative
    rounds: Annotated[
        int | None, "null: some hop is a path of several links, so the result has times only."
    ]
    bandwidth_cost: Annotated[
        FractionText | None,
        "R/C; null: some hop is a path of several links, so the result has times only.",
    ]
    sends: NonNegative
    transfers: Annotated[
        NonNegative, "Transfers over links: a hop counts once per link of its path."
    ]
    size_bytes: Annotated[int, Meta(ge=1), "Size of a rank's buffer (C chunks)."]
    alpha: Annotated[AlphaText, "Whether alpha occupies the link or travels."]
    stepping: Annotated[Literal["pipelined", "barrier"], "Start of steps: pipelined or barrier."]
    finish_us: Annotated[float, "When the last chunk arrives."]
    algorithm_gb_per_s: Annotated[float, Meta(ge=0), "Size / time, 10^9 bytes/s."]
    bound_us: Annotated[float | None, "Lower bound for all chunkings; null: unknown."]
    gap: Annotated[float | None, "finish_us / bound_us - 1."]
    file: FileText | None


class BaselineOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth'."""

    kind: Literal["baseline"] = "baseline"
    algorithms: Annotated[tuple[BaselinePart, ...], "All algorithms, or the selected one."]
    result: Annotated[BaselineResultPart | None, "null: the algorithms were listed only."]


@dataclass(frozen=True, slots=True)
class PlacedBaseline:
    """A classical algorithm on a machine.

    Attributes:
        algorithm: Algorithm in steps. None: one of its hops is no link.
        schedule: Verified times at the requested size.
        steps: S.
        sends: Number of hops.
        lower_bound_us: Lower bound for every chunk count. None: unknown.

    Raises:
        ContradictionError: The schedule is faster than its lower bound.
    """

    algorithm: Algorithm | None
    schedule: Schedule
    steps: int
    sends: int
    lower_bound_us: Fraction | None

    def __post_init__(self) -> None:
        require_at_least_bound(
            self.finish_us,
            self.lower_bound_us,
            result="the completion time of the classical algorithm",
            limit="the lower bound on the completion time",
            unit="us",
        )

    @property
    def plan(self) -> Algorithm | Schedule:
        """Return the algorithm, or the schedule if there is none."""
        return self.algorithm or self.schedule

    @property
    def finish_us(self) -> Fraction:
        """Return the arrival time of the last chunk in microseconds."""
        return self.schedule.finish_us

    @property
    def gap(self) -> Fraction | None:
        """Return the relative gap to the lower bound. None: the bound is unknown, or 0."""
        return self.finish_us / self.lower_bound_us - 1 if self.lower_bound_us else None


def describe_baselines(names: tuple[str, ...] = ()) -> tuple[BaselinePart, ...]:
    """Return descriptions of classical algorithms.

    Args:
        names: Names of the algorithms. Empty: all.

    Raises:
        UnknownNameError: A name is unknown.
    """
    return tuple(_baseline_part(name) for name in names or baselines.names())


def _baseline_part(name: str) -> BaselinePart:
    baseline = baselines.load(name)
    about = (baseline.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    collectives = tuple(sorted(baseline.COLLECTIVES))
    return BaselinePart(name=name, about=about, source=baseline.SOURCE, collectives=collectives)


def place_baseline(
    name: str, request: Request, pieces: int, model: AlphaModel, stepping: StepAlignment
) -> PlacedBaseline:
    """Return a classical algorithm on a machine with its times, verified.

    Raises:
        InputError: The name is unknown, the algorithm does not support the machine or the
            collective, or the size or the machine is too large.
    """
    topology = request.topology
    pattern = baselines.make_pattern(name, request, pieces)
    direct = baselines.is_direct(pattern, topology)
    algorithm = baselines.to_algorithm(pattern, topology) if direct else None
    schedule = time_pattern(pattern, request, model, stepping)
    return PlacedBaseline(
        algorithm=algorithm,
        schedule=require_valid(schedule, f"the classical algorithm {name!r}"),
        steps=pattern.steps,
        sends=pattern.num_sends,
        lower_bound_us=_lower_bound_us(request, schedule.clock.model),
    )


def time_pattern(
    pattern: Pattern, request: Request, model: AlphaModel, stepping: StepAlignment
) -> Schedule:
    """Return a pattern with its times at the request's size, not verified.

    Sizes that are not a multiple of the number of chunks are rounded up.

    Raises:
        InputError: The size is too large, or the destination of a hop cannot be reached.
    """
    topology, chunk = request.topology, -(-request.size_bytes // pattern.collective.chunks)
    tick = finest_tick(topology, chunk, pattern.num_sends * MAX_ROUTE)
    clock = Clock.from_topology(topology, chunk, model, tick)
    return baselines.to_schedule(pattern, topology, clock, stepping)


MAX_ROUTE = 64
"""Links of a route for which ticks are long enough: ``torus:64x64`` has this diameter."""


def _lower_bound_us(request: Request, model: AlphaModel) -> Fraction | None:
    from sccl.prove.bounds.time_cuts import completion_time_bound  # noqa: PLC0415 - loads the LP solver

    try:
        return completion_time_bound(request.topology, request.spec, model).us(request.size_bytes)
    except InputError:  # too large for a bound, so the algorithm has none
        return None


def list_output() -> BaselineOutput:
    """Return all classical algorithms."""
    return BaselineOutput(inputs={}, algorithms=describe_baselines(), result=None)


def baseline_output(
    name: str, request: Request, made: PlacedBaseline, stepping: StepAlignment, file: str | None
) -> BaselineOutput:
    """Return the JSON output."""
    a, schedule, us = made.algorithm, made.schedule, float(made.finish_us)
    return BaselineOutput(
        inputs=question_digests(request.topology, request.spec),
        algorithms=describe_baselines((name,)),
        result=build_output(
            BaselineResultPart,
            made,
            collective=request.spec,
            topology=request.topology,
            chunks=schedule.collective.chunks,
            rounds=a.rounds if a else None,
            bandwidth_cost=a.bandwidth_cost if a else None,
            transfers=schedule.num_sends,
            size_bytes=request.size_bytes,
            alpha=schedule.model.text,
            stepping=stepping,
            algorithm_gb_per_s=request.size_bytes / us / 1000 if us else 0.0,
            bound_us=made.lower_bound_us,
            file=file,
        ),
    )
