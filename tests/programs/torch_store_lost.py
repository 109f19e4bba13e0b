"""A job whose store is killed: its ranks continue, and each reports once that it gets no plans."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import torch
import torch.distributed as dist

from sccl.errors import ScclError
from sccl.torch_backend import plan_switch
from sccl.torch_backend.plan_switch import PlanSwitch

RANKS, LATER = 2, 50


def serve(pipe: Connection) -> None:
    """Be the store."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipe.send(store.port)
    signal.pause()


def run(rank: int, port: int, pipe: Connection) -> None:
    """Be a rank: go on until all have lost the store, and some calls more."""
    plan_switch.LISTEN_S, plan_switch.AGREE_S = 0.01, 0.02
    lost, failed = threading.Event(), PlanSwitch._failed

    def fail(self: PlanSwitch, error: ScclError) -> None:
        failed(self, error)
        lost.set()

    PlanSwitch._failed = fail  # type: ignore[method-assign]
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("sccl", store=store, rank=rank, world_size=RANKS)
    pipe.send("begun")
    left, calls = LATER, 0
    while left:
        told = torch.tensor([int(lost.is_set())])
        dist.all_reduce(told, dist.ReduceOp.MIN)
        calls += 1
        left -= int(told.item())
    dist.destroy_process_group()
    pipe.send(calls)


def main() -> None:
    context = multiprocessing.get_context("fork")  # so that torch is loaded once
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,))
    server.start()
    port = ours.recv()
    pipes, ranks = list[Connection](), list[BaseProcess]()
    for rank in range(RANKS):
        own, other = context.Pipe()
        ranks.append(context.Process(target=run, args=(rank, port, other)))
        ranks[-1].start()
        pipes.append(own)
    begun = [pipe.recv() for pipe in pipes]
    server.kill()
    calls = {pipe.recv() for pipe in pipes}
    for process in ranks:
        process.join()
    codes = [process.exitcode for process in ranks]
    sys.stdout.write(f"{begun} {len(calls)} {calls.pop() > LATER} {codes}\n")


if __name__ == "__main__":
    main()
