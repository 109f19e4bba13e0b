"""An MPI program of barriers and v-variants, whose results must equal NumPy's with every library.

Usage: irregular_under_preload.py CALLS, with 8 processes and a bundle for 4 ranks preloaded.
"""

from __future__ import annotations

import os
import random
import sys
import threading

import numpy as np
from mpi4py import MPI

CALLS = int(sys.argv[1])
"""How many in a row."""

MOST = (3, 40, 3000, 30_000)
"""The longest blocks, in elements: beside a parcel's number, in one parcel, several, offered."""

TYPES = {"i1": MPI.INT8_T, "i4": MPI.INT32_T, "f8": MPI.DOUBLE}


def drawing(seed: int) -> random.Random:
    """Return a source of random numbers that all ranks have alike."""
    return random.Random(seed)  # noqa: S311 - test data


def data(source: int, target: int, count: int, dtype: str) -> np.ndarray:
    """Return small numbers that tell ends and places apart, exact in every type."""
    return ((np.arange(count) * 7 + source * 13 + target * 5) % 11).astype(dtype)


def check(what: str, got: np.ndarray, want: np.ndarray) -> None:
    """End the whole program if a result is wrong."""
    if not np.array_equal(got, want):
        print(f"WRONG {what}: {got[:8]} instead of {want[:8]}", flush=True)
        MPI.COMM_WORLD.Abort(1)


def lengths(draw: random.Random, size: int) -> list[list[int]]:
    """Return elements from each rank to each, equal on all ranks, with many empty blocks."""
    most = draw.choice(MOST)
    return [[draw.choice([0, 1, draw.randrange(most)]) for _ in range(size)] for _ in range(size)]


def places(counts: list[int], gap: int) -> tuple[list[int], int]:
    """Return where blocks begin with a gap before each, last first, and the buffer's length."""
    at, found = 0, [0] * len(counts)
    for r in reversed(range(len(counts))):
        found[r] = at + gap
        at += gap + counts[r]
    return found, at


def buffer_of(counts: list[int], gap: int, blocks: list[np.ndarray], dtype: str) -> np.ndarray:
    """Return a buffer with the blocks at their places, and -1 elsewhere."""
    at, length = places(counts, gap)
    found = np.full(length, -1, dtype)
    for first, block in zip(at, blocks, strict=True):
        found[first : first + len(block)] = block
    return found


def alltoallv(comm: MPI.Comm, table: list[list[int]], dtype: str) -> None:
    """Check one, then one in place, whose table is symmetric."""
    me, ranks, kind = comm.rank, range(comm.size), TYPES[dtype]
    out, back = table[me], [row[me] for row in table]
    send = buffer_of(out, 1, [data(me, d, out[d], dtype) for d in ranks], dtype)
    want = buffer_of(back, 2, [data(s, me, back[s], dtype) for s in ranks], dtype)
    got = np.full(len(want), -1, dtype)
    comm.Alltoallv([send, out, places(out, 1)[0], kind], [got, back, places(back, 2)[0], kind])
    check("alltoallv", got, want)
    both = [table[min(me, r)][max(me, r)] for r in ranks]
    got = buffer_of(both, 2, [data(me, d, both[d], dtype) for d in ranks], dtype)
    comm.Alltoallv(MPI.IN_PLACE, [got, both, places(both, 2)[0], kind])
    want = buffer_of(both, 2, [data(s, me, both[s], dtype) for s in ranks], dtype)
    check("alltoallv in place", got, want)


def gathers(comm: MPI.Comm, counts: list[int], root: int, dtype: str) -> None:
    """Check the calls in which each rank has one block."""
    me, kind = comm.rank, TYPES[dtype]
    blocks = [data(r, 0, n, dtype) for r, n in enumerate(counts)]
    whole, at = buffer_of(counts, 3, blocks, dtype), places(counts, 3)[0]
    empty = np.full(len(whole), -1, dtype)
    own = np.full(len(whole), -1, dtype)
    own[at[me] : at[me] + counts[me]] = blocks[me]
    for send, got in ((blocks[me], empty.copy()), (MPI.IN_PLACE, own.copy())):
        comm.Allgatherv(send, [got, counts, at, kind])
        check("allgatherv", got, whole)
    for send, got in ((blocks[me], empty.copy()), (MPI.IN_PLACE, own.copy())):
        if me == root:
            comm.Gatherv(send, [got, counts, at, kind], root)
            check("gatherv", got, whole)
            comm.Scatterv([whole, counts, at, kind], send if send is MPI.IN_PLACE else got, root)
        else:
            comm.Gatherv(blocks[me], None, root)
            mine = np.full(counts[me], -1, dtype)
            comm.Scatterv(None, mine, root)
            check("scatterv", mine, blocks[me])


def reduce_scatter(comm: MPI.Comm, counts: list[int], dtype: str) -> None:
    """Check it, then in place."""
    me, size = comm.rank, comm.size
    wide = [data(r, 1, sum(counts), dtype) for r in range(size)]
    total = np.sum(wide, axis=0).astype(dtype)
    want = total[sum(counts[:me]) : sum(counts[: me + 1])]
    got = np.full(counts[me], -1, dtype)
    comm.Reduce_scatter(wide[me], got, counts, MPI.SUM)
    check("reduce_scatter", got, want)
    got = wide[me].copy()
    comm.Reduce_scatter(MPI.IN_PLACE, got, counts, MPI.SUM)
    check("reduce_scatter in place", got[: counts[me]], want)


def around(halves: MPI.Comm) -> None:
    """Calls of neighbours, and persistent ones, which MPI serves."""
    assert isinstance(halves, MPI.Intracomm)
    ring = halves.Create_cart([halves.size], periods=[True])
    got = np.zeros(2, "i4")
    ring.Neighbor_allgather(np.full(1, ring.rank, "i4"), got)
    ring.Ineighbor_alltoall(got.copy(), got).Wait()
    assert list(got) == [ring.rank, ring.rank]
    if MPI.Get_version() >= (4, 0):
        barrier = ring.Barrier_init()
        barrier.Start()
        barrier.Wait()
        barrier.Free()
    ring.Free()


def mixed_types(comm: MPI.Comm) -> None:
    """Check calls in which some ranks describe the same data by types with gaps."""
    me, size = comm.rank, comm.size
    # The first and the third of four integers.
    pair = MPI.INT.Create_vector(2, 1, 2).Create_resized(0, 16).Commit()
    counts = [2 * r for r in range(1, size + 1)]
    blocks = [data(r, 2, n, "i4") for r, n in enumerate(counts)]
    spread = np.full(2 * counts[me], -1, "i4")
    spread[::2] = blocks[me]
    send = [spread, counts[me] // 2, pair] if me % 2 else [blocks[me], counts[me], MPI.INT]
    at = [sum(counts[:r]) for r in range(size)]
    got = np.full(2 * sum(counts), -1, "i4")
    halved = ([n // 2 for n in counts], [n // 2 for n in at])
    if me % 2:
        comm.Allgatherv(send, [got, *halved, pair])
        check("mixed, gaps", got[1::2], np.full(sum(counts), -1))
        got = got[::2].copy()
    else:
        comm.Allgatherv(send, [got, counts, at, MPI.INT])
    check("mixed allgatherv", got[: sum(counts)], np.concatenate(blocks))
    into = np.full(2 * sum(counts), -1, "i4")
    comm.Gatherv(send, [into, *halved, pair] if me == 1 else None, 1)
    if me == 1:
        check("mixed gatherv", into[::2], np.concatenate(blocks))
    back = np.full(2 * counts[me], -1, "i4")
    target = [back, counts[me] // 2, pair] if me == 2 else [back, counts[me], MPI.INT]
    comm.Scatterv([into, *halved, pair] if me == 1 else None, target, 1)
    check("mixed scatterv", back[::2] if me == 2 else back[: counts[me]], blocks[me])
    pair.Free()


def everything(comm: MPI.Comm, draw: random.Random, rounds: int) -> None:
    """Check all calls with random lengths, types and roots."""
    for _ in range(rounds):
        dtype = draw.choice(sorted(TYPES))
        table = lengths(draw, comm.size)
        alltoallv(comm, table, dtype)
        gathers(comm, table[0], draw.randrange(comm.size), dtype)
        reduce_scatter(comm, table[1], "f8")


def barriers(world: MPI.Intracomm, comm: MPI.Comm) -> None:
    """Check that no rank leaves a barrier before the last one, which varies, has entered."""
    shared = MPI.Win.Allocate_shared(8, 8, comm=world)
    begun = [shared.Shared_query(r)[0].cast("q") for r in range(world.size)]
    mine = [r for r in range(world.size) if r // 4 == world.rank // 4]
    begun[world.rank][0] = 0
    world.Barrier()
    for turn in range(1, CALLS):
        late = turn % comm.size
        if comm.rank == late:  # the others announce their wait before it comes
            while min(begun[r][0] for r in mine if r != world.rank) < 2 * turn - 1:
                os.sched_yield()
        begun[world.rank][0] = 2 * turn - (comm.rank != late)
        comm.Barrier()
        if begun[mine[late]][0] < 2 * turn:
            check(f"barrier {turn}", np.zeros(0), np.array([2 * turn]))
    shared.Free()


def ahead(comm: MPI.Comm) -> None:
    """Check a root that runs as far ahead as possible, and is sometimes late, in turns."""
    most = 20_000
    whole = np.zeros(most, "i8")
    counts = [most // comm.size] * comm.size
    for call in range(CALLS):
        root, count = call // 100 % comm.size, (1, 5, 700, most)[call % 4]
        if call % 50 == 17 and comm.rank == root:
            sum(range(100_000))  # it has something else to do
        if comm.rank == root:
            whole[:count] = call + np.arange(count)
        comm.Bcast(whole[:count], root)
        check(f"ahead, bcast {call}", whole[:count:97], call + np.arange(count)[::97])
        mine = np.zeros(counts[0], "i8")
        comm.Scatterv([np.full(most, call), counts] if comm.rank == root else None, mine, root)
        check(f"ahead, scatterv {call}", mine[::97], np.full(len(mine), call)[::97])
        if call % 3 == 0:
            got = np.zeros(2 * comm.size, "i8")
            sent = np.array([call, comm.rank])
            comm.Gather(sent, got, root)
            if comm.rank == root:
                check(f"ahead, gather {call}", got[::2], np.full(comm.size, call))


def in_threads(comm: MPI.Comm) -> None:
    """Check threads at once, each with a communicator of its own."""
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        print("no MPI_THREAD_MULTIPLE", flush=True)
        return
    copies = [comm.Dup() for _ in range(3)]

    def work(own: MPI.Comm, seed: int) -> None:
        draw = drawing(seed)
        for _ in range(max(3, CALLS // 20)):
            everything(own, draw, 1)
            own.Barrier()

    threads = [threading.Thread(target=work, args=(c, 7 + i)) for i, c in enumerate(copies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for copy in copies:
        copy.Free()


def main(world: MPI.Intracomm) -> None:
    """Check overlapping groups, short-lived ones, and one of another size."""
    draw = drawing(4711)
    halves = world.Split(world.rank // 4, world.rank)
    middle = world.Split(0 if 2 <= world.rank < 6 else MPI.UNDEFINED, -world.rank)
    everything(halves, draw, max(3, CALLS // 10))
    for round_ in range(5):
        again = drawing(round_)  # who is in both groups draws twice: each call has its own
        everything(halves, again, 1)
        if middle != MPI.COMM_NULL:
            everything(middle, drawing(100 + round_), 1)
            middle.Barrier()
        short = halves.Dup()
        everything(short, drawing(200 + round_), 1)
        short.Barrier()
        short.Free()
    alltoallv(world, lengths(drawing(1), world.size), "i4")  # 8 ranks: passed on
    world.Ibarrier().Wait()
    halves.Iallgather(np.ones(1, "i4"), np.zeros(4, "i4")).Wait()
    around(halves)
    mixed_types(halves)
    barriers(world, halves)
    ahead(halves)
    in_threads(halves)


if __name__ == "__main__":
    main(MPI.COMM_WORLD)
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == 0:
        print("all right", flush=True)
    sys.exit(0)
