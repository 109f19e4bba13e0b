"""Algorithms that the judge accepts; no other one is lowered or put on a page."""

from __future__ import annotations

from sccl.core.algorithm import Algorithm
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.words import counted
from sccl.errors import InputError
from sccl.judge import violations
from sccl.topo.symmetry.expand import expand


def judged(algorithm: AnyAlgorithm, where: str) -> Algorithm:
    """Return an algorithm written out.

    Args:
        where: what to call it in a message: its file name.

    Raises:
        InputError: the judge rejects it.
    """
    whole = expand(algorithm)
    if found := violations(whole):
        raise InputError(
            f"{where}: the judge rejects this algorithm ({counted(len(found), 'violation')}, "
            f"the first: {found[0].message}); see all with 'sccl check'"
        )
    return whole
