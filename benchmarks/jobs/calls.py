"""Allreduce calls without computation: 16 in flight per size, and the time of each."""

from __future__ import annotations

import json
import time
from statistics import median

import torch
import torch.distributed as dist

from benchmarks.jobs.training import start_job
from sccl.torch import step

SIZES = tuple(4**k for k in range(1, 12))
"""Bytes, from 4 B to 4 MiB."""

MOST, MOST_BYTES, LEFT_OUT = 16, 2**22, 3


def main() -> None:
    """Run the calls, and write the median times of each size."""
    words = start_job()
    times: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
    tensors = {
        size: [torch.zeros(size // 4) for _ in range(min(MOST, MOST_BYTES // size))]
        for size in SIZES
    }
    for _ in range(words.steps):
        step()
        for size, tensor_batch in tensors.items():
            began, worked = time.perf_counter(), time.process_time()
            for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensor_batch]:
                work.wait()
            ended = (time.perf_counter() - began, time.process_time() - worked)
            times[size].append(
                (1e6 * ended[0] / len(tensor_batch), 1e6 * ended[1] / len(tensor_batch))
            )
    medians = {
        size: {
            "us": median(us for us, _ in rows[LEFT_OUT:]),
            "processor_us": median(us for _, us in rows[LEFT_OUT:]),
        }
        for size, rows in times.items()
    }
    rank = dist.get_rank()
    (words.folder / f"rank-{rank}.json").write_text(json.dumps({"rank": rank, "sizes": medians}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
