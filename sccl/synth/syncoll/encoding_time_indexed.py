"""The time-indexed Boolean model of SYNCOLL, shared by the CP-SAT and the SAT backends.

One Boolean per (chunk, link, step): "the chunk goes over the link in that step". SCCL section 3.4
abandoned this direct encoding with Z3. It is fast here because a variable exists only if it can
matter, and current solvers count over Booleans natively.

Let dist_pre(n) be the distance of n from the chunk's sources, and dist_post(n) the distance from n
to the nearest destination. A transfer over (u, v) in step s (from 0) has a variable if

    dist_pre(u) <= s  and  s + 1 + dist_post(v) <= S.

Constraints, with SCCL's numbers for their counterparts:

* A chunk arrives exactly once at each destination, and at most once at other ranks (C2, C3).
* A transfer needs an earlier arrival of the chunk at its sender (C1, C4).
* The number of transfers of each bandwidth constraint in a step is at most b * r_s (C5).
* The rounds add up: sum r_s = R (C6).

Tried without success: ordering the chunks of a source by their arrival on *several* ranks
(lexicographically) costs more clauses than it prunes. Arrival on one rank is used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sccl.core.algorithm import Algorithm, Send
from sccl.core.formatting import format_count
from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import ChunkId, Rank, Step
from sccl.core.instance import Instance


@dataclass(frozen=True, slots=True)
class Transfer:
    """A Boolean variable: ``chunk`` is sent over ``(src, dst)`` in ``step``, counted from 0."""

    chunk: int
    src: int
    dst: int
    step: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """A constraint: at most ``chunks_per_round * r_step`` of ``transfers`` are true."""

    step: int
    chunks_per_round: int
    transfers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TransferModel:
    """The problem over variables 0 .. len(transfers)-1 and the rounds r_0 .. r_{S-1} >= 1.

    Attributes:
        instance: The instance.
        transfers: Meaning of each variable.
        exactly_one: Sets of variables of which exactly one is true.
        at_most_one: Sets of variables of which at most one is true.
        needs: (variable, variables): if the first is true, so is one of the others.
        capacities: Bandwidth constraints.
        max_rounds_per_step: R - S + 1, the rounds of a step if all others have one round.
        infeasible_reason: Reason if the instance is known to be infeasible. Otherwise empty.
    """

    instance: Instance
    transfers: tuple[Transfer, ...]
    exactly_one: tuple[tuple[int, ...], ...]
    at_most_one: tuple[tuple[int, ...], ...]
    needs: tuple[tuple[int, tuple[int, ...]], ...]
    capacities: tuple[Capacity, ...]
    max_rounds_per_step: int
    infeasible_reason: str


def count_variables(instance: Instance) -> int:
    """Return the number of variables of the model of ``instance``, without building it."""
    windows = _windows(instance)
    return sum(
        len(chunks) * sum(len(steps) for _, _, steps in windows[key])
        for key, chunks in instance.collective.chunk_classes().items()
    )


def encode(instance: Instance, *, break_symmetry: bool = True) -> TransferModel:
    """Return the model of ``instance``.

    Args:
        instance: The instance.
        break_symmetry: Whether to order the interchangeable chunks of each class. This preserves
            feasibility, but only one of the algorithms that differ by renaming chunks.
    """
    transfers = _transfers(instance)
    arrivals: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, t in enumerate(transfers):
        arrivals[t.chunk, t.dst].append(i)
    collective = instance.collective
    exactly_one, at_most_one, impossible = [], [], ""
    for chunk in range(collective.num_chunks):
        holders, wanted = collective.holders(chunk), collective.destinations(chunk)
        for rank in range(collective.ranks):
            arriving = tuple(arrivals.get((chunk, rank), ()))
            if rank in wanted and rank not in holders:
                exactly_one.append(arriving)
                if not arriving:
                    within = format_count(instance.steps, "step")
                    impossible = f"chunk {chunk} cannot reach rank {rank} in {within}"
            elif len(arriving) > 1:
                at_most_one.append(arriving)
    needs = [
        (i, tuple(j for j in arrivals.get((t.chunk, t.src), ()) if transfers[j].step < t.step))
        for i, t in enumerate(transfers)
        if t.src not in collective.holders(t.chunk)
    ]
    if break_symmetry:
        needs += _order_chunks(instance, arrivals)
    return TransferModel(
        instance=instance,
        transfers=transfers,
        exactly_one=tuple(exactly_one),
        at_most_one=tuple(at_most_one),
        needs=tuple(needs),
        capacities=_capacities(instance, transfers),
        max_rounds_per_step=instance.rounds - instance.steps + 1,
        infeasible_reason=impossible,
    )


_ChunkClass = tuple[frozenset[Rank], frozenset[Rank]]


def _windows(instance: Instance) -> dict[_ChunkClass, list[tuple[int, int, range]]]:
    """Return, for each class of chunks, the links and the steps in which each is useful."""
    successors = instance.topology.successors()
    predecessors = instance.topology.reversed().successors()
    edges = sorted(instance.topology.edges)
    windows = {}
    for holders, wanted in instance.collective.chunk_classes():
        before = distances(successors, holders)
        after = distances(predecessors, wanted)
        windows[holders, wanted] = [
            (u, v, range(before[u], instance.steps - after[v]))
            for u, v in edges
            if v not in holders and before[u] != UNREACHED and after[v] != UNREACHED
        ]
    return windows


def _transfers(instance: Instance) -> tuple[Transfer, ...]:
    windows, collective = _windows(instance), instance.collective
    return tuple(
        Transfer(chunk, u, v, step)
        for chunk in range(collective.num_chunks)
        for u, v, steps in windows[collective.holders(chunk), collective.destinations(chunk)]
        for step in steps
    )


def _capacities(instance: Instance, transfers: Sequence[Transfer]) -> tuple[Capacity, ...]:
    """Return the bandwidth constraints that can be tight."""
    users: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for i, t in enumerate(transfers):
        users[t.src, t.dst, t.step].append(i)
    capacities = []
    for constraint in instance.topology.constraints():
        for step in range(instance.steps):
            load = [i for u, v in constraint.edges for i in users.get((u, v, step), ())]
            if len(load) > constraint.chunks_per_round:  # r_step is at least 1
                capacities.append(Capacity(step, constraint.chunks_per_round, tuple(sorted(load))))
    return tuple(capacities)


def _order_chunks(
    instance: Instance, arrivals: dict[tuple[int, int], list[int]]
) -> list[tuple[int, tuple[int, ...]]]:
    """Order interchangeable chunks by their arrivals on one rank that all of them must reach.

    Chunks with the same holders and the same destinations can be renamed freely. So some solution
    has them sorted by the position of their arrival in the common list of arrivals. An arrival of
    the next chunk at position i requires one of this chunk at a position up to i.
    """
    needs: list[tuple[int, tuple[int, ...]]] = []
    for (holders, wanted), chunks in instance.collective.chunk_classes().items():
        ranks = sorted(wanted - holders)
        if len(chunks) < 2 or not ranks:
            continue
        rank = max(ranks, key=lambda r: (len(arrivals.get((chunks[0], r), ())), -r))
        for this, following in pairwise(chunks):
            ours, theirs = arrivals.get((this, rank), []), arrivals.get((following, rank), [])
            needs += [(theirs[i], tuple(ours[: i + 1])) for i in range(len(theirs))]
    return needs


def decode(
    model: TransferModel, chosen: Iterable[int], rounds_per_step: Sequence[int]
) -> Algorithm:
    """Return the algorithm of a solution, without unused arrivals.

    Args:
        model: The model.
        chosen: Indices of the true variables.
        rounds_per_step: r_0 .. r_{S-1}.
    """
    picked = [model.transfers[i] for i in chosen]
    collective = model.instance.collective
    useful = {(t.chunk, t.dst) for t in picked if t.dst in collective.destinations(t.chunk)}
    sends = []
    for t in sorted(picked, key=lambda t: -t.step):  # sends of a chunk before its arrival
        if (t.chunk, t.dst) in useful:
            useful.add((t.chunk, t.src))
            sends.append(Send(Step(t.step), ChunkId(t.chunk), Rank(t.src), Rank(t.dst)))
    return Algorithm(model.instance.topology, collective, tuple(rounds_per_step), tuple(sends))
