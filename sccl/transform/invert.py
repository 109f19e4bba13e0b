"""Inversion and composition of algorithms.

Source: Cai et al., SCCL (PPoPP 2021), section 3.5: combining collectives from non-combining ones.
Superfluous sends are pruned before an inversion, so that each chunk follows a tree, and its
reduction counts every contribution once.
"""

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
    collective = algorithm.collective
    first_arrivals: dict[tuple[int, int], Send] = {}
    for send in algorithm.sends:  # in the order of steps
        if send.src != send.dst and send.dst not in collective.holders(send.chunk):
            first_arrivals.setdefault((send.chunk, send.dst), send)
    needed = {
        (chunk, rank) for chunk, rank in first_arrivals if rank in collective.destinations(chunk)
    }
    kept = []
    # In reverse order of steps: a rank's sends of a chunk come before the send that brought it.
    for send in sorted(first_arrivals.values(), reverse=True):
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
        collective: Collective of the inverse: for each chunk, pre- and postcondition exchanged.

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
    last_step = algorithm.steps - 1
    inverse = replace(
        algorithm,
        topology=algorithm.topology.reversed(),
        collective=collective,
        rounds_per_step=algorithm.rounds_per_step[::-1],
        sends=tuple(
            Send(Step(last_step - s.step), s.chunk, s.dst, s.src, collective.combining)
            for s in prune(algorithm).sends
        ),
        scope="",  # claims hold only for the original algorithm
        proved=(),
    )
    return require_valid(inverse, "inversion")


def compose(first: Algorithm, then: Algorithm, collective: Collective) -> Algorithm:
    """Return ``first`` followed by ``then``: for allreduce, reducescatter followed by allgather.

    Args:
        first: Algorithm that runs first.
        then: Algorithm that runs second.
        collective: Collective of the composition, on the same global chunks.

    Raises:
        ParameterError: The algorithms have different topologies or numbers of chunks.
        JudgeError: The composition does not implement ``collective``.
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
    shifted_sends = (replace(s, step=Step(s.step + first.steps)) for s in then.sends)
    return require_valid(
        replace(
            first,
            collective=collective,
            rounds_per_step=first.rounds_per_step + then.rounds_per_step,
            sends=(*first.sends, *shifted_sends),
            scope="",
            proved=(),
        ),
        "composition",
    )
