"""Ranks that are forked, so that torch is loaded once for all: ``forked.py RANKS PROGRAM WORDS``.

They find one another as under torchrun: the job's store is held by a process of its own, and what
torchrun says in the environment is there. Where a rank fails, the others are ended.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys

import torch  # noqa: F401 - what ranks need not load
from torch.distributed import TCPStore


def held() -> tuple[int, int]:
    """Start the process that holds a store; return its id, and its port."""
    hears, says = os.pipe()
    if not (child := os.fork()):
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(says, str(store.port).encode())
        os.close(says)
        while True:
            signal.pause()
    os.close(says)
    with os.fdopen(hears) as file:
        return child, int(file.read())


def start(rank: int) -> int:
    """Start a rank, which runs the program; return the id of its process."""
    if child := os.fork():
        return child
    code = 1
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    sys.argv = sys.argv[2:]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as Python itself says it
        sys.excepthook(*sys.exc_info())
    sys.exit(code)


def main() -> int:
    ranks = int(sys.argv[1])
    holder, port = held()
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "forked",
    }  # fmt: skip
    running = {start(rank) for rank in range(ranks)}
    failed = False
    while running:
        child, status = os.wait()
        running.discard(child)
        if status and not failed:
            failed = True
            for other in running:
                os.kill(other, signal.SIGTERM)
    os.kill(holder, signal.SIGKILL)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
