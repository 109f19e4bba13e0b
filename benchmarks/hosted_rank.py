"""A rank of the part ``bundles`` of ``python -m benchmarks enforce``: rank 0 prints lines of JSON.

Arguments: the number of rounds, and sizes separated by commas. In each round every group makes
calls one after the other without pauses, so other load on the machine affects both groups alike.
The time of a call is that of the slowest rank, and the result is the median of the rounds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

MAX_BYTES, MAX_CALLS = 1 << 20, 20
"""Limits of a round: total bytes of its calls, and number of calls."""


def make_call(collective: str, size: int, ranks: int) -> Callable[[Any], object]:
    """Return a function that makes a call over a group, with ``size`` bytes from each rank."""
    if collective == "allreduce":
        tensor = torch.zeros(size // 4)
        return lambda group: dist.all_reduce(tensor, group=group)
    contribution = torch.ones(size, dtype=torch.uint8)
    if collective == "allgather":
        gathered = torch.empty(size * ranks, dtype=torch.uint8)
        return lambda group: dist.all_gather_into_tensor(gathered, contribution, group)
    received = torch.empty(size, dtype=torch.uint8)
    return lambda group: dist.all_to_all_single(received, contribution, group=group)


def measure_us(call: Callable[[Any], object], group: Any, times: int) -> float:
    """Return the mean time of consecutive calls in microseconds."""
    began = time.perf_counter()
    for _ in range(times):
        call(group)
    return (time.perf_counter() - began) / times * 1e6


def main() -> None:
    """Measure all sizes in the same order on all ranks."""
    rounds, sizes = int(sys.argv[1]), [int(size) for size in sys.argv[2].split(",")]
    torch.set_num_threads(1)
    dist.init_process_group("sccl")
    ours, gloo = dist.group.WORLD, dist.new_group(backend="gloo")
    ranks = dist.get_world_size()
    for collective in ("allreduce", "allgather", "alltoall"):
        for size in sizes:
            call = make_call(collective, size, ranks)
            times = max(1, min(MAX_CALLS, MAX_BYTES // size))
            times_us: list[list[float]] = [[], []]
            for turn in range(rounds + 1):
                for series, group in zip(times_us, (ours, gloo), strict=True):
                    dist.barrier(gloo)
                    us = measure_us(call, group, times)
                    if turn:  # the first round warms up
                        series.append(us)
            slowest = torch.tensor([median(series) for series in times_us], dtype=torch.float64)
            dist.all_reduce(slowest, dist.ReduceOp.MAX, gloo)
            us, gloo_us = slowest.tolist()
            row = {"collective": collective, "size_bytes": size, "us": us, "gloo_us": gloo_us}
            if not dist.get_rank():
                sys.stdout.write(json.dumps(row) + "\n")
                sys.stdout.flush()
    dist.barrier(gloo)
    os._exit(0)  # no rank waits for the end of another's threads


if __name__ == "__main__":
    main()
