"""Patterns composed of patterns: in parallel, in sequence, or reversed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import lcm

import numpy as np

from sccl.collectives import Spec, named_spec
from sccl.core.collective import Collective
from sccl.core.sizes import MAX_SIZE_BYTES
from sccl.core.topology import Topology
from sccl.synth.baselines.pattern.send_pattern import Pattern, build_pattern, check_rows
from sccl.synth.common.contract import Request

PatternMaker = Callable[[Request, int], Pattern]
"""Makes the pattern of one collective, of whose parts each is cut into so many pieces."""

_INVERSES = {
    "reducescatter": "allgather",
    "reduce": "broadcast",
    "gather": "scatter",
}
"""The forward collective of each collective that is another one reversed."""


def run_in_parallel(patterns: Sequence[Pattern], delay: int = 0) -> Pattern:
    """Return patterns of one collective that run at once, each on its own part of the data.

    The chunks of each pattern follow those of the previous one. Its steps start ``delay`` steps
    after those of the previous one.
    """
    chunks = [p.collective.num_chunks for p in patterns]
    first = np.cumsum([0, *chunks])
    collective = replace(
        patterns[0].collective,
        chunks=sum(p.collective.chunks for p in patterns),
        num_chunks=sum(chunks),
    )
    check_rows(sum(p.num_sends for p in patterns), collective)
    return build_pattern(
        collective,
        step=np.concatenate([p.step + i * delay for i, p in enumerate(patterns)]),
        chunk=np.concatenate([p.chunk + at for p, at in zip(patterns, first, strict=False)]),
        src=np.concatenate([p.src for p in patterns]),
        dst=np.concatenate([p.dst for p in patterns]),
        reduce=np.concatenate([p.reduce for p in patterns]),
    )


def split_chunks(pattern: Pattern, pieces: int) -> Pattern:
    """Return the same sends with each chunk cut into pieces, which travel together."""
    return run_in_parallel([pattern] * pieces) if pieces > 1 else pattern


def pipeline_chunks(pattern: Pattern, pieces: int) -> Pattern:
    """Return the same sends with each chunk cut into pieces, each a step after the previous."""
    return run_in_parallel([pattern] * pieces, delay=1) if pieces > 1 else pattern


def overlay_patterns(
    patterns: Sequence[Pattern], starts: Sequence[int], collective: Collective
) -> Pattern:
    """Return patterns on the same chunks as one pattern, each shifted to its first step."""
    return build_pattern(
        collective,
        step=np.concatenate([p.step + at for p, at in zip(patterns, starts, strict=True)]),
        chunk=np.concatenate([p.chunk for p in patterns]),
        src=np.concatenate([p.src for p in patterns]),
        dst=np.concatenate([p.dst for p in patterns]),
        reduce=np.concatenate([p.reduce for p in patterns]),
    )


def concatenate_patterns(first: Pattern, then: Pattern, collective: Collective) -> Pattern:
    """Return one pattern after the other, on the same chunks."""
    return overlay_patterns([first, then], [0, first.steps], collective)


def invert_pattern(pattern: Pattern, collective: Collective) -> Pattern:
    """Return a pattern with all sends reversed in direction and time (SCCL section 3.5).

    This is valid if each chunk reaches each rank once: a broadcast becomes a reduce, an allgather a
    reducescatter, and a scatter a gather.

    Args:
        collective: Collective that the inverse implements, on the same chunks.
    """
    return build_pattern(
        collective,
        step=pattern.steps - 1 - pattern.step,
        chunk=pattern.chunk,
        src=pattern.dst,
        dst=pattern.src,
        reduce=collective.combining,
    )


def _request_for(request: Request, spec: Spec, topology: Topology) -> Request:
    """Return a request for another collective on the same data, with its buffer size."""
    size = request.size_bytes * spec.unit // request.spec.unit
    return replace(
        request, topology=topology, spec=spec, size_bytes=min(max(size, 1), MAX_SIZE_BYTES)
    )


def _inverse_maker(make: PatternMaker) -> PatternMaker:
    """Return the maker of a reducescatter, reduce, or gather from that of its inverse."""

    def made(request: Request, pieces: int) -> Pattern:
        """Return the inverse of the pattern for the reversed machine."""
        spec = request.spec
        inverse = named_spec(_INVERSES[spec.name], spec.ranks, spec.root)
        pattern = make(_request_for(request, inverse, request.topology.reversed()), pieces)
        chunks = pattern.collective.num_chunks // spec.pattern_chunks * spec.unit
        return invert_pattern(pattern, spec.at(chunks))

    return made


def _allreduce_maker(make: PatternMaker) -> PatternMaker:
    """Return the maker of an allreduce (reducescatter, then allgather) from that of allgather."""

    def made(request: Request, pieces: int) -> Pattern:
        """Return both phases. If links are alike both ways, one is the reverse of the other."""
        spec, topology = request.spec, request.topology
        gathers, mirrored = named_spec("allgather", spec.ranks), topology.reversed()
        spread = make(_request_for(request, gathers, topology), pieces)
        alike = mirrored.same_capacities(topology)
        gathered = spread if alike else make(_request_for(request, gathers, mirrored), pieces)
        chunks = lcm(spread.collective.num_chunks, gathered.collective.num_chunks)
        gathered, spread = (
            split_chunks(p, chunks // p.collective.num_chunks) for p in (gathered, spread)
        )
        collective = spec.at(chunks)
        return concatenate_patterns(invert_pattern(gathered, collective), spread, collective)

    return made


def with_inverses(**makers: PatternMaker) -> dict[str, PatternMaker]:
    """Return makers by collective, with those of inverse collectives, and of an allreduce.

    Args:
        makers: Makers of some collectives. They take precedence.
    """
    inverses = {
        name: _inverse_maker(makers[forward])
        for name, forward in _INVERSES.items()
        if forward in makers
    }
    if "allgather" in makers:
        inverses["allreduce"] = _allreduce_maker(makers["allgather"])
    return inverses | makers
