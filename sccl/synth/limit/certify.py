"""Certificates of limit frontiers: no k, no C, prices alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sccl.collectives import Spec
from sccl.core.algorithm import Algorithm
from sccl.core.files.claims import Claim, LimitPointWire
from sccl.core.limit import StepLimit
from sccl.core.topology import Topology
from sccl.synth.claims import (
    algorithm_claim,
    bound_claims,
    halves_claims,
    limit_claims,
    write_claims,
)
from sccl.synth.limit.allreduce import TreeFrontier
from sccl.synth.limit.frontier import LimitFrontier, LimitPoint


def write_limit_certificate(
    frontier: LimitFrontier,
    trees: TreeFrontier | None,
    folder: Path,
    composed: Sequence[Algorithm] = (),
) -> Path:
    """Write the claims of a limit frontier and their proofs; return the list of claims.

    Args:
        trees: of allreduce, the frontier of the class of trees.
        composed: of allreduce, compositions of any two halves that may be optimal among such.

    Raises:
        InputError: the folder cannot be written, or holds the certificate of another question.
    """
    topology, spec = frontier.topology, frontier.spec

    def make(unfinished: Path) -> Sequence[Claim]:
        """Write the files of all proofs, and return the claims."""
        claims = list(bound_claims(topology, spec))
        claims += _of_class(
            unfinished, topology, spec, frontier.limits, frontier.points, trees=False
        )
        if trees is not None:
            claims += _of_class(unfinished, topology, spec, trees.limits, trees.points, trees=True)
        claims += list(halves_claims(unfinished, topology, spec, claims, composed))
        return claims

    return write_claims(folder, topology, spec, make)


def _of_class(  # noqa: PLR0913 - a frontier's parts
    folder: Path,
    topology: Topology,
    spec: Spec,
    limits: Sequence[StepLimit],
    points: Sequence[LimitPoint],
    *,
    trees: bool,
) -> Iterator[Claim]:
    """Yield the limits of a class, the algorithms at or near them, and which are optimal."""
    for limit in limits:
        yield from limit_claims(limit, spec, trees=trees)
    known = True
    for point in points:
        known &= all(x.lower == x.upper for x in limits if x.steps <= point.limit.steps)
        found = point.algorithm
        if found is None:
            continue
        yield algorithm_claim(folder, topology, spec, found, "-trees" if trees else "")
        if known and point.attains:
            yield LimitPointWire(
                chunks=found.collective.chunks,
                steps=found.steps,
                rounds=found.rounds,
                trees=trees,
            )
