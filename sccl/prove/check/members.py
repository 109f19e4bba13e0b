"""Whether an algorithm is in the class of which it is claimed to be the best."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.algorithm import Algorithm
from sccl.core.files.claims import LimitPointWire, ParetoWire
from sccl.core.ids import ChunkId, Step
from sccl.core.symmetric import AnyAlgorithm
from sccl.judge import violations
from sccl.prove.check.plain import SEND
from sccl.prove.check.trees import Spend


def is_member(
    algorithm: AnyAlgorithm, claim: ParetoWire | LimitPointWire, spec: Spec, spend: Spend
) -> bool:
    """Return whether a valid algorithm is in the class of a claim, but for C and rounds.

    Raises:
        ValueError: it is an allreduce that is not written out.
        TooMuchError: that takes too much work to say.
    """
    dual = dual_of(spec)
    if dual.phases == 1 or (isinstance(claim, LimitPointWire) and claim.every):
        return True
    if not isinstance(algorithm, Algorithm):
        raise ValueError("an allreduce has to be written out")  # noqa: TRY004 - a claim is wrong
    if isinstance(claim, LimitPointWire) and claim.trees:
        return is_by_trees(algorithm)
    cuts = range(1, algorithm.steps)
    rounds = algorithm.rounds_per_step
    if claim.halves == "equal":
        cuts = range(algorithm.steps // 2, algorithm.steps // 2 + 1)
        if algorithm.steps % 2 or 2 * sum(rounds[: cuts[0]]) != sum(rounds):
            return False
    k = claim.k if isinstance(claim, ParetoWire) else None
    for cut in cuts:
        halves = (rounds[:cut], rounds[cut:])
        if k is None or all(sum(half) <= len(half) + k for half in halves):
            spend(SEND * algorithm.num_sends)
            if is_composition(algorithm, dual, cut):
                return True
    return False


def is_composition(algorithm: Algorithm, dual: Dual, cut: int) -> bool:
    """Return whether an allreduce is a reducescatter of so many steps and then an allgather."""
    chunks = algorithm.collective.chunks
    first = replace(
        algorithm,
        collective=dual.scattered.at(chunks),
        rounds_per_step=algorithm.rounds_per_step[:cut],
        sends=tuple(s for s in algorithm.sends if s.step < cut),
    )
    then = replace(
        algorithm,
        collective=dual.spec.at(chunks // dual.chunk_factor),
        rounds_per_step=algorithm.rounds_per_step[cut:],
        sends=tuple(replace(s, step=Step(s.step - cut)) for s in algorithm.sends if s.step >= cut),
    )
    return not violations(first) and not violations(then)


def is_by_trees(algorithm: Algorithm) -> bool:
    """Return whether each chunk of an allreduce goes up trees, and down others from where it turns.

    Of a valid one that is so if all ranks but one pass it on once to be reduced, and all but one
    get it once after: it is the same one that does neither, as what it holds in the end comes from
    all others, and what it contributes leaves it reduced.

    It also is if all pass it on once to be reduced, and all but two get it once after. What each of
    the two holds in the end has come to be reduced. As each rank passes on once, there is one cycle
    of such sends, and both are on it. If it were longer than the two, or they did not pass on in
    one step, some contribution would come to where it has been, which no valid one does.
    """
    up = Counter((s.chunk, s.src) for s in algorithm.sends if s.reduce)
    down = Counter((s.chunk, s.dst) for s in algorithm.sends if not s.reduce)
    if any(times > 1 for found in (up, down) for times in found.values()):
        return False
    ups, downs = (Counter(chunk for chunk, _ in found) for found in (up, down))
    ranks = algorithm.topology.ranks
    return all(
        (ups[chunk], downs[chunk]) in {(ranks - 1, ranks - 1), (ranks, ranks - 2)}
        for chunk in map(ChunkId, range(algorithm.collective.num_chunks))
    )
