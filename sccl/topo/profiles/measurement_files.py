"""Convert measurements of links from files and back."""

from __future__ import annotations

from pathlib import Path

from sccl.core.files.disk import read_text
from sccl.core.files.json_text import parse
from sccl.core.files.outputs import build_output
from sccl.errors import FormatError, ParameterError
from sccl.topo.profiles.measurement_shapes import MeasurementsWire
from sccl.topo.profiles.measurements import LinkTiming, Measurements, Pacing


def load_measurements(path: Path) -> Measurements:
    """Load measurements of links from a file.

    Raises:
        InputError: The file cannot be read, contains none, or is inconsistent.
    """
    where = str(path)
    wire = parse(read_text(path), MeasurementsWire, where)
    try:
        timings = tuple(
            LinkTiming(t.src, t.dst, Pacing(t.pacing), t.chunks, t.chunk_bytes, t.us)
            for t in wire.timings
        )
        return Measurements(wire.name, wire.ranks, timings, wire.source)
    except ParameterError as error:
        raise FormatError(f"{where}: {error}") from error


def measurements_to_wire(measurements: Measurements) -> MeasurementsWire:
    """Return the file shape of measurements of links."""
    return build_output(MeasurementsWire, measurements)
