"""The JSON output of TACCL, with its sketch and phases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from sccl.core.files.shapes import FileText, Part
from sccl.synth.common.synthesis import AUTO, Synthesis, SynthesisOutput, synthesis_output
from sccl.synth.sketches.sketch_shapes import SketchWire


class TacclPhasePart(Part, frozen=True, kw_only=True):
    """How one phase went, step by step."""

    relaxed_us: Annotated[float, "Lower bound for all orders of its routes."]
    by: Annotated[str, "Order or model that produced the schedule."]
    tried: Annotated[dict[str, float], "Result of each order and each model."]


@dataclass(frozen=True, slots=True)
class SketchReport:
    """The sketch of a result, and the results of its phases."""

    kept: SketchWire
    phases: tuple[TacclPhasePart, ...]


class TacclOutput(SynthesisOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth taccl'."""

    kind: Literal["taccl"] = "taccl"
    sketch: Annotated[str, "Sketch that the schedule obeys."]
    bound_of: Annotated[str, "Schedules that the bound covers, in any sketch."]
    phases: tuple[TacclPhasePart, ...]
    sketch_file: FileText | None


def taccl_output(
    result: Synthesis, file: Path | None, sketch_file: Path | None = None
) -> TacclOutput:
    """Return the JSON output.

    Args:
        result: The schedule, with its events.
        file: File of the schedule. None: not written.
        sketch_file: File of the sketch. None: not written.
    """
    report = result.event(SketchReport)
    return synthesis_output(
        TacclOutput,
        result,
        file,
        sketch=report.kept if report else result.problem.sketch or AUTO,
        phases=report.phases if report else (),
        sketch_file=sketch_file,
    )


def obeyed_sketch(result: Synthesis) -> SketchWire | None:
    """Return the sketch of a schedule of TACCL. None: unknown."""
    report = result.event(SketchReport)
    return report.kept if report else None
