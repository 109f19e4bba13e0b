"""The loop of a job that trains, and what it writes of it.

Arguments of each job: the backend, how many steps, a folder, and optionally ``small``. Every rank
writes into the folder when steps ended, what the processor did for them, losses, and sums of
parameters.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist


@dataclass(frozen=True, slots=True)
class JobWords:
    """What a job is told.

    Attributes:
        backend: of torch.distributed.
        small: whether the model is to be a toy.
    """

    backend: str
    steps: int
    folder: Path
    small: bool


def begun() -> JobWords:
    """Read the arguments, and join the other ranks."""
    backend, steps, folder, *rest = sys.argv[1:]
    torch.manual_seed(1)
    dist.init_process_group(backend)
    return JobWords(backend, int(steps), Path(folder), "small" in rest)


def run_steps(
    words: JobWords, step: Callable[[int], torch.Tensor], parameters: Sequence[torch.Tensor]
) -> None:
    """Take all steps, and write what they took; let go of the group.

    Args:
        step: trains on a batch, which is told by its number, and returns the loss.
    """
    ended, worked, losses = [], [], []
    for number in range(words.steps):
        losses.append(float(step(number).detach()))
        ended.append(time.perf_counter())
        worked.append(time.process_time())
    own = [one.to_local() if hasattr(one, "to_local") else one for one in parameters]
    sums = [float(one.detach().double().sum()) for one in own]
    told = {
        "rank": dist.get_rank(),
        "ended_s": ended,
        "processor_s": worked,
        "losses": losses,
        "sums": sums,
    }
    (words.folder / f"rank-{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()
