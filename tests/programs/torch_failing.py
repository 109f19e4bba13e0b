"""A planned job whose rank 1 dies, or stops before a call: ``torch_failing.py HOW``.

HOW is ``dies``, ``stands``, or ``unseen``: it stops, and rank 0 waits for a future, a wait that the
group does not see. Rank 0 prints the error of its wait. The first of the script's two operations is
issued a step ahead, so the second waits for a call of the next step.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

LIMIT = timedelta(seconds=3)


def call() -> Any:
    return dist.all_reduce(torch.ones(24), async_op=True)


def main() -> None:
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    dist.init_process_group("sccl", timeout=LIMIT)
    for work in [call(), call()]:
        work.wait()
    first = call()
    first.wait()
    if dist.get_rank() == 0:
        store.set("first", "1")
    else:
        store.get("first")  # gloo's other end has all of it, too
        if sys.argv[1] != "dies":
            store.get("told")  # as long as that takes
        os._exit(0)
    second, error = call(), "nothing"
    try:
        if sys.argv[1] == "dies":
            call()  # so that the second is issued
        (second.get_future() if sys.argv[1] == "unseen" else second).wait()
    except Exception as raised:  # noqa: BLE001 - it is printed
        error = f"{type(raised).__name__}: {raised}"
    sys.stdout.write(error.splitlines()[0] + "\n")
    sys.stdout.flush()
    store.set("told", "1")
    os._exit(0)


if __name__ == "__main__":
    main()
