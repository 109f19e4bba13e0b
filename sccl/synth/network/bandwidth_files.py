"""Convert variable bandwidths from files and back."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from sccl.core.files.disk import read_text
from sccl.core.files.json_text import parse
from sccl.core.files.outputs import build_output
from sccl.core.files.schedule_shapes import BandwidthIntervalWire, VariableBandwidthWire
from sccl.errors import FormatError, ParameterError
from sccl.synth.network.variable_bandwidth import BandwidthInterval, VariableBandwidth


def load_bandwidth(path: Path) -> VariableBandwidth:
    """Load a variable bandwidth from a file.

    Raises:
        InputError: The file cannot be read, has another form, or is inconsistent.
    """
    return bandwidth_from_text(read_text(path), str(path))


def bandwidth_from_text(text: str, where: str) -> VariableBandwidth:
    """Return the bandwidth over time in a JSON text.

    Args:
        where: name in messages: its file.

    Raises:
        FormatError: it has another form, or is inconsistent.
    """
    return bandwidth_from_wire(parse(text, VariableBandwidthWire, where), where)


def bandwidth_from_wire(wire: VariableBandwidthWire, where: str = "bandwidth") -> VariableBandwidth:
    """Return the bandwidth over time of a file shape.

    Args:
        where: name in messages, if the shape has none.

    Raises:
        FormatError: it is inconsistent.
    """
    intervals = []
    for number, interval in enumerate(wire.intervals):
        try:
            intervals.append(_interval(interval))
        except ParameterError as error:
            raise FormatError(f"{where}, $.intervals[{number}]: {error}") from error
    return VariableBandwidth(tuple(intervals), wire.name or where)


def _interval(wire: BandwidthIntervalWire) -> BandwidthInterval:
    """Return an interval, with numbers that are exactly the decimals of the file.

    Raises:
        ParameterError: It is inconsistent.
    """
    return BandwidthInterval(
        links=tuple(wire.links),
        from_us=_exact(wire.from_us),
        to_us=None if wire.to_us is None else _exact(wire.to_us),
        fraction=_exact(wire.fraction),
    )


def bandwidth_to_wire(bandwidth: VariableBandwidth) -> VariableBandwidthWire:
    """Return the file shape of a bandwidth over time."""
    return build_output(VariableBandwidthWire, bandwidth)


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
