"""Load sketches from files, fit them to machines, and build their JSON output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from sccl.core.files.json_text import digest
from sccl.core.files.outputs import Output, question_digests
from sccl.core.files.shapes import Count, FileText
from sccl.errors import ParameterError
from sccl.synth.common.problem import build_spec, optional_machine
from sccl.synth.sketches.sketch import Sketch
from sccl.synth.sketches.sketch_files import load_sketch, sketch_to_wire
from sccl.synth.taccl.fitted_sketch import FittedSketch, SketchedChunks, fit_sketch, sketched_chunks
from sccl.synth.taccl.sketch_sentences import sketch_sentences


class FittedSketchOutput(Output, frozen=True, kw_only=True):
    """A sketch, in numbers."""

    name: str
    nodes: Count
    chunks: Annotated[Count, Meta(description="Chunks per part of a rank's input or output.")]
    topology: Annotated[str | None, Meta(description="The machine that it fits; or null.")]
    within: Annotated[
        tuple[int, int] | None, Meta(description="Routes within nodes: permitted, and all.")
    ]
    between: Annotated[
        tuple[int, int] | None, Meta(description="Routes between nodes: permitted, and all.")
    ]
    symmetries: Annotated[
        int | None,
        Meta(description="Number of symmetries that its rotations generate, with the identity."),
    ]
    collective: str | None
    collective_chunks: Annotated[
        int | None,
        Meta(description="Number of chunks of the collective; for reductions, of its dual."),
    ]
    planned_chunks: Annotated[
        int | None, Meta(description="Number of chunks that represent the others.")
    ]


class SketchCheckOutput(FittedSketchOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth sketch check'."""

    kind: Literal["sketch-check"] = "sketch-check"


class SketchExplainOutput(FittedSketchOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth sketch explain'."""

    kind: Literal["sketch-explain"] = "sketch-explain"
    sentences: tuple[str, ...]


class SketchDrawOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth sketch draw'."""

    kind: Literal["sketch-draw"] = "sketch-draw"
    name: str
    topology: str
    file: FileText


def load_fit(
    file: Path, topo: str | None, profile: Path | None
) -> tuple[Sketch, FittedSketch | None]:
    """Return the sketch of a file, and the sketch on the machine if one is given.

    Raises:
        InputError: The file is no sketch, or the machine contradicts it.
    """
    sketch = load_sketch(file)
    machine = optional_machine(topo, profile, sketch.nodes)
    return sketch, None if machine is None else fit_sketch(sketch, machine)


def sketched_chunks_for(
    fit: FittedSketch | None, collective: str | None, root: str | None
) -> SketchedChunks | None:
    """Return the planned chunks of a collective, if one is given.

    Raises:
        InputError: There is no such collective, or the sketch does not suit it.
    """
    if collective is None:
        if root is not None:
            raise ParameterError("--root is that of a collective: give --collective, too")
        return None
    if fit is None:
        raise ParameterError("--collective is asked of a machine: give --topo, too")
    return sketched_chunks(fit, build_spec(fit.topology, collective, root))


def input_digests(sketch: Sketch, fit: FittedSketch | None) -> dict[str, str]:
    """Return the digests of a sketch and of its machine, if there is one."""
    digests = {"sketch": digest(sketch_to_wire(sketch))}
    return digests | ({} if fit is None else question_digests(fit.topology))


def check_output(
    sketch: Sketch, fit: FittedSketch | None, chunks: SketchedChunks | None
) -> SketchCheckOutput:
    """Return the JSON output."""
    return SketchCheckOutput(
        inputs=input_digests(sketch, fit), **_sketch_fields(sketch, fit, chunks)
    )


def explain_output(fit: FittedSketch, chunks: SketchedChunks | None) -> SketchExplainOutput:
    """Return the JSON output, with a description in sentences."""
    return SketchExplainOutput(
        inputs=input_digests(fit.sketch, fit),
        sentences=tuple(sketch_sentences(fit, chunks)),
        **_sketch_fields(fit.sketch, fit, chunks),
    )


def _sketch_fields(
    sketch: Sketch, fit: FittedSketch | None, chunks: SketchedChunks | None
) -> dict[str, Any]:
    return {
        "name": sketch.name,
        "nodes": sketch.nodes,
        "chunks": sketch.chunks,
        "topology": fit and fit.topology.name,
        "within": fit and fit.count_routes(between=False),
        "between": fit and fit.count_routes(between=True),
        "symmetries": fit and fit.symmetries,
        "collective": chunks and chunks.collective,
        "collective_chunks": chunks and chunks.chunks,
        "planned_chunks": chunks and chunks.planned,
    }
