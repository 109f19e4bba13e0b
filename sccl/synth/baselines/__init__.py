"""The classical algorithms, found by their files, and the function that makes them.

A file ``NAME.py`` of this folder is an algorithm. No other registration is needed. It offers
``NAME``, ``SOURCE`` (the paper or code that defines it), and ``COLLECTIVES``: for each collective
that the source defines, a function that makes its pattern, and raises an
:class:`~sccl.errors.InputError` for numbers of ranks or machines that the source does not allow.
Its docstring begins with a description in a line.
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
from sccl.synth.limits import MAX_PAIRED_RANKS

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

MAX_PIECES = 65_536
"""Guard against typing errors."""


class Baseline(Protocol):
    """The interface of an algorithm's file.

    Attributes:
        NAME: name in user input: that of the file, with hyphens.
        SOURCE: the paper or code that defines it.
        COLLECTIVES: the function that makes the pattern, for each collective that it defines.
        BY_SIZE: optional: whether the pattern depends on the size.
    """

    NAME: str
    SOURCE: str
    COLLECTIVES: Mapping[str, PatternMaker]


@cache
def names() -> tuple[str, ...]:
    """Return the names of the algorithms. None is loaded."""
    return plugin_names(__path__)


def load(name: str) -> Baseline:
    """Return an algorithm.

    Raises:
        UnknownNameError: there is none of that name.
    """
    hint = f"the classical algorithms are {', '.join(names())}"
    module = load_plugin(__name__, name, "classical algorithm", names(), hint)
    return cast("Baseline", module)


def is_size_dependent(name: str) -> bool:
    """Return whether the pattern of an algorithm depends on the size of the request.

    Raises:
        UnknownNameError: there is none of that name.
    """
    return bool(getattr(load(name), "BY_SIZE", False))


def make_pattern(name: str, request: Request, pieces: int = 1) -> Pattern:
    """Return the pattern of an algorithm for a collective on a machine, verified.

    In process groups each group runs the algorithm separately, on the links of its ranks.

    Args:
        pieces: number of pieces of all data that the algorithm sends as one. Algorithms that
            pipeline, or choose a path for each piece, use them.

    Raises:
        UnknownNameError: there is no such algorithm.
        CollectiveError: it does not define the collective.
        TooLargeError: the pattern would be too large.
        InputError: it does not support such a machine or number of ranks.
        JudgeError: the pattern fails verification.
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
    if not 1 <= pieces <= MAX_PIECES:
        raise ParameterError(f"pieces is {pieces}, expected 1 to {MAX_PIECES}")
    if spec.parts:
        return verify_pattern(pattern_in_groups(request, maker, pieces))
    return verify_pattern(maker(spec.name)(request, pieces))
