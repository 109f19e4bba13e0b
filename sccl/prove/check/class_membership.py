"""Whether an algorithm is in the class of which it is claimed to be the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.algorithm import Algorithm
from sccl.core.files.claims import LimitPointWire, ParetoWire
from sccl.core.ids import Step
from sccl.core.symmetric import AnyAlgorithm
from sccl.judge import violations
from sccl.prove.check.orbit_expansion import SEND_OPERATIONS
from sccl.prove.check.timed_trees import Spend


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
        return is_tree_allreduce(algorithm)
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
            spend(SEND_OPERATIONS * algorithm.num_sends)
            if is_composition(algorithm, dual, cut):
                return True
    return False


def is_composition(algorithm: Algorithm, dual: Dual, cut: int) -> bool:
    """Return whether an allreduce is a reducescatter of so many steps and then an allgather."""
    chunks = algorithm.collective.chunks
    first = replace(
        algorithm,
        collective=dual.first_phase.at(chunks),
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


def is_tree_allreduce(algorithm: Algorithm) -> bool:
    """Return whether each chunk of an allreduce goes up trees, and down others from where it turns.

    Each rank passes it on once to be reduced, at most, and gets it once after, at most. Going on
    from rank to rank as it is reduced one comes to the rank where it turns, or to two that pass it
    on to one another. (If these did not in one step, some contribution would come to where it has
    been, which is not so of any valid allreduce.) And going back from where it is in the end one
    comes there, too. In process groups others may be among these ranks.
    """
    up: dict[tuple[int, int], int] = {}
    down: dict[tuple[int, int], int] = {}
    for s in algorithm.sends:
        tree, node, then = (up, s.src, s.dst) if s.reduce else (down, s.dst, s.src)
        if (s.chunk, node) in tree:
            return False
        tree[s.chunk, node] = then
    turns: dict[int, frozenset[int]] = {}
    for chunk, rank in up:
        turn = _final_ranks(up, chunk, rank)
        if len(turn) > 2 or turns.setdefault(chunk, turn) != turn:
            return False
    return all(
        len(end := _final_ranks(down, chunk, rank)) == 1 and end <= turns.get(chunk, frozenset())
        for chunk, rank in down
    )


def _final_ranks(after: Mapping[tuple[int, int], int], chunk: int, rank: int) -> frozenset[int]:
    """Return the rank that one comes to in the end, or those between which one goes round."""
    passed = [rank]
    while (chunk, passed[-1]) in after:
        then = after[chunk, passed[-1]]
        if then in passed:
            return frozenset(passed[passed.index(then) :])
        passed.append(then)
    return frozenset(passed[-1:])
