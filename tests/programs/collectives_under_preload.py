"""An MPI program without sccl, whose results must equal NumPy's with every library.

Usage: collectives_under_preload.py CALLS, with 8 processes and a bundle for 4 ranks preloaded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import numpy as np
from mpi4py import MPI

COUNTS = (0, 1, 3, 17, 1000, 40_001)
TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
FEW = ((17, "i4"), (1000, "f8"))
"""Inputs for all reductions except sums, which only distinguish type and operator."""

CALLS = int(sys.argv[1])
"""How many in a row."""

OPS = {"SUM": np.add, "PROD": np.multiply, "MIN": np.minimum, "MAX": np.maximum}


def data(rank: int, count: int, dtype: str) -> np.ndarray:
    """Return small numbers that tell ranks and places apart, exact in every type."""
    return ((np.arange(count) * 3 + rank * 5) % 7 // 4 + 1).astype(dtype)


def check(what: str, got: np.ndarray, want: np.ndarray) -> None:
    """End the whole program if a result is wrong."""
    if not np.array_equal(got, want):
        print(f"WRONG {what}: {got[:8]} instead of {want[:8]}", flush=True)
        MPI.COMM_WORLD.Abort(1)


def cases() -> Iterator[tuple[int, str]]:
    """Yield counts and types: all types at one count, all counts at one type."""
    for count in COUNTS:
        yield count, "i4"
    for dtype in TYPES:
        yield 1000, dtype


def moving(comm: MPI.Comm, count: int, dtype: str) -> None:
    """Check the collectives that only move."""
    size, rank = comm.size, comm.rank
    everything = [data(r, count, dtype) for r in range(size)]
    mine, joined = everything[rank], np.concatenate(everything)
    got = np.zeros(count * size, dtype)
    comm.Allgather(mine, got)
    check("allgather", got, joined)
    got = np.zeros(count * size, dtype)
    got[rank * count : (rank + 1) * count] = mine
    comm.Allgather(MPI.IN_PLACE, got)
    check("allgather in place", got, joined)
    wide = [data(r, count * size, dtype) for r in range(size)]
    turned = np.concatenate([w[rank * count : (rank + 1) * count] for w in wide])
    got = np.zeros(count * size, dtype)
    comm.Alltoall(wide[rank], got)
    check("alltoall", got, turned)
    got = wide[rank].copy()
    comm.Alltoall(MPI.IN_PLACE, got)
    check("alltoall in place", got, turned)
    for root in (0, size - 1):
        got = everything[root].copy() if rank == root else np.zeros(count, dtype)
        comm.Bcast(got, root)
        check("bcast", got, everything[root])
        got = np.zeros(count * size, dtype)
        comm.Gather(mine, got if rank == root else None, root)
        check("gather", got, joined if rank == root else got)
        got = np.zeros(count, dtype)
        comm.Scatter(joined if rank == root else None, got, root)
        check("scatter", got, mine)
        if rank == root:
            got = joined.copy()
            comm.Gather(MPI.IN_PLACE, got, root)
            check("gather in place", got, joined)
            comm.Scatter(joined, MPI.IN_PLACE, root)
        else:
            comm.Gather(mine, None, root)
            comm.Scatter(None, got, root)
            check("scatter, root in place", got, mine)


def reducing(comm: MPI.Comm, count: int, dtype: str, name: str) -> None:
    """Check the collectives that reduce."""
    op, numpy_op = getattr(MPI, name), OPS[name]
    size, rank = comm.size, comm.rank
    wide = [data(r, count * size, dtype) for r in range(size)]
    total = wide[0]
    for other in wide[1:]:
        total = numpy_op(total, other).astype(dtype)
    got = np.zeros(count * size, dtype)
    comm.Allreduce(wide[rank], got, op)
    check(f"allreduce {name}", got, total)
    got = wide[rank].copy()
    comm.Allreduce(MPI.IN_PLACE, got, op)
    check(f"allreduce in place {name}", got, total)
    own = total[rank * count : (rank + 1) * count]
    got = np.zeros(count, dtype)
    comm.Reduce_scatter_block(wide[rank], got, op)
    check(f"reduce_scatter_block {name}", got, own)
    comm.Reduce_scatter(wide[rank], got, [count] * size, op)
    check(f"reduce_scatter {name}", got, own)
    got = wide[rank].copy()
    comm.Reduce_scatter_block(MPI.IN_PLACE, got, op)
    check(f"reduce_scatter_block in place {name}", got[:count], own)
    for root in (0, size - 1):
        got = np.zeros(count * size, dtype)
        comm.Reduce(wide[rank], got if rank == root else None, op, root)
        check(f"reduce {name}", got, total if rank == root else got)
        if rank == root:
            got = wide[rank].copy()
            comm.Reduce(MPI.IN_PLACE, got, op, root)
            check(f"reduce in place {name}", got, total)
        else:
            comm.Reduce(wide[rank], None, op, root)


def mixed_types(comm: MPI.Comm) -> None:
    """Check a call in which the ranks describe the same data by different types."""
    count = 500
    gaps = MPI.INT.Create_vector(count, 1, 2).Commit()
    spread = np.zeros(2 * count, "i4")
    spread[::2] = data(comm.rank, count, "i4")
    plain = data(comm.rank, count, "i4")
    got = np.zeros(count * comm.size, "i4")
    sends = [spread, 1, gaps] if comm.rank % 2 else [plain, count, MPI.INT]
    comm.Allgather(sends, [got, count, MPI.INT])
    check("mixed", got, np.concatenate([data(r, count, "i4") for r in range(comm.size)]))
    into = np.zeros(2 * count, "i4")
    if comm.rank == 0:
        into[::2] = plain
    comm.Bcast([into, 1, gaps] if comm.rank else [into[::2].copy(), count, MPI.INT], 0)
    if comm.rank:
        check("mixed bcast", into[::2].copy(), data(0, count, "i4"))
    gaps.Free()


def progress(comm: MPI.Comm) -> None:
    """Check that a message can arrive while its sender waits in a collective."""
    big = np.full(4_000_000, comm.rank, "i4")
    other = np.zeros_like(big)
    requests = [comm.Isend(big, (comm.rank + 1) % comm.size)]
    if comm.rank == 0:  # the others are in the collective until rank 0 has got its message
        comm.Recv(other, comm.size - 1)
    total = comm.allreduce(1)
    one, got = np.ones(1, "i4"), np.zeros(1, "i4")
    comm.Allreduce(one, got)
    if comm.rank:
        comm.Recv(other, comm.rank - 1)
    MPI.Request.Waitall(requests)
    check("progress", other, np.full_like(big, (comm.rank - 1) % comm.size))
    check("progress sum", got, np.array([total], "i4"))


def back_to_back(comm: MPI.Comm) -> None:
    """Check many calls in a row, with a rank that is late now and then."""
    got = np.zeros(3, "i8")
    for i in range(CALLS):
        if i % 250 == 7 and comm.rank == i // 250 % comm.size:
            sum(range(500_000))  # it has something else to do
        comm.Allreduce(np.array([i, comm.rank, 1], "i8"), got)
        if got[0] != i * comm.size or got[2] != comm.size:
            check(f"call {i}", got[:1], np.array([i * comm.size]))


def in_threads(comm: MPI.Comm) -> None:
    """Check two threads at once, each with a communicator of its own."""
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        print("no MPI_THREAD_MULTIPLE", flush=True)
        return
    copies = [comm.Dup(), comm.Dup()]

    def work(own: MPI.Comm, start: int) -> None:
        for i in range(200):
            got = np.zeros(50, "i4")
            own.Allreduce(np.full(50, start + i, "i4"), got)
            check("thread", got, np.full(50, (start + i) * own.size, "i4"))

    threads = [threading.Thread(target=work, args=(c, 1000 * i)) for i, c in enumerate(copies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for copy in copies:
        copy.Free()


def communicators(world: MPI.Comm) -> None:
    """Check overlapping, alternating, short-lived communicators, and one of another size."""
    halves = world.Split(world.rank // 4, world.rank)
    middle = world.Split(0 if 2 <= world.rank < 6 else MPI.UNDEFINED, -world.rank)
    for count, dtype in cases():
        moving(halves, count, dtype)
    for _ in range(20):
        reducing(halves, 10, "i4", "SUM")
        if middle != MPI.COMM_NULL:
            reducing(middle, 10, "i4", "SUM")
        short = halves.Dup()
        moving(short, 10, "i4")
        short.Free()
    if middle != MPI.COMM_NULL:
        moving(middle, 1000, "f8")
        middle.Free()
    moving(world, 10, "i4")  # 8 ranks: passed on
    reducing(world, 10, "f8", "SUM")
    for name in OPS:
        for count, dtype in cases() if name == "SUM" else FEW:
            reducing(halves, count, dtype, name)
    got = np.zeros(4, "i4")
    halves.Allreduce(np.full(4, 3, "i4"), got, MPI.BXOR)  # passed on: not one of ours
    check("bxor", got, np.zeros(4, "i4"))
    mixed_types(halves)
    progress(halves)
    back_to_back(halves)
    in_threads(halves)


if __name__ == "__main__":
    communicators(MPI.COMM_WORLD)
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == 0:
        print("all right", flush=True)
    sys.exit(0)
