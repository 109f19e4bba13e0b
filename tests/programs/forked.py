"""Run jobs whose ranks are forked from a process with torch, because loading torch takes most time.

A line of JSON is a job: its ``ranks``, ``words`` (a program and its arguments), ``env``, its
working ``folder``, and the files ``out`` and ``err`` for its output. The answer is the number of
the job's process group, and, when all have ended, its exit code.

Ranks find one another as under torchrun: a separate process holds the job's store, and the
environment has torchrun's variables. If a rank fails, the others are ended.
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

import torch  # noqa: F401 - so that ranks need not load it
from torch.distributed import TCPStore


def held() -> tuple[int, int]:
    """Start the process that holds a store, and return its id and port."""
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
    """Start a rank that runs the program, and return the id of its process."""
    if child := os.fork():
        return child
    code = 1
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - reported as by Python itself
        sys.excepthook(*sys.exc_info())
    sys.exit(code)


def begun_as(job: dict[str, Any]) -> None:
    """Set the environment of a job in this process, as if it had been started for it alone."""
    os.setsid()
    for stream, (name, how) in enumerate(
        [(os.devnull, os.O_RDONLY), (job["out"], os.O_WRONLY), (job["err"], os.O_WRONLY)]
    ):
        os.dup2(os.open(name, how | os.O_APPEND), stream)
    os.environ.clear()
    os.environ |= job["env"]
    tempfile.tempdir = None  # taken from this environment
    os.chdir(job["folder"])
    sys.argv = job["words"]


def ended(ranks: int) -> int:
    """Run the program on so many ranks, and return the exit code of the job."""
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
    """Run the received jobs, one after the other, until the input ends."""
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
