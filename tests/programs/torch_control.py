"""Two ranks and a coordinator in three processes, over the store that torchrun gives to a job."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection

from torch.distributed import TCPStore

from sccl.torch_backend.control.coordinator import Coordinator
from sccl.torch_backend.control.follower import Follower
from sccl.torch_backend.control.job_stores import StoreError, connect_store
from sccl.torch_backend.control.ledger import announce, current_ledger, describe_job


def rank(number: int, port: int, pipe: Connection) -> None:
    follower = Follower(
        current_ledger(connect_store(f"127.0.0.1:{port}")), number, lambda content, _: content
    )
    while not any(follower.contribution()):
        follower.listen()
    plan = follower.adopt_agreed(follower.contribution())
    pipe.send(len(plan or b""))


def main() -> None:
    store = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    address = f"127.0.0.1:{store.port}"
    announce(connect_store(address), describe_job("a run", 0, 2))
    context = multiprocessing.get_context("fork")  # so that torch is loaded once
    ours, theirs = zip(*[context.Pipe() for _ in range(2)], strict=True)
    ranks = [context.Process(target=rank, args=(n, store.port, theirs[n])) for n in range(2)]
    for process in ranks:
        process.start()
    coordinator = Coordinator(current_ledger(connect_store(address)), time.monotonic)
    plan = "".join(chr(33 + k * k % 90) for k in range(300_000)).encode()
    version = coordinator.propose(plan)
    while not coordinator.advance():
        pass
    sizes = {pipe.recv() for pipe in ours}
    for process in ranks:
        process.join()
    print(f"plan {version} of {sizes.pop()} bytes on {len(ranks)} ranks")
    try:
        connect_store("127.0.0.1:9", seconds=0.5)
    except StoreError as error:
        print("no store: a sentence" if "is the job running" in str(error) else error)


if __name__ == "__main__":
    main()
