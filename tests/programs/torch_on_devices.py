"""Tensors outside the CPU, by a stand-in for NCCL: ``torch_on_devices.py [leaves]``.

They are on "meta", with sizes but without numbers, and gloo carries a similar one on the CPU for
each. The third call of the last step is not accepted. Each rank prints the calls of the stand-in in
order, the error for tensors without a backend, and the end of the stand-in: with the group, or, if
the rank ``leaves`` it, with the process. It is under a plan, or ``leaves``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.device import DEVICES, DeviceKind, device_kind, gloo_group

SIZES, STEPS = (24, 36, 48), 4
PLANNED = "leaves" not in sys.argv
SAID: list[str] = []
NOW = ["nowhere"]
"""Current stream of this thread, as on a GPU."""


class StandIn:
    """Carries calls as NCCL would."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        SAID.append("made")
        self._rank, self._gloo = rank, gloo_group(store, rank, size, timeout)

    def allreduce(self, tensors: Any, _: Any) -> Any:
        if NOW[-1] == f"{STEPS - 1}.2":
            raise RuntimeError("no such memory")
        count = tensors[0].numel()
        SAID.append(f"{count}@{NOW[-1]}")
        return self._gloo.allreduce([torch.ones(count)])

    def shutdown(self) -> None:
        sys.stdout.write(f"{self._rank} shutdown\n")
        sys.stdout.flush()
        self._gloo.shutdown()


@contextmanager
def stream(name: str) -> Iterator[None]:
    NOW.append(name)
    yield
    NOW.pop()


def step(number: int) -> None:
    works, follows = [], None
    for place, count in enumerate(SIZES):
        with stream(f"{number}.{place}"):
            work = dist.all_reduce(torch.empty(count, device="meta"), async_op=True)
        assert work is not None
        if number == STEPS - 2 and not place and PLANNED:  # else it may be done at any time
            follows = work.get_future().then(lambda _: SAID.append("then"))
        works.append(work)
    for work in works:
        work.wait()
        assert work.is_completed()
    if follows is not None:
        follows.wait()


def refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def main() -> None:
    dist.init_process_group("sccl", timeout=timedelta(seconds=20))
    dist.all_reduce(torch.ones(5))
    own = (dist.HashStore(), 0, 1, timedelta(seconds=1))
    refused = [
        refusal(lambda: dist.all_reduce(torch.empty(3, device="meta"))),
        refusal(lambda: device_kind(torch.device("cuda")).make(*own)),
    ]
    DEVICES["meta"] = DeviceKind("stand-in", StandIn, lambda _: stream(NOW[-1]))
    for number in range(STEPS - 1):
        step(number)
    refused.append(refusal(lambda: step(STEPS - 1)))
    for lines in (SAID, *([line] for line in refused)):
        sys.stdout.write(f"{dist.get_rank()} {' '.join(lines)}\n")
    sys.stdout.flush()
    if PLANNED:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
