"""A job whose network changes while it runs: ``torch_replanned.py COUNT CHANNEL=BITS ..``.

It is a rank of the lab, started under a plan. Some steps after it has begun, and after it has come
to another plan, ranks send over a channel at another rate, as the next word says. Rank 0 starts who
plans anew, and prints what a step took under each plan, before a change and after it.
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
"""Elements of each of two sums; and how many steps under a plan, till its network changes."""


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
    words = ["optimizer", "--store", store, "--serve", "--seconds", "0.3"]
    return subprocess.Popen([sys.executable, "-m", "sccl", *words])


def step() -> float:
    """Do what is planned; return what it took, in milliseconds."""
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
