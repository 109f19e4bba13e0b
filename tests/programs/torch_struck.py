"""A rank that is killed, stopped, or late during a call: ``torch_struck.py WHERE HOW VICTIM``.

It forks its ranks, and rank 0 holds their store. The others continue until an error ends them,
which is all that they print. A late rank continues after that, and prints its error, too. A stopped
rank is killed in the end.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import sccl.torch  # noqa: F401 - registers the backend
from sccl.torch_backend.script import read_script
from tests.programs.torch_planned import start

WHERE, HOW, VICTIM = sys.argv[1], sys.argv[2], int(sys.argv[3])
PATIENCE = timedelta(seconds=60)
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
RANKS, LARGE, WIDTH = 4, 2_000_000, 64
LIMIT = timedelta(seconds=3 if HOW == "late" else 6)
STORES: list[dist.Store] = []
"""The store of the ranks, in which the late rank waits for the failures of the others."""


def strike(step: int) -> None:
    """Strike this process, if it is its turn."""
    if step != 2 or dist.get_rank() != VICTIM:
        return
    if HOW == "late":
        STORES[0].wait([f"failed/{rank}" for rank in range(RANKS) if rank != VICTIM], PATIENCE)
    else:
        os.kill(os.getpid(), SIGNALS[HOW])


def call(step: int) -> None:
    work = dist.all_reduce(torch.ones(LARGE), async_op=True)
    strike(step)
    assert work is not None
    work.wait()


def several(step: int) -> None:
    """Wait for the last of several pending calls first."""
    works = [dist.all_reduce(torch.ones(LARGE // 4), async_op=True) for _ in range(4)]
    strike(step)
    for work in reversed(works):
        assert work is not None
        work.wait()


def exchange(step: int) -> None:
    strike(step)
    ranks = dist.get_world_size()
    parts = [torch.ones(1 + k) for k in range(ranks)]
    outs = [torch.empty(1 + dist.get_rank()) for _ in range(ranks)]
    dist.all_to_all(outs, parts)


def between_two(step: int) -> None:
    strike(step)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sent = dist.isend(torch.ones(LARGE), (rank + 1) % ranks)
    dist.recv(torch.empty(LARGE), (rank - 1) % ranks)
    assert sent is not None
    sent.wait()


def train(model: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[int], None]:
    def step(number: int) -> None:
        loss = model(torch.ones(2, WIDTH)).sum()
        strike(number)
        loss.backward()

    return step


def data_parallel() -> Callable[[int], None]:
    return train(DistributedDataParallel(torch.nn.Linear(WIDTH, WIDTH)))


def fully_sharded() -> Callable[[int], None]:
    mesh = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    return train(fully_shard(torch.nn.Linear(WIDTH, WIDTH), mesh=mesh))


def planned() -> Callable[[int], None]:
    script = read_script(Path(os.environ["SCCL_SCRIPT"]))

    def follow(step: int) -> None:
        works = [start(op, step, dist.group.WORLD) for op in script.ops]
        strike(step)
        for work, _ in works:
            work.wait()

    return follow


TRAINING = {"data_parallel": data_parallel, "fully_sharded": fully_sharded}


def be(rank: int, port: int) -> None:
    """Be a rank."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    if WHERE in TRAINING:
        importlib.import_module("torch._dynamo")  # which else comes when the model does
    store = dist.TCPStore("127.0.0.1", port, RANKS, rank == 0)
    STORES.append(store)
    store.set(f"here/{rank}", "")
    store.wait([f"here/{k}" for k in range(RANKS)])  # however long they take for that
    place = dist.PrefixStore("job", store)
    dist.init_process_group("sccl", store=place, rank=rank, world_size=RANKS, timeout=LIMIT)
    ways = (call, several, exchange, between_two)
    made = TRAINING | {"planned": planned}
    way = {one.__name__: one for one in ways}.get(WHERE) or made[WHERE]()
    try:
        for step in range(6):
            way(step)
        told = "nothing"
    except Exception as error:  # noqa: BLE001 - it is printed
        told = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    sys.stdout.write(f"{rank} {told}\n")
    sys.stdout.flush()
    if HOW == "late":
        store.set(f"{'ended' if rank == VICTIM else 'failed'}/{rank}", "")
        if rank != VICTIM:  # rank 0 holds the store, and the late rank may find the others alive
            store.wait([f"ended/{VICTIM}"], PATIENCE)
    os._exit(0)


def free_port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


def main() -> None:
    port, started = free_port(), list[int]()
    for rank in range(RANKS):
        started.append(os.fork())
        if not started[-1]:
            be(rank, port)
    for rank, process in enumerate(started):
        if rank != VICTIM:
            os.waitpid(process, 0)
    os.kill(started[VICTIM], signal.SIGKILL)  # nobody has waited for it, so it is there
    os.waitpid(started[VICTIM], 0)


if __name__ == "__main__":
    main()
