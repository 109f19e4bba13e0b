"""Exchanges between pairs of ranks at doubling distances, and ranks beyond a power of two."""

from __future__ import annotations

import math

import numpy as np

from sccl.core.arrays import AnyIntArray
from sccl.core.collective import Collective
from sccl.errors import ParameterError
from sccl.synth.baselines.pattern.composition import overlay_patterns
from sccl.synth.baselines.pattern.send_pattern import Pattern, build_pattern


def require_power_of_two(algorithm: str, ranks: int, instead: str) -> int:
    """Return the exponent of a number of ranks that is a power of two.

    Args:
        instead: Alternative to suggest otherwise, as a clause.

    Raises:
        ParameterError: The number is not a power of two.
    """
    if ranks & (ranks - 1):
        below = 1 << (ranks.bit_length() - 1)
        raise ParameterError(
            f"{algorithm} needs a power of two as the number of ranks, such as {below} or "
            f"{2 * below}, and there are {ranks}: {instead}"
        )
    return ranks.bit_length() - 1


def recursive_doubling(collective: Collective, members: AnyIntArray) -> Pattern:
    """Return the recursive doubling of blocks among 2^k members, each of which begins with one.

    In step i, members whose numbers differ in bit i send each other all their blocks. Block b
    consists of all chunks c with c mod 2^k = b, and begins at member b.

    Args:
        collective: Only its number of chunks is used, a multiple of 2^k.
        members: Ranks of the members.
    """
    blocks, parts = np.arange(len(members)), []
    for i in range(int(math.log2(len(members)))):
        low = np.arange(2**i)
        holder = (blocks[:, None] >> i << i) | low  # holders of block b after the previous steps
        parts.append(np.stack(np.broadcast_arrays(i, blocks[:, None], holder, holder ^ 2**i)))
    step, block, src, dst = np.concatenate([part.reshape(4, -1) for part in parts], axis=1)
    repeats = np.arange(0, collective.num_chunks, len(members))[:, None]
    return build_pattern(
        collective, step=step, chunk=repeats + block, src=members[src], dst=members[dst]
    )


def exchange_sums(collective: Collective, members: AnyIntArray) -> Pattern:
    """Return the k exchanges after which 2^k members, each with a part of the sum, have it all."""
    bits = np.arange(int(math.log2(len(members))))
    numbers = np.arange(len(members))
    return build_pattern(
        collective,
        step=bits[:, None, None],
        chunk=np.arange(collective.num_chunks),
        src=members[numbers][:, None],
        dst=members[numbers ^ 1 << bits[:, None]][:, :, None],
        reduce=True,
    )


def fold_ranks(ranks: int) -> tuple[AnyIntArray, AnyIntArray]:
    """Return the 2^k ranks that stay, and the others, which first send data to the next rank.

    Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, for allreduce.
    """
    stay = 1 << (ranks.bit_length() - 1)
    surplus = 2 * np.arange(ranks - stay)
    return np.setdiff1d(np.arange(ranks), surplus), surplus


def add_folded_ranks(pattern: Pattern, surplus: AnyIntArray) -> Pattern:
    """Return an allreduce of the ranks that stay, extended to the other ranks.

    In an extra first step, each of the others sends its data to the next rank. In an extra last
    step it receives the result.
    """
    if not len(surplus):
        return pattern
    collective, givers = pattern.collective, surplus[:, None]
    chunks = np.arange(collective.num_chunks)
    before = build_pattern(
        collective, step=0, chunk=chunks, src=givers, dst=givers + 1, reduce=True
    )
    after = build_pattern(collective, step=0, chunk=chunks, src=givers + 1, dst=givers)
    return overlay_patterns([before, pattern, after], [0, 1, 1 + pattern.steps], collective)


def butterfly_allgather(collective: Collective, peers: AnyIntArray, algorithm: str) -> Pattern:
    """Return the allgather in which ranks send their peer of each step all chunks it lacks.

    Args:
        collective: Allgather of one chunk per rank.
        peers: Peer of each rank in each step, shape (steps, ranks).

    Raises:
        ParameterError: Some rank lacks a chunk at the end.
    """
    held, parts = np.eye(collective.ranks, dtype=np.bool_), []
    for step, peer in enumerate(peers):
        src, block = np.nonzero(held & ~held[peer])
        parts.append(np.stack([np.full_like(src, step), block, src, peer[src]]))
        held |= held[peer]
    if not held.all():
        raise ParameterError(
            f"{algorithm} does not reach all of {collective.ranks} ranks from each other: give a "
            "power of two"
        )
    step, chunk, src, dst = np.concatenate(parts, axis=1)
    return build_pattern(collective, step=step, chunk=chunk, src=src, dst=dst)


def butterfly_alltoall(collective: Collective, peers: AnyIntArray) -> Pattern:
    """Return the alltoall over a butterfly: chunks cross to the half of their destination.

    Args:
        collective: Alltoall of 2^k ranks with 2^k chunks each.
        peers: Peer of each rank in each of the k steps, shape (k, ranks).
    """
    ranks = collective.ranks
    reach = [np.eye(ranks, dtype=np.bool_)]
    for peer in peers[::-1]:
        reach.append(reach[-1] | reach[-1][peer])
    chunk = np.arange(ranks**2)
    holders, targets, parts = chunk % ranks, chunk // ranks, []
    for step, peer in enumerate(peers):
        crosses = ~reach[len(peers) - 1 - step][holders, targets]
        at = holders[crosses]
        parts.append(np.stack([np.full_like(at, step), chunk[crosses], at, peer[at]]))
        holders = np.where(crosses, peer[holders], holders)
    step, chunk, src, dst = np.concatenate(parts, axis=1)
    return build_pattern(collective, step=step, chunk=chunk, src=src, dst=dst)
