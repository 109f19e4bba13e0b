"""Inversion and composition of algorithms (SCCL section 3.5)."""

from __future__ import annotations

from dataclasses import replace

from sccl.core.algorithm import Algorithm, Send
from sccl.core.collective import Collective
from sccl.core.ids import Step
from sccl.errors import NotInvertibleError, ParameterError
from sccl.judge import require_valid


def prune(algorithm: Algorithm) -> Algorithm:
    """Return a non-combining algorithm without superfluous sends.

    It keeps the first arrival of each chunk on each rank, if the rank needs the chunk or forwards
    it in a kept send. The sends of each chunk then form trees from its sources, which inversion
    requires.
    """
    first: dict[tuple[int, int], Send] = {}
    for send in algorithm.sends:  # by step, so that the first arrival comes first
        if send.src != send.dst and send.dst not in algorithm.collective.holders(send.chunk):
            first.setdefault((send.chunk, send.dst), send)
    needed = {place for place in first if place[1] in algorithm.collective.destinations(place[0])}
    kept = []
    for send in sorted(first.values(), reverse=True):  # users of a chunk before its arrival
        if (send.chunk, send.dst) in needed:
            kept.append(send)
            needed.add((send.chunk, send.src))
    return replace(algorithm, sends=tuple(kept), scope="", proved=())


def invert(algorithm: Algorithm, collective: Collective) -> Algorithm:
    """Return the inverse: every send is reversed in place and time, on the reversed topology.

    Broadcast becomes reduce, and allgather reducescatter (sends reduce). Gather becomes scatter,
    and alltoall stays alltoall (each chunk takes its path back).

    Args:
        algorithm: Valid non-combining algorithm.
        collective: Collective of the inverse: pre and post exchanged, chunk for chunk.

    Raises:
        NotInvertibleError: A chunk of ``algorithm`` starts on several ranks, or it ends on several
            and the inverse is not combining.
        JudgeError: The inverse is not a valid algorithm for ``collective``.
    """
    for chunk in range(algorithm.collective.num_chunks):
        sources = algorithm.collective.holders(chunk)
        if len(sources) > 1:
            raise NotInvertibleError(
                f"chunk {chunk} of {algorithm.collective.name} starts on {len(sources)} ranks; "
                "an inverse needs chunks that start on exactly one"
            )
        if not collective.combining and len(algorithm.collective.destinations(chunk) - sources) > 1:
            raise NotInvertibleError(
                f"chunk {chunk} of {algorithm.collective.name} ends on several ranks, so its "
                f"inverse reduces and cannot be {collective.name}, which does not reduce"
            )
    last = algorithm.steps - 1
    inverse = replace(
        algorithm,
        topology=algorithm.topology.reversed(),
        collective=collective,
        rounds_per_step=algorithm.rounds_per_step[::-1],
        sends=tuple(
            Send(Step(last - s.step), s.chunk, s.dst, s.src, collective.combining)
            for s in prune(algorithm).sends
        ),
        scope="",  # claims are about the algorithm they were made for
        proved=(),
    )
    return require_valid(inverse, "inversion")


def compose(first: Algorithm, then: Algorithm, collective: Collective) -> Algorithm:
    """Return ``first`` followed by ``then``: for allreduce, reducescatter followed by allgather.

    Args:
        collective: Collective of the composition, on the same global chunks.

    Raises:
        ParameterError: They are for different topologies or numbers of chunks.
        JudgeError: Together they do not implement ``collective``.
    """
    if first.topology != then.topology:
        raise ParameterError(
            f"the two algorithms are for different topologies, {first.topology.name!r} and "
            f"{then.topology.name!r}; compose algorithms of one topology"
        )
    chunks = {first.collective.num_chunks, then.collective.num_chunks, collective.num_chunks}
    if len(chunks) > 1:
        raise ParameterError(
            f"the two algorithms and {collective.name} number {sorted(chunks)} chunks; "
            "compose algorithms with the same global number of chunks"
        )
    later = (replace(s, step=Step(s.step + first.steps)) for s in then.sends)
    return require_valid(
        replace(
            first,
            collective=collective,
            rounds_per_step=first.rounds_per_step + then.rounds_per_step,
            sends=(*first.sends, *later),
            scope="",
            proved=(),
        ),
        "composition",
    )
