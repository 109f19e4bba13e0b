"""Field types of bounds, limits and frontiers: fractions as texts such as ``"7/6"``, seconds.

Numbers used in computations have size limits, so that they cannot stall a reader.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.errors import ParameterError

FileText = Annotated[str, Meta(description="A path, as it was given.")]
FractionText = Annotated[
    str, Meta(pattern="^[0-9]+(/[0-9]+)?$", description="A fraction such as 7/6.")
]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[
    float, Meta(ge=0, description="Seconds; not in files, which are the same again.")
]

_MAX_STEPS = 1_000_000
_MAX_DIGITS = 4_000  # of a price: Python reads no more than 4,300 in a number
_COST = re.compile(r"[1-9][0-9]{0,14}(/[1-9][0-9]{0,14})?")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an output."""


def seconds_to_wire(seconds: float | None) -> float | UnsetType:
    """Return seconds to the millisecond. Those that were not taken are left out."""
    return UNSET if seconds is None else round(seconds, 3)


def seconds_from_wire(seconds: float | UnsetType) -> float | None:
    """Return the seconds of a file. None: it does not say."""
    return None if seconds is UNSET else seconds


def check_steps(steps: int) -> int:
    """Return a number of steps that can be drawn.

    Raises:
        ParameterError: it is less than 1, or too large.
    """
    if not 1 <= steps <= _MAX_STEPS:
        raise ParameterError(f"steps is {steps}, expected 1 to {_MAX_STEPS}")
    return steps


def cost_from_text(text: str) -> Fraction:
    """Return an R/C; numbers of very many digits would take long to compute with.

    Raises:
        ParameterError: it has them, or is no positive fraction.
    """
    if not _COST.fullmatch(text):
        raise ParameterError(f"R/C is {text!r:.40}, expected a fraction such as 7/6")
    return Fraction(text)


def fraction_from_text(text: str) -> Fraction:
    """Return a price, a weight or a number of rounds: they are read, and not computed with.

    Args:
        text: of the form that ``FractionText`` says.

    Raises:
        ParameterError: it is too long to be read, or divides by 0.
    """
    top, _, bottom = text.partition("/")
    if len(text) > _MAX_DIGITS or (bottom and not bottom.strip("0")):
        raise ParameterError(f"a price is {text!r:.40}, expected a fraction such as 7/6")
    return Fraction(int(top), int(bottom or 1))
