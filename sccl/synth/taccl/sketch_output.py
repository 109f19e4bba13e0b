"""Load sketches from files, fit them to machines, and build their JSON output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from sccl.core.files.json_text import digest
from sccl.core.files.outputs import Output, question_digests
from sccl.core.files.shapes import FileText, NonNegative
from sccl.errors import ParameterError
from sccl.synth.common.problem import build_spec, optional_machine
from sccl.synth.sketches.sketch import Sketch
from sccl.synth.sketches.sketch_files import load_sketch, sketch_to_wire
from sccl.synth.taccl.fitted_sketch import FittedSketch, SketchedChunks, fit_sketch, sketched_chunks
from sccl.synth.taccl.sketch_sentences import sketch_sentences


class SketchOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth sketch'."""

    kind: Literal["sketch-explain"] = "sketch-explain"
    name: str
    nodes: NonNegative
    chunks: Annotated[NonNegative, "Chunks per part of a rank's input or output."]
    topology: Annotated[str | None, "The machine that it fits; or null."]
    within: Annotated[tuple[int, int] | None, "Routes within nodes: permitted, and all."]
    between: Annotated[tuple[int, int] | None, "Routes between nodes: permitted, and all."]
    symmetries: Annotated[
        int | None, "Number of symmetries that its rotations generate, with the identity."
    ]
    collective: str | None
    collective_chunks: Annotated[
        int | None, "Number of chunks of the collective; for reductions, of its dual."
    ]
    planned_chunks: Annotated[int | None, "Number of chunks that represent the others."]
    sentences: Annotated[
        tuple[str, ...], "Transfers that it allows and forbids; empty without a machine."
    ]
    file: Annotated[FileText | None, "Written sketch, in sccl's format; or null."]
    plot: Annotated[FileText | None, "The picture, if any."]


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


def sketch_output(
    sketch: Sketch,
    fit: FittedSketch | None,
    chunks: SketchedChunks | None,
    file: Path | None,
    plot: Path | None,
) -> SketchOutput:
    """Return the JSON output.

    Args:
        sketch: Sketch.
        fit: Sketch on a machine, if one is given.
        chunks: Planned chunks of a collective, if one is given.
        file: File of the sketch in sccl's format, if it was written.
        plot: File of the picture, if it was drawn.
    """
    digests = {"sketch": digest(sketch_to_wire(sketch))}
    return SketchOutput(
        inputs=digests | ({} if fit is None else question_digests(fit.topology)),
        name=sketch.name,
        nodes=sketch.nodes,
        chunks=sketch.chunks,
        topology=None if fit is None else fit.topology.name,
        within=None if fit is None else fit.count_routes(between=False),
        between=None if fit is None else fit.count_routes(between=True),
        symmetries=None if fit is None else fit.symmetries,
        collective=None if chunks is None else chunks.collective,
        collective_chunks=None if chunks is None else chunks.chunks,
        planned_chunks=None if chunks is None else chunks.planned,
        sentences=() if fit is None else tuple(sketch_sentences(fit, chunks)),
        file=None if file is None else str(file),
        plot=None if plot is None else str(plot),
    )
