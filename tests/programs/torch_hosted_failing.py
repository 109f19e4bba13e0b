"""A job whose bundle waits in vain: ``torchrun .. torch_hosted_failing.py HOW``.

Ranks print their errors. HOW is the failure of rank 1: ``dies`` between calls, ``dies-within`` one,
``stands`` still, or ``interrupts``: waiting ranks are interrupted, and then it calls.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend.bundles import bundle_abi

LIMIT = timedelta(seconds=4)
LARGE = 1 << 22


def call(size: int = 3, later: bool = False) -> Any:
    return dist.all_reduce(torch.ones(size), async_op=later)


def told(error: BaseException) -> None:
    text = str(error).splitlines() or [""]
    sys.stdout.write(f"{dist.get_rank()}: {type(error).__name__}: {text[0]}\n")
    sys.stdout.flush()


def once_in_call(what: Any) -> None:
    """Do something as soon as the main thread is in a call of a bundle."""
    main = threading.main_thread().ident
    assert main is not None

    def look() -> None:
        code = bundle_abi.BundleCommunicator.call.__code__
        while True:
            frame = sys._current_frames().get(main)
            if frame is not None and frame.f_code is code:
                break
        what()

    threading.Thread(target=look, daemon=True).start()


def rank_1(how: str, store: Any) -> None:
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "dies-within":
        once_in_call(lambda: os.kill(os.getpid(), signal.SIGKILL))
        while True:
            call(LARGE)
    store.get("told")  # as long as that takes
    if how == "interrupts":
        try:
            call()
        except RuntimeError as error:
            told(error)


def others(how: str, store: Any) -> None:
    main = threading.main_thread().ident
    if how == "interrupts" and main is not None:
        once_in_call(lambda: signal.pthread_kill(main, signal.SIGINT))
    while True:
        try:
            if how == "dies":
                call(later=True).wait()
            else:
                call(LARGE if how == "dies-within" else 3)
        except (RuntimeError, KeyboardInterrupt) as error:
            told(error)
            break
    try:
        call()  # at once, for any outcome
    except RuntimeError as error:
        told(error)
    if dist.get_rank() == 0:
        store.set("told", "1")


def main() -> None:
    how = sys.argv[1]
    if len(sys.argv) == 2:  # the parent would end the job when one rank dies
        subprocess.run([sys.executable, __file__, how, "as a rank"], check=False)
        return
    store, rank, ranks = next(dist.rendezvous("env://"))
    own = dist.PrefixStore("job", store)
    dist.init_process_group("sccl", store=own, rank=rank, world_size=ranks, timeout=LIMIT)
    call()
    if rank == 1:
        rank_1(how, store)
    else:
        others(how, store)
    store.set(f"ended/{rank}", "1")
    if rank == 0:  # who may have the store
        store.wait([f"ended/{r}" for r in range(ranks) if r != 1 or not how.startswith("dies")])
    os._exit(0)


if __name__ == "__main__":
    main()
