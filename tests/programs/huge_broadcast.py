"""Broadcast more than 2^31 bytes and check every one of them: into memory, then eagerly.

The data are zeros and marks far apart, because a system stores untouched pages once. Both runs use
one process, because fresh memory is slow.
"""

from __future__ import annotations

import os

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
COUNT = 275_000_000
PLACES = np.array([*range(0, COUNT, 999_983), (1 << 31) // 8 - 1, (1 << 31) // 8, COUNT - 1])

buffer = np.zeros(COUNT, "i8")
for reach in ("1", "0"):
    os.environ["SCCL_REACH"] = reach  # read when a communicator is first used
    if world.rank == 0:
        buffer[PLACES] = PLACES + 1
    else:
        buffer[:] = -1
    comm = world.Dup()
    comm.Bcast(buffer, 0)
    if np.count_nonzero(buffer) != len(PLACES) or not np.array_equal(buffer[PLACES], PLACES + 1):
        comm.Abort(1)
    comm.Barrier()
if world.rank == 0:
    print("all right", flush=True)
