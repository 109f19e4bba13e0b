"""Costs in the names of generated topologies: ``torus:4x4x4@50,25,12.5GB+0.5,0.5,1us``.

After ``@``: the bandwidth of one lane in GB (10^9 bytes per second), the latency of a link in us,
or both with a plus between them. One number for all links, or one for each dimension in turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sccl.topo.wiring import Dimension

COST_EXAMPLE = "@50GB+0.5us"

_PART = re.compile(r"([^A-Za-z]*)([A-Za-z].*)?", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_UNITS = ("GB", "us")


def apply_costs(dimensions: Sequence[Dimension], text: str) -> tuple[Dimension, ...]:
    """Return dimensions with the given costs. Other costs stay unchanged.

    Args:
        text: Costs without the ``@``.

    Raises:
        ValueError: The form is wrong, or it has neither one number for all nor one for each.
    """
    updated = tuple(dimensions)
    seen: set[str] = set()
    for part in text.split("+"):
        numbers, unit = _split_unit(part)
        if unit in seen:
            raise ValueError(f"{unit} once after '@'")
        seen.add(unit)
        values = _parse_values(numbers, unit, dimensions)
        each = zip(updated, values, strict=True)
        if unit == "GB":
            updated = tuple(replace(d, gb_per_s=value) for d, value in each)
        else:
            updated = tuple(replace(d, alpha_us=value) for d, value in each)
    return updated


def _split_unit(part: str) -> tuple[str, str]:
    match = _PART.fullmatch(part)
    numbers, unit = (match[1], match[2]) if match else (part, None)
    if unit not in _UNITS:
        detail = f"not {unit!r}" if unit else "and there is none"
        raise ValueError(
            f"numbers in GB (10^9 bytes per second) or us (microseconds) after '@', {detail}"
        )
    return numbers, unit


def _parse_values(numbers: str, unit: str, dimensions: Sequence[Dimension]) -> list[float]:
    """Return one number for each dimension.

    Raises:
        ValueError: the count of numbers, or a number, does not fit.
    """
    texts = numbers.split(",")
    for text in texts:
        if not _NUMBER.fullmatch(text) or (unit == "GB" and float(text) == 0):
            limits = "above 0" if unit == "GB" else "of 0 or more"
            raise ValueError(
                f"plain numbers {limits}, of up to 9 digits before and after the point, for {unit} "
                f"after '@', not {text!r}"
            )
    if len(texts) not in {1, len(dimensions)}:
        names = ", ".join([d.name for d in dimensions[:6]] + ["..."] * (len(dimensions) > 6))
        each = f", or {len(dimensions)} ({names})" if len(dimensions) > 1 else ""
        raise ValueError(f"one number in {unit} after '@'{each}, not {len(texts)}")
    values = [float(text) for text in texts]
    return values * (len(dimensions) if len(values) == 1 else 1)
