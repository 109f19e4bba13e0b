"""Certificates of limit frontiers, which are proved by prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sccl.collectives import Spec
from sccl.core.files.claims import Claim, LimitPointWire
from sccl.core.frontier import TREES, ClassFrontier, Frontier
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.synth.common.claims import (
    algorithm_claim,
    any_family_bound_claims,
    any_family_optimum_claims,
    bound_claims,
    composition_claims,
    limit_claims,
    write_claims,
)


def write_limit_certificate(  # noqa: PLR0913, PLR0917 - independent inputs
    topology: Topology,
    spec: Spec,
    parts: Sequence[ClassFrontier],
    folder: Path,
    composed: Sequence[AnyAlgorithm] = (),
    over: Frontier | None = None,
) -> Path:
    """Write the claims of a limit frontier and their proofs. Return the list of claims.

    Args:
        parts: Results for the solved class, and for allreduce also for trees.
        composed: For allreduce, compositions of any two phases that may be optimal among
            compositions.
        over: For allreduce, the frontier over all classes.

    Raises:
        InputError: The folder cannot be written, or contains another certificate.
    """

    def make(unfinished: Path) -> Sequence[Claim]:
        claims = list(bound_claims(topology, spec))
        claims += list(any_family_bound_claims(topology, over)) if over is not None else []
        for part in parts:
            more = _class_claims(unfinished, topology, spec, part)
            claims += [claim for claim in more if claim not in claims]
        claims += list(composition_claims(unfinished, topology, spec, claims, composed))
        if over is not None:
            claims += list(any_family_optimum_claims(unfinished, topology, spec, claims, over))
        return claims

    return write_claims(folder, topology, spec, make)


def _class_claims(
    folder: Path, topology: Topology, spec: Spec, part: ClassFrontier
) -> Iterator[Claim]:
    """Yield the claims of a class: its limits, algorithms at or near them, and optimal points."""
    trees = part.name == TREES
    for limit in part.limits:
        yield from limit_claims(limit, spec, trees=trees)
    for point in part.points:
        algorithm = point.algorithm
        if algorithm is None:
            continue
        yield algorithm_claim(folder, topology, spec, algorithm, "-trees" if trees else "")
        if point.is_attained and all(x.is_exact for x in part.limits if x.steps <= point.steps):
            yield LimitPointWire(
                chunks=algorithm.collective.chunks,
                steps=algorithm.steps,
                rounds=algorithm.rounds,
                trees=trees,
            )
