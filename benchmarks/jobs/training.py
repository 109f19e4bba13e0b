"""Training loop of a job, and the file with its measurements.

The arguments of a job are the backend, the number of steps, a folder, and optionally ``small`` or
the words of a command. Rank 0 then starts the command, and the job continues until it ends. Every
rank writes into the folder the end times of steps, the plan versions, processor times, losses, and
sums of parameters.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist


@dataclass(frozen=True, slots=True)
class JobWords:
    """Arguments of a job.

    Attributes:
        backend: Backend of torch.distributed.
        small: Whether to use a small model.
        command: Words of a concurrent command, with STORE for the address of the job's store.
    """

    backend: str
    steps: int
    folder: Path
    small: bool
    command: tuple[str, ...]


def start_job() -> JobWords:
    """Read the arguments, and join the other ranks."""
    backend, steps, folder, *rest = sys.argv[1:]
    small = rest == ["small"]
    torch.manual_seed(1)
    dist.init_process_group(backend)
    command = () if small else tuple(rest)
    return JobWords(backend, int(steps), Path(folder), small, command)


def run_steps(
    words: JobWords, step: Callable[[int], torch.Tensor], parameters: Sequence[torch.Tensor]
) -> None:
    """Run all steps, write the measurements, and destroy the process group.

    Args:
        step: Function that trains on the batch with a given number, and returns the loss.
    """
    # Training jobs exclude loaded objects from garbage collection. Otherwise a scan of torch takes
    # a rank 0.2 to 0.6 s on this machine, in the same step on all ranks.
    gc.collect()
    gc.freeze()
    ended: list[float] = []
    worked, losses, versions = [], [], []
    companion = Companion(words.command) if words.command else None
    while len(ended) < words.steps or (companion is not None and companion.is_running()):
        losses.append(float(step(len(ended)).detach()))
        ended.append(time.perf_counter())
        worked.append(time.process_time())
        versions.append(_version() if companion else 0)
    local = [p.to_local() if hasattr(p, "to_local") else p for p in parameters]
    sums = [float(tensor.detach().double().sum()) for tensor in local]
    record = {
        "rank": dist.get_rank(),
        "ended_s": ended,
        "versions": versions,
        "processor_s": worked,
        "losses": losses,
        "sums": sums,
    }
    (words.folder / f"rank-{dist.get_rank()}.json").write_text(json.dumps(record))
    dist.barrier()
    dist.destroy_process_group()


class Companion:
    """Command that rank 0 runs concurrently with a job."""

    def __init__(self, words: Sequence[str]) -> None:
        self._group = dist.new_group(backend="gloo")
        store = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        command = [word.replace("STORE", store) for word in words]
        self._process = subprocess.Popen(command) if dist.get_rank() == 0 else None

    def is_running(self) -> bool:
        """Return whether the command still runs, with the same result on all ranks.

        Raises:
            RuntimeError: The command failed.
        """
        ended = None if self._process is None else self._process.poll()
        if ended:
            raise RuntimeError(f"what is beside the job ended with {ended}")
        running = torch.tensor([int(self._process is not None and ended is None)])
        dist.all_reduce(running, group=self._group)
        return bool(running.item())


def _version() -> int:
    """Return the version of the current plan."""
    from sccl.torch_backend.session import current_session  # noqa: PLC0415 - only for jobs with plans

    plans = current_session().plans
    return 0 if plans is None else plans.version
