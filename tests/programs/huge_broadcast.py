"""Broadcasts more than 2^31 bytes, and looks at places all over them: into memory, then eagerly.

Once in a process, because memory that nobody has used yet is dear.
"""

from __future__ import annotations

import os

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
COUNT = 275_000_000
buffer = np.arange(COUNT, dtype="i8") if world.rank == 0 else np.zeros(COUNT, "i8")
for reach in ("1", "0"):
    os.environ["SCCL_REACH"] = reach  # read when a communicator is first used
    comm = world.Dup()
    comm.Bcast(buffer, 0)
    if buffer[-1] != COUNT - 1 or not all(buffer[i] == i for i in range(0, COUNT, 9973)):
        comm.Abort(1)
    comm.Barrier()
    if comm.rank:
        buffer[:] = 0
if world.rank == 0:
    print("all right", flush=True)
