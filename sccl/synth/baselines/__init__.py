"""Find the classical algorithms by their files, and make their patterns.

Each file ``NAME.py`` of this folder is an algorithm. No other registration is needed. It offers
``NAME``, ``SOURCE`` (the paper or code that defines it), and ``COLLECTIVES``: a function for each
collective that the source defines. The function makes the pattern, and raises an
:class:`~sccl.errors.InputError` for machines or numbers of ranks that the source does not allow.
The first line of the file's docstring describes the algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Protocol, cast

from sccl.core.plugins import load_plugin, plugin_names
from sccl.errors import CollectiveError, ParameterError, TooLargeError
from sccl.synth.baselines.pattern import (
    Pattern,
    PatternMaker,
    is_direct,
    pattern_in_groups,
    to_algorithm,
    to_logical_algorithm,
    to_schedule,
    verify_pattern,
)
from sccl.synth.common.contract import Request
from sccl.synth.limits import MAX_PAIRED_RANKS, MAX_REQUESTED

__all__ = [
    "Baseline",
    "Pattern",
    "is_direct",
    "is_size_dependent",
    "load",
    "make_pattern",
    "names",
    "to_algorithm",
    "to_logical_algorithm",
    "to_schedule",
]


class Baseline(Protocol):
    """The interface of an algorithm's file.

    Attributes:
        NAME: Name in user input: that of the file, with hyphens.
        SOURCE: The paper or code that defines it.
        COLLECTIVES: Functions that make the patterns, by collective.
        BY_SIZE: Whether the pattern depends on the size. Optional.
    """

    NAME: str
    SOURCE: str
    COLLECTIVES: Mapping[str, PatternMaker]


@cache
def names() -> tuple[str, ...]:
    """Return the names of the algorithms, without loading any."""
    return plugin_names(__path__)


def load(name: str) -> Baseline:
    """Return an algorithm.

    Raises:
        UnknownNameError: There is no algorithm of that name.
    """
    hint = f"the classical algorithms are {', '.join(names())}"
    module = load_plugin(__name__, name, "classical algorithm", names(), hint)
    return cast("Baseline", module)


def is_size_dependent(name: str) -> bool:
    """Return whether the pattern of an algorithm depends on the size of the request.

    Raises:
        UnknownNameError: There is no algorithm of that name.
    """
    return bool(getattr(load(name), "BY_SIZE", False))


def make_pattern(name: str, request: Request, pieces: int = 1) -> Pattern:
    """Return the pattern of an algorithm for a collective on a machine, verified.

    In process groups each group runs the algorithm separately, on the links of its ranks.

    Args:
        name: Name of the algorithm.
        request: The collective, the machine, and the size.
        pieces: Number of pieces of the data that the algorithm sends as a whole. Algorithms that
            pipeline, or choose a path for each piece, use them.

    Raises:
        UnknownNameError: The algorithm does not exist.
        CollectiveError: It does not define the collective.
        TooLargeError: The pattern would be too large.
        InputError: It does not support such a machine or number of ranks.
        JudgeError: The pattern fails verification.
    """
    baseline, spec = load(name), request.spec

    def maker(collective: str) -> PatternMaker:
        if collective not in baseline.COLLECTIVES:
            choices = ", ".join(sorted(baseline.COLLECTIVES))
            raise CollectiveError(f"{name} does not define {collective}: give one of {choices}")
        return baseline.COLLECTIVES[collective]

    if not spec.parts:
        maker(spec.name)
    if spec.ranks > MAX_PAIRED_RANKS:
        raise TooLargeError(
            f"{spec.ranks} ranks: this version makes patterns of up to {MAX_PAIRED_RANKS}: give "
            "fewer"
        )
    if not 1 <= pieces <= MAX_REQUESTED:
        raise ParameterError(f"pieces is {pieces}, expected 1 to {MAX_REQUESTED}")
    if spec.parts:
        return verify_pattern(pattern_in_groups(request, maker, pieces))
    return verify_pattern(maker(spec.name)(request, pieces))
