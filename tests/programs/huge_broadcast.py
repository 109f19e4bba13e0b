"""Broadcasts more than 2^31 bytes, and looks at places all over them."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
COUNT = 275_000_000
buffer = np.arange(COUNT, dtype="i8") if comm.rank == 0 else np.zeros(COUNT, "i8")
comm.Bcast(buffer, 0)
right = all(buffer[i] == i for i in range(0, COUNT, 9973)) and buffer[-1] == COUNT - 1
if not right:
    comm.Abort(1)
comm.Barrier()
if comm.rank == 0:
    print("all right", flush=True)
