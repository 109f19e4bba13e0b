"""Calls the C API of a bundle through ctypes."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
from mpi4py import MPI

library = ctypes.CDLL(sys.argv[1])
library.sccl_explain.restype = ctypes.c_char_p
comm = MPI.COMM_WORLD
handle = MPI._handleof(comm)
FLOAT64, SUM = 11, 0


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def call(name: str, *arguments: object) -> int:
    return int(getattr(library, f"sccl_{name}")(*arguments))


own = np.full(100, comm.rank + 1.0)
joined = np.zeros(100 * comm.size)
count = ctypes.c_size_t(100)
code = call("allgather", pointer(own), pointer(joined), count, FLOAT64, handle)
if code:
    sys.stdout.write(f"{code} {library.sccl_explain().decode()}\n")  # whole, beside other ranks'
    sys.stdout.flush()
    sys.exit(0)
assert np.array_equal(joined, np.repeat(np.arange(comm.size) + 1.0, 100))
total = np.zeros(100)
assert call("allreduce", pointer(own), pointer(total), count, FLOAT64, SUM, handle) == 0
assert np.array_equal(total, np.full(100, comm.size * (comm.size + 1) / 2))
assert call("broadcast", pointer(total), count, FLOAT64, comm.size, handle) == 2
assert library.sccl_explain() == b"root is not a rank of the communicator"
assert call("allgather", pointer(own), pointer(joined), count, 99, handle) == 2
in_place = ctypes.c_void_p(-1)  # MPICH's MPI_IN_PLACE
assert library.sccl_call(b"custom_some", in_place, pointer(joined), count, 7, SUM, 0, handle) == 2
assert library.sccl_explain().startswith(b"custom collectives have no in-place form")
assert library.sccl_call(b"nonsense", None, None, count, FLOAT64, SUM, 0, handle) == 2
assert library.sccl_select(b"allgather:x") == 2
assert library.sccl_select(b"allgather:0=0e") == 0
comm.Barrier()
if comm.rank == 0:
    print("all right", flush=True)
