"""Check the claims that only allreduce certificates contain.

- A lower bound for allreduces of any class (:func:`check_allreduce_bound`), by sends between
  groups, by cuts through time, or by a broadcast that each allreduce contains. It holds for
  algorithms in which each send carries contributions to one chunk, reduced or not, as in all
  algorithm files. :mod:`sccl.prove.bounds.any_class` has the argument for groups.
- An algorithm is of the claimed class (:func:`is_member`): a reducescatter and then an allgather,
  or trees up and down.
- No allreduce of any class dominates an algorithm (:func:`allreduce_lower_bound`).

:mod:`sccl.prove.check.certificate` executes the sends of the algorithm again, and combines these
claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from sccl.collectives import Dual, Spec, dual_of, embedded_broadcast
from sccl.core.algorithm import Algorithm
from sccl.core.collective import Collective
from sccl.core.files.claims import AllreduceBoundWire, Claim, LimitPointWire, ParetoWire
from sccl.core.ids import Step
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology, constraint_name
from sccl.errors import CollectiveError
from sccl.judge import violations
from sccl.prove.check.case import Case
from sccl.prove.check.constraint_prices import (
    StepPrices,
    common_denominator,
    constraint_finder,
    fraction_text,
    step_price_bound,
)
from sccl.prove.check.orbit_expansion import SEND_OPERATIONS
from sccl.prove.check.rules import require_rule
from sccl.prove.check.step_counts import farthest_chunk
from sccl.prove.check.timed_cut_bounds import timed_cut_bound
from sccl.prove.check.timed_trees import Spend


def check_allreduce_bound(case: Case, claim: AllreduceBoundWire, spend: Spend) -> str:
    """Check a claim, and return the method of the check.

    Raises:
        ValueError: The claim is not proved.
        TooMuchError: The check takes too much work.
    """
    require_rule(case, claim)
    collective = case.spec.at(case.spec.unit)
    machine = case.topology.reversed() if claim.on_reversed else case.topology
    key_of = constraint_finder(machine)
    prices = [(key_of(name), step, Fraction(price)) for name, step, price in claim.prices]
    if claim.groups:
        proved = _group_bound(machine, collective, claim.groups, prices, spend)
        how = "sends between groups"
    elif claim.steps is None:
        raise ValueError("a claim for every number of steps is proved by groups only")
    elif claim.cuts:
        cuts = [(labels, Fraction(weight)) for labels, weight in claim.cuts]
        proved = timed_cut_bound(machine, collective, claim.steps, cuts, prices, spend)
        how = "cuts through time"
    else:
        roots = claim.roots if claim.root is None else (claim.root,)
        spend(case.spec.pattern_chunks)
        try:
            inner = embedded_broadcast(case.spec, roots)
        except CollectiveError:
            raise ValueError(
                "it has no groups, no cuts, and no ranks as roots: expected one of these"
            ) from None
        proved = step_price_bound(machine, inner.at(inner.unit), claim.steps, prices, spend)
        how = f"cheapest timed trees from rank{'s' if len(roots) > 1 else ''} "
        how += ", ".join(map(str, roots))
    if proved < Fraction(claim.at_least):
        raise ValueError(f"that proves only R/C >= {fraction_text(proved)}")
    return how


def _group_bound(
    machine: Topology,
    reduced: Collective,
    groups: Sequence[Sequence[int]],
    prices: StepPrices,
    spend: Spend,
) -> Fraction:
    """Return the lower bound on R/C by the sends between groups, or into a single one.

    Args:
        reduced: The allreduce.

    Raises:
        ValueError: The groups do not contain each rank once, or a link between them costs less than
            1.
    """
    of = {rank: i for i, group in enumerate(groups) for rank in group}
    ranks = [rank for group in groups for rank in group]
    is_partition = len(groups) > 1
    apart = len(ranks) == len(of) and all(groups) and of.keys() <= set(range(machine.ranks))
    if not apart or (len(of) == machine.ranks) != is_partition:
        raise ValueError("groups take in every rank once, a single one some of them alone")
    constraints = {c.key: c for c in machine.constraints()}
    scale = common_denominator([price for _, _, price in prices])
    costs, bought = dict.fromkeys(machine.edges, 0), 0
    for key, _, price in prices:
        if price < 0 or key not in constraints:
            name = constraint_name(key)[:60]
            raise ValueError(
                f"price {fraction_text(price)} of {name!r}: no such constraint, or below 0"
            )
        spend(1 + len(constraints[key].edges))
        bought += int(price * scale) * constraints[key].chunks_per_round
        for edge in constraints[key].edges:
            costs[edge] += int(price * scale)
    spend(len(costs))
    for (u, v), cost in costs.items():
        crosses = of.get(u) != of.get(v) if is_partition else v in of and u not in of
        if crosses and cost < scale:
            raise ValueError(f"link {u}->{v} leads from group to group and costs less than 1")
    if not bought:
        raise ValueError("nothing has a price")
    sends = 0
    for (held, _), chunks in reduced.chunk_classes().items():
        spend(1 + len(held))
        touched = {of.get(rank) for rank in held}
        sends += reduced.amount(chunks) * (len(touched) - 1) * (2 if is_partition else 1)
    return Fraction(sends * scale, bought * reduced.chunks)


def allreduce_lower_bound(
    case: Case, claims: Iterable[Claim], steps: int, spend: Spend
) -> Fraction | None:
    """Return the lower bound on R/C of an allreduce of S steps by claims, None if S is too small.

    Raises:
        TooMuchError: The check takes too much work.
    """
    if steps < farthest_chunk(case.topology, case.unit, spend)[0]:
        return None
    bounds = [claim for claim in claims if isinstance(claim, AllreduceBoundWire)]
    spend(1 + len(bounds))
    return max(
        (Fraction(c.at_least) for c in bounds if c.steps is None or c.steps >= steps),
        default=Fraction(0),
    )


# --- classes -------------------------------------------------------------------------------------


def is_member(
    algorithm: AnyAlgorithm, claim: ParetoWire | LimitPointWire, spec: Spec, spend: Spend
) -> bool:
    """Return whether a valid algorithm is of the class of a claim, apart from C and rounds.

    Raises:
        ValueError: It is an allreduce whose sends are not all listed.
        TooMuchError: The check takes too much work.
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
    """Return whether an allreduce is a reducescatter of ``cut`` steps and then an allgather."""
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
    """Return whether each chunk of an allreduce is reduced up a tree and broadcast down another.

    Each rank sends a chunk for reduction at most once, and receives the sum at most once. The
    reducing sends lead to the root, or to two ranks that exchange their sums. (They exchange in one
    step: otherwise a contribution would return to a rank that has it, which no valid allreduce
    does.) The sends of the sum, followed backwards, lead to the same root. In process groups, ranks
    of other groups may forward chunks.
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
    """Return the last rank of a walk over ``after``, or the ranks of the cycle that it enters."""
    passed = [rank]
    while (chunk, passed[-1]) in after:
        then = after[chunk, passed[-1]]
        if then in passed:
            return frozenset(passed[passed.index(then) :])
        passed.append(then)
    return frozenset(passed[-1:])
