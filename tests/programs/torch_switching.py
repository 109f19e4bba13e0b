"""A job that runs until it should end, under any plans, see torch_committing.py.

    torch_switching.py SCRIPT PIPE [LIFE:HOW-PHASE,.. ..]

It calls the operations of a script, and compares results with gloo's. Rank 0 writes the address of
the job's store into the pipe. Each rank prints the calls at which it switched, the versions, and
whether it follows a plan in the end. In a life, counted from 1, rank 1 ``stops`` or ``dies`` at
consecutive phases: ``unvoted``, ``voted``, and ``committed``, according to its messages.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from sccl.torch_backend import plan_switch
from sccl.torch_backend.control.follower import Follower
from sccl.torch_backend.control.ledger import Ledger, RankVote
from sccl.torch_backend.plan_switch import PlanSwitch, PreparedPlan
from sccl.torch_backend.script import read_script
from sccl.torch_backend.session import current_session
from tests.programs.torch_planned import start

plan_switch.LISTEN_S, plan_switch.AGREE_S = 0.01, 0.02


def told_to_end(store: dist.TCPStore, group: dist.ProcessGroup) -> bool:
    """Return whether all ranks have heard that the job is to end."""
    end = torch.tensor([int(store.check(["test/end"]))])
    dist.all_reduce(end, dist.ReduceOp.MIN, group)
    return bool(end.item())


def halting(store: dist.TCPStore, life: int, halts: list[str]) -> None:
    """Let this rank come to a stop, or to its end, in phases that are still to come."""
    vote, hear = Ledger.write_vote, Follower.listen

    def come_to(phase: str) -> None:
        how, _, next_one = (halts or [""])[0].partition("-")
        if phase == next_one:
            halts.pop(0)
            store.set(f"test/{life}/{phase}", str(os.getpid()))
            fatal = signal.SIGSTOP if how == "stops" else signal.SIGKILL
            signal.pthread_kill(threading.get_ident(), fatal)  # at once, and not soon

    def voted(self: Ledger, version: int, rank: int, one: RankVote, *more: Any) -> None:
        come_to("unvoted")
        vote(self, version, rank, one, *more)
        come_to("voted")

    def heard(self: Follower[object]) -> None:
        before = set(self.contribution())
        hear(self)
        if set(self.contribution()) - before:
            come_to("committed")

    setattr(Ledger, "write_vote", voted)  # noqa: B010 - of a class, and so typed otherwise
    setattr(Follower, "listen", heard)  # noqa: B010 - likewise


def main() -> None:
    script, pipe, *lives = sys.argv[1:]
    rank, life = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"]) + 1
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(*address)
    halts = dict(word.split(":") for word in lives).get(str(life), "")
    if rank == 1:
        halting(store, life, halts.split(","))
    switched: list[str] = []
    switch = PlanSwitch._switch

    def logged(self: PlanSwitch, prepared: PreparedPlan) -> None:
        switch(self, prepared)
        switched.append(f"{self.number}:{self.version}")
        if rank == 0:
            store.set(f"test/{life}/under/{self.version}", "1")

    PlanSwitch._switch = logged  # type: ignore[method-assign]
    # Torch's own keys of a former life would be heard in the next, as they share a store.
    own = dist.PrefixStore(f"test/{life}", store)
    dist.init_process_group("sccl", store=own, rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
    beside = dist.new_group(backend="gloo")
    if rank == 0:
        with Path(pipe).open("w") as file:
            file.write(f"{address[0]}:{address[1]}\n")
    ops, step = read_script(Path(script)).ops, 0
    of_all = tuple(range(dist.get_world_size()))
    alone = tuple(
        [dist.new_group([k], backend=how) for k in of_all][rank] for how in ("sccl", "gloo")
    )
    groups = [(dist.group.WORLD, beside) if of_all in op.groups else alone for op in ops]
    while not told_to_end(store, beside):
        works = [
            (op, theirs, *start(op, step, ours))
            for op, (ours, theirs) in zip(ops, groups, strict=True)
        ]
        for op, group, work, got in works:
            work.wait()
            theirs, wanted = start(op, step, group)
            theirs.wait()
            assert all(map(torch.equal, got, wanted)), f"{op.id} in step {step}"
        step += 1
    plans = current_session().plans
    assert plans is not None
    planned = plans.enforcer is not None and plans.enforcer.sequence.planned
    line = f"{rank} {planned} {' '.join(switched)}\n"
    dist.barrier(beside)
    dist.destroy_process_group()
    sys.stdout.write(line)


if __name__ == "__main__":
    main()
