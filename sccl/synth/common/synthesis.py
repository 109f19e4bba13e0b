"""Compute schedules with TACOS, TE-CCL, or TACCL, with a lower bound."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta

from sccl.collectives import Spec
from sccl.core.clock import AlphaText
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.schedule_shapes import VariableBandwidthWire
from sccl.core.files.shapes import FileText, NonNegative, Seconds
from sccl.core.outcome import Solution, best_plan
from sccl.core.sizes import check_divides, parse_size
from sccl.core.stop import StopKind, StopReason
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Notify, Options, Request, Synthesizer
from sccl.synth.common.problem import CollectiveProblem, build_spec
from sccl.synth.common.settings import build_effort
from sccl.synth.network.bandwidth_files import (
    bandwidth_from_text,
    bandwidth_to_wire,
    load_bandwidth,
)
from sccl.synth.sketches.sketch import Sketch
from sccl.synth.sketches.sketch_files import load_sketch, sketch_to_wire

if TYPE_CHECKING:
    from sccl.core.packed_schedule import AnySchedule

AUTO = "auto"
"""Instead of a sketch: the best of several that the machine suggests."""

BandwidthLike = str | PathLike[str] | Sequence[Mapping[str, object]]
"""A JSON file, or its intervals. For example, ``[{"links": [(0, 1)], "from_us": 5, "to_us": 9,
"fraction": 0}]`` disables one link for 4 us.
"""

_PRIORITY = re.compile("[1-9][0-9]{0,2}|1000")

EventT = TypeVar("EventT")
OutputT = TypeVar("OutputT", bound="SynthesisOutput")


def unmodified_problem(
    machine: Topology, collective: str | Spec, root: str | int | None
) -> CollectiveProblem:
    """Return the problem on the unmodified machine.

    Raises:
        InputError: The collective or root does not exist.
    """
    return CollectiveProblem(machine, build_spec(machine, collective, root), ())


# --- options -------------------------------------------------------------------------------------


def parse_options(synthesizer: str, **chosen: object) -> Options:
    """Return the options of a synthesizer.

    Args:
        synthesizer: Name of the synthesizer.
        chosen: Values, or texts and files that represent them.

    Raises:
        InputError: An option is out of range, or a file cannot be read.
    """
    values = {name: _parse_value(name, value) for name, value in chosen.items()}
    try:
        options: Options = msgspec.convert(values, registry.load(synthesizer).Options)
    except msgspec.ValidationError as error:
        detail, _, where = str(error).partition(" - at `$.")
        for kind in ("int", "float", "str"):
            detail = detail.replace(f" `{kind}`", "")
        name, expected = where.rstrip("`").partition("[")[0], detail.removeprefix("Expected")
        raise ParameterError(f"{name} is {values.get(name)}, expected{expected}") from error
    return options


def _parse_value(name: str, value: object) -> object:
    if name == "priorities":
        return parse_priorities(value) if isinstance(value, str) else value
    if name == "bandwidth":
        return parse_bandwidth(cast("BandwidthLike | None", value))
    return value.value if isinstance(value, Enum) else value


def parse_priorities(text: str) -> tuple[int, ...]:
    """Return priorities of a text such as 3,1. An empty text has none.

    Raises:
        ParameterError: The text has another form.
    """
    parts = text.split(",") if text else []
    if not all(_PRIORITY.fullmatch(part) for part in parts):
        raise ParameterError(f"priorities are {text!r}, expected numbers from 1 to 1000, as 3,1")
    return tuple(int(part) for part in parts)


def parse_bandwidth(bandwidth: BandwidthLike | None) -> VariableBandwidthWire | None:
    """Return a checked bandwidth that varies over time. None: it does not vary.

    Raises:
        InputError: The file cannot be read, or the intervals are not valid.
    """
    if bandwidth is None:
        return None
    if isinstance(bandwidth, str | PathLike):
        return bandwidth_to_wire(load_bandwidth(Path(bandwidth)))
    try:
        text = json.dumps({"intervals": [dict(interval) for interval in bandwidth]})
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"bandwidth is {bandwidth!r:.60}, expected a file, or intervals, such as "
            '[{"from_us": 5, "to_us": 9, "fraction": 0.5}]'
        ) from error
    return bandwidth_to_wire(bandwidth_from_text(text, "bandwidth"))


# --- problems ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisProblem:
    """A request to a synthesizer, with its options.

    Attributes:
        name: Name of the synthesizer.
        synthesizer: The synthesizer. It obeys the sketch, if there is one.
        request: The request.
        options: Options of the synthesizer.
        effort: The budget.
        sketch: Sketch to obey. None: none.
    """

    name: str
    synthesizer: Synthesizer
    request: Request
    options: Options
    effort: Effort
    sketch: Sketch | None

    @property
    def title(self) -> str:
        """Return the names of the collective and the machine."""
        return f"{self.request.spec.name} on {self.request.topology.name}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on parts of the sketch that the synthesizer ignores. Empty: none."""
        if self.sketch is None or not self.sketch.rotations or _plans_within_sketches(self.name):
            return ()
        note = "symmetry_offsets are ignored: they narrow TACCL's search, and remove no link"
        return (f"sketch {self.sketch.name}: {note}",)


def build_synthesis_problem(  # noqa: PLR0913 - the collective, the machine, and the settings
    name: str,
    machine: Callable[[Sketch | None], Topology],
    spec: Callable[[Topology], Spec],
    *,
    size: str | int | None,
    sketch: str | Path | None,
    options: Mapping[str, object],
    seed: int,
    timeout_s: float | None,
    budget: float | None = None,
) -> SynthesisProblem:
    """Return the problem for a synthesizer of schedules.

    Args:
        name: Name of the synthesizer.
        machine: Function that returns the machine for a sketch.
        spec: Function that returns the collective for a machine.
        size: Size of a rank's buffer. None: the sketch's.
        sketch: File of a sketch. None, and for TACCL ``"auto"``: none.
        options: Options by name. For chunks, None is the number of the sketch, or else 1.
        seed: Seed of the search.
        timeout_s: Time limit, seconds. None: none.
        budget: Search budget. None: that of the synthesizer.

    Raises:
        InputError: An input cannot be read, is out of range, or does not fit the others.
    """
    plans_within_sketches = _plans_within_sketches(name)
    is_unrestricted = sketch is None or (sketch == AUTO and plans_within_sketches)
    obeyed = None if is_unrestricted else load_sketch(Path(cast("str | Path", sketch)))
    chosen = dict(options)
    if chosen.get("chunks", 1) is None:
        chosen["chunks"] = obeyed.chunks if obeyed else 1
    if plans_within_sketches:
        chosen["sketch"] = None if obeyed is None else sketch_to_wire(obeyed)
    elif obeyed is not None and chosen.get("bandwidth") is not None:
        raise ParameterError(
            "bandwidth and sketch are both given: bandwidth intervals describe all links of the "
            "machine, and a sketch removes some; leave one of the two out"
        )
    parsed: Any = parse_options(name, **chosen)
    topology = parsed.adapt_machine(machine(obeyed))
    if size is None:
        size = obeyed.size_bytes if obeyed else None
    if size is None:
        raise ParameterError(
            "no size is given, and the sketch has no input_size: give --size, such as 1MB"
            if obeyed
            else "no size is given: give --size, such as 1MB"
        )
    request = Request(topology, spec(topology), parse_size(str(size)))
    if getattr(parsed, "model", "") != "lp" and not request.spec.counts:  # both split unequally
        chunks = parsed.chunks or (obeyed.chunks if obeyed else 1)
        check_divides(request.size_bytes, request.spec.unit * chunks)
    return SynthesisProblem(
        name=name,
        synthesizer=_restricted_synthesizer(name, obeyed),
        request=request,
        options=parsed,
        effort=build_effort(timeout_s, seed, parsed.DEFAULT_BUDGET if budget is None else budget),
        sketch=obeyed,
    )


def _plans_within_sketches(name: str) -> bool:
    """Return whether a synthesizer has sketches as an option."""
    return "sketch" in registry.load(name).Options.__struct_fields__


def _restricted_synthesizer(name: str, sketch: Sketch | None) -> Synthesizer:
    synthesizer = registry.load(name)
    if sketch is None or _plans_within_sketches(name):
        return synthesizer
    return registry.restrict_to_sketch(synthesizer, sketch)


# --- results -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Synthesis:
    """A result of a synthesizer: a verified schedule and its lower bound, or none.

    Attributes:
        problem: The problem.
        solution: Best solution. None: there is none.
        ended: Reason why the search ended early.
        seconds: Duration.
        events: Last event of each type.
    """

    problem: SynthesisProblem
    solution: Solution | None
    ended: StopReason
    seconds: float
    events: Mapping[type, object]

    @property
    def best(self) -> Solution:
        """Return the best result, which must exist."""
        assert self.solution is not None
        return self.solution

    @property
    def plan(self) -> AnySchedule:
        """Return the schedule of the best result, which must exist."""
        return cast("AnySchedule", self.best.plan)

    def event(self, kind: type[EventT]) -> EventT | None:
        """Return the last event of a type. None: there is none."""
        return cast("EventT | None", self.events.get(kind))


def synthesize(
    problem: SynthesisProblem,
    on_progress: Notify = lambda _: None,
    on_first_compile: Callable[[], None] = lambda: None,
) -> Synthesis:
    """Return the verified result of a synthesizer.

    Args:
        problem: The problem.
        on_progress: Called with each event of the synthesizer.
        on_first_compile: Called before a compilation without a cache.

    Raises:
        InputError: The request is not supported, or the options or the sketch do not fit it.
        KeyboardInterrupt: The user interrupted before there was a schedule.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba

    events: dict[type, object] = {}

    def receive(event: object) -> None:
        events[type(event)] = event
        on_progress(event)

    began = time.perf_counter()
    with compiling(on_first_compile):
        outcome = registry.plan(
            problem.synthesizer, problem.request, problem.options, problem.effort, receive
        )
    solution, ended = best_plan(outcome)
    return Synthesis(problem, solution, ended, time.perf_counter() - began, events)


def no_result_reason(ended: StopReason) -> str:
    """Return a message that there is no schedule, with the limit to raise.

    Args:
        ended: Reason why the search ended, from :func:`~sccl.core.outcome.best_plan`.
    """
    if ended.kind in {StopKind.INTERRUPTED, StopKind.INFEASIBLE}:
        return f"{ended}, before any schedule was found"
    more = "time" if ended.kind is StopKind.TIMEOUT else "effort"
    return f"{ended}, before any schedule was found: give it more {more}"


# --- outputs -------------------------------------------------------------------------------------


class SynthesisOutput(Output, frozen=True, kw_only=True):
    """The common part of the JSON output of synthesizers of schedules."""

    collective: str
    topology: str
    size_bytes: Annotated[int, Meta(ge=1), "Size of a rank's buffer, which has C chunks."]
    chunks: NonNegative
    alpha: Annotated[AlphaText, "Whether alpha occupies the link or travels."]
    finish_us: Annotated[float, "When the last chunk arrives."]
    bound_us: Annotated[float, "Lower bound for all schedules of these chunks."]
    proved: Annotated[
        bool,
        "Whether the schedule attains the lower bound; with priorities, the bound on the weighted "
        "mean.",
    ]
    sends: Annotated[NonNegative, "Transfers over links."]
    seconds: Seconds
    seed: NonNegative
    ended: Annotated[str, "Reason why it ended before its budget was used; or empty."]
    sketch: Annotated[str | None, "Sketch that the schedule obeys; null: none."]
    file: FileText | None


def synthesis_output(
    shape: type[OutputT], result: Synthesis, file: Path | None, **fields: object
) -> OutputT:
    """Return the JSON output of a synthesizer.

    Args:
        shape: Class of the output.
        result: Result of the synthesizer.
        file: File of the schedule. None: not written.
        fields: Fields of this synthesizer.
    """
    request, plan = result.problem.request, result.plan
    common: dict[str, object] = {
        "inputs": question_digests(request.topology, request.spec),
        "collective": request.spec,
        "chunks": plan.collective.chunks,
        "alpha": plan.clock.model.text,
        "finish_us": plan.clock.us(plan.finish),
        "bound_us": result.best.bound.value,
        "bound_of": result.best.bound.scope,
        "proved": result.best.is_optimal,
        "sends": plan.num_sends,
        "seconds": result.seconds,
        "seed": result.problem.effort.seed,
        "ended": result.ended,
        "sketch": result.problem.sketch,
        "file": file,
    }
    return build_output(shape, request, **common | fields)
