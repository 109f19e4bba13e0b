"""Calls with counts through the C API of a bundle: MPI's results, with other counts in each call.

Usage: counts_by_c_api.py LIBRARY CALLS. The library is not preloaded, so MPI's own calls are MPI's.
"""

from __future__ import annotations

import ctypes
import random
import sys

import numpy as np
from mpi4py import MPI

TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "u2", "f4", "f8")
"""By the numbers of `sccl_type`. Two bytes stand for a bfloat16, since no computation uses it."""

REDUCED = {"i4": MPI.INT32_T, "u8": MPI.UINT64_T, "f4": MPI.FLOAT, "f8": MPI.DOUBLE}
OPS = (MPI.SUM, MPI.PROD, MPI.MIN, MPI.MAX)
MOST = (3, 40, 3000, 30_000)
"""The longest blocks, in elements: beside a parcel's number, in one parcel, several, offered."""

library = ctypes.CDLL(sys.argv[1])
library.sccl_explain.restype = ctypes.c_char_p
comm = MPI.COMM_WORLD
handle = MPI._handleof(comm)
ranks, me = comm.size, comm.rank
in_place = ctypes.c_void_p(-1)  # MPICH's MPI_IN_PLACE
size_of = ctypes.c_size_t


def sizes(numbers: list[int]) -> ctypes.Array[ctypes.c_size_t]:
    """Return an array of C's ``size_t``."""
    return (size_of * len(numbers))(*numbers)


def at(array: np.ndarray) -> ctypes.c_void_p:
    """Return where an array begins."""
    return ctypes.c_void_p(array.ctypes.data)


def call(name: str, *arguments: object) -> None:
    """Run a function of the library, which has to serve it."""
    code = int(getattr(library, f"sccl_{name}v")(*arguments))
    assert code == 0, library.sccl_explain().decode()


def places(counts: list[int], gap: int) -> list[int]:
    """Return where blocks begin with a gap before each, the last block first."""
    found, first = [0] * len(counts), 0
    for r in reversed(range(len(counts))):
        found[r] = first + gap
        first += gap + counts[r]
    return found


def room(counts: list[int], gap: int, dtype: str) -> np.ndarray:
    """Return a buffer for such blocks, whose bytes are all ones."""
    return np.full((sum(counts) + gap * len(counts)) * np.dtype(dtype).itemsize, 255, "u1")


def filled(draw: random.Random, counts: list[int], gap: int, dtype: str) -> np.ndarray:
    """Return such a buffer with bytes of this rank's own."""
    length = len(room(counts, gap, dtype))
    return np.frombuffer(random.Random(draw.random() + me).randbytes(length), "u1").copy()  # noqa: S311


def by_mpi(dtype: str, counts: list[int], starts: list[int]) -> tuple[list[int], list[int], object]:
    """Return counts and displacements for MPI, in bytes."""
    wide = np.dtype(dtype).itemsize
    return [n * wide for n in counts], [n * wide for n in starts], MPI.BYTE


def same(what: str, got: np.ndarray, want: np.ndarray) -> None:
    """End the whole program if a result, or a gap, is not MPI's."""
    if not np.array_equal(got, want):
        print(f"WRONG {what} on rank {me}", flush=True)
        comm.Abort(1)


def alltoallv(draw: random.Random, table: list[list[int]], number: int) -> None:
    """Check one, then one in place, whose table is symmetric."""
    dtype, kind = TYPES[number], ctypes.c_int(number)
    out, back = table[me], [row[me] for row in table]
    send, got, want = filled(draw, out, 1, dtype), room(back, 2, dtype), room(back, 2, dtype)
    starts, ends = places(out, 1), places(back, 2)
    comm.Alltoallv([send, *by_mpi(dtype, out, starts)], [want, *by_mpi(dtype, back, ends)])
    counts = (sizes(out), sizes(starts)), (sizes(back), sizes(ends))
    call("alltoall", at(send), *counts[0], at(got), *counts[1], kind, handle)
    same("alltoallv", got, want)
    both = [table[min(me, r)][max(me, r)] for r in range(ranks)]
    got = filled(draw, both, 0, dtype)
    want, where = got.copy(), [sum(both[:r]) for r in range(ranks)]
    comm.Alltoallv(MPI.IN_PLACE, [want, *by_mpi(dtype, both, where)])
    call("alltoall", in_place, None, None, at(got), sizes(both), None, kind, handle)
    same("alltoallv in place", got, want)


def gathers(draw: random.Random, counts: list[int], root: int, number: int) -> None:
    """Check the calls in which each rank has one block."""
    dtype, kind, own = TYPES[number], ctypes.c_int(number), size_of(counts[me])
    starts = places(counts, 3)
    where = (sizes(counts), sizes(starts))
    send = filled(draw, [counts[me]], 0, dtype)
    got, want = room(counts, 3, dtype), room(counts, 3, dtype)
    comm.Allgatherv([send, MPI.BYTE], [want, *by_mpi(dtype, counts, starts)])
    call("allgather", at(send), own, at(got), *where, kind, handle)
    same("allgatherv", got, want)
    call("allgather", in_place, size_of(0), at(got), *where, kind, handle)
    same("allgatherv in place", got, want)
    whole, mine = got.copy(), np.full(len(send), 255, "u1")
    got = room(counts, 3, dtype) if me == root else got[:0]
    call("gather", at(send), own, at(got), *where, kind, root, handle)
    if me == root:
        same("gatherv", got, whole)
    call("gather", in_place if me == root else at(send), own, at(got), *where, kind, root, handle)
    if me == root:
        same("gatherv in place", got, whole)
    call("scatter", at(whole), *where, at(mine), own, kind, root, handle)
    same("scatterv", mine, send)
    into = in_place if me == root else at(mine)
    call("scatter", at(whole), *where, into, own, kind, root, handle)
    same("scatterv in place", mine, send)


def reducescatterv(draw: random.Random, counts: list[int], dtype: str, op: int) -> None:
    """Check it, then in place: small numbers, so that the order of reductions is no matter."""
    kind, told = ctypes.c_int(TYPES.index(dtype)), REDUCED[dtype]
    own = random.Random(draw.random() + me)  # noqa: S311
    send = np.array([own.randrange(1, 4) for _ in range(sum(counts))], dtype)
    got, want = np.zeros(counts[me], dtype), np.zeros(counts[me], dtype)
    comm.Reduce_scatter([send, told], [want, told], counts, OPS[op])
    call("reducescatter", at(send), at(got), sizes(counts), kind, op, handle)
    same("reducescatterv", got, want)
    call("reducescatter", in_place, at(send), sizes(counts), kind, op, handle)
    same("reducescatterv in place", send[: counts[me]], want)


def main() -> None:
    """Check all calls, all types in turn, with random counts, many of them 0, and then all 0."""
    draw = random.Random(97)  # noqa: S311 - all ranks draw alike
    for n in range(int(sys.argv[2])):
        most = draw.choice(MOST) if n else 1
        table = [
            [draw.choice([0, 1, draw.randrange(most)]) for _ in range(ranks)] for _ in range(ranks)
        ]
        alltoallv(draw, table, n % len(TYPES))
        gathers(draw, table[0], draw.randrange(ranks), n % len(TYPES))
        reducescatterv(draw, table[1], sorted(REDUCED)[n % len(REDUCED)], n // 4 % len(OPS))
    nothing = [[0] * ranks for _ in range(ranks)]
    alltoallv(draw, nothing, 0)
    gathers(draw, nothing[0], 0, 0)
    refused = library.sccl_alltoallv(None, None, None, None, None, None, 4, handle)
    assert refused == 2
    assert library.sccl_explain() == b"there are no counts"
    comm.Barrier()
    if me == 0:
        print("all right", flush=True)


if __name__ == "__main__":
    main()
