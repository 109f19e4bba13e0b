"""A job whose network changes while it runs: ``torch_replanned.py COUNT CHANNEL=BITS ..``.

It is a rank of the lab, started under a plan. Some steps after its start, and after each new plan,
the rate of a channel changes to that of the next argument. Rank 0 starts the planner, and prints
the time of a step under each plan, before and after a change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from statistics import median

import torch
import torch.distributed as dist

import sccl.torch  # noqa: F401 - registers the backend
from sccl.torch_backend.session import current_session

COUNT, STEPS = int(sys.argv[1]), 8
"""Elements of each of two sums, and the number of steps under a plan until the network changes."""


def limit(word: str) -> None:
    """Send over a channel at some bits per second from here on."""
    channel, _, bits = word.partition("=")
    tc = shutil.which("tc")
    assert tc is not None
    limits = ["rate", f"{bits}bit", "burst", "18000", "limit", "4000000"]
    subprocess.run([tc, "qdisc", "change", "dev", channel, "root", "tbf", *limits], check=True)


def served() -> subprocess.Popen[bytes]:
    """Start who plans anew."""
    store = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    words = ["train", "control", "--store", store, "--serve", "--budget", "0.3"]
    return subprocess.Popen([sys.executable, "-m", "sccl", *words])


def step() -> float:
    """Run the planned calls, and return their time in milliseconds."""
    began = time.perf_counter()
    dist.all_reduce(torch.zeros(1, dtype=torch.int64), dist.ReduceOp.MAX)
    works = [dist.all_reduce(torch.ones(COUNT), async_op=True) for _ in range(2)]
    for work in works:
        assert work is not None
        work.wait()
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    dist.init_process_group("sccl")
    first, plans = dist.get_rank() == 0, current_session().plans
    assert plans is not None
    serving = served() if first else None
    for change in [*sys.argv[2:], ""]:
        times = [step() for _ in range(STEPS)]
        told = [f"plan {plans.version}: {median(times):.0f} ms"]
        if change:
            limit(change)
            version, times = plans.version, []
            while plans.version == version:
                times.append(step())
            told.append(f"with {change}: {median(times):.0f} ms")
        if first:
            sys.stdout.write("".join(f"{line}\n" for line in told))
            sys.stdout.flush()
    if serving is not None:
        serving.terminate()
        serving.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
