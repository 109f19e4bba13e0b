"""Jobs whose ranks are forked of a process that has loaded torch, which takes longer than most.

A line of JSON is a job: its ``ranks``, ``words`` (a program and what it is told), ``env``, the
``folder`` it begins in, and the files ``out`` and ``err`` for what it prints. It is answered with
the number of the job's group of processes, and, when all have ended, with its exit code.

Ranks find one another as under torchrun: the job's store is held by a process of its own, and what
torchrun says in the environment is there. Where a rank fails, the others are ended.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import sys
import tempfile
from typing import Any

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
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as Python itself says it
        sys.excepthook(*sys.exc_info())
    sys.exit(code)


def begun_as(job: dict[str, Any]) -> None:
    """Take what a job is told for this process, as if it had been started for it alone."""
    os.setsid()
    for stream, (name, how) in enumerate(
        [(os.devnull, os.O_RDONLY), (job["out"], os.O_WRONLY), (job["err"], os.O_WRONLY)]
    ):
        os.dup2(os.open(name, how | os.O_APPEND), stream)
    os.environ.clear()
    os.environ |= job["env"]
    tempfile.tempdir = None  # it is where this environment says
    os.chdir(job["folder"])
    sys.argv = job["words"]


def ended(ranks: int) -> int:
    """Run the program on so many ranks; return the exit code of the job."""
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


def main() -> None:
    """Run the jobs that are told, one after the other, until no more can come."""
    gc.freeze()  # nothing of it is looked at again, or copied for that, by each rank
    for line in sys.stdin:
        job = json.loads(line)
        if not (child := os.fork()):
            begun_as(job)
            os._exit(ended(job["ranks"]))
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
