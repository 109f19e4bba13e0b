"""Translate the paper's rows into arguments of the public ``msccl`` command.

Some numbers differ from sccl's. Chunks of alltoall and reducescatter count one pair of ranks, and
``--rounds`` is R, the rounds of all steps together. A direct allreduce is another problem for
``msccl``, with partial sums in the encoding. The paper and sccl compose a reducescatter with half
the steps and rounds and its inverse, so an allreduce row runs this reducescatter.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.paper import PaperRow


@dataclass(frozen=True, slots=True)
class PeerMachine:
    """A topology of the catalog in ``msccl``, equal to sccl's up to names of ranks.

    Attributes:
        root: Rank of ``msccl`` that corresponds to rank 0, for rooted collectives.
    """

    name: str
    ranks: int
    root: int = 0
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PeerCollective:
    """A collective in ``msccl``.

    Attributes:
        per_pair: Whether its chunks count a pair of ranks. Chunks of sccl are P times as many.
        phases: Number of phases, each with an equal part of S and R.
    """

    name: str
    per_pair: bool = False
    phases: int = 1
    rooted: bool = False


# DGX1: the same weighted graph under an isomorphism that keeps rank 0. Z52: a ring is symmetric.
MACHINES = {
    "dgx1": PeerMachine("DGX1", 8),
    "z52": PeerMachine("Ring", 8, options=("--nodes", "8")),
}
COLLECTIVES = {
    "allgather": PeerCollective("Allgather"),
    "allreduce": PeerCollective("ReduceScatter", per_pair=True, phases=2),
    "alltoall": PeerCollective("Alltoall", per_pair=True),
    "broadcast": PeerCollective("Broadcast", rooted=True),
    "gather": PeerCollective("Gather", rooted=True),
}


def arguments(row: PaperRow) -> tuple[str, ...]:
    """Return the arguments of ``msccl`` for a row."""
    machine, collective = MACHINES[row.topology], COLLECTIVES[row.collective]
    chunks = row.chunks // machine.ranks if collective.per_pair else row.chunks
    steps, rounds = row.steps // collective.phases, row.rounds // collective.phases
    numbers = ("--chunks", str(chunks), "--steps", str(steps), "--rounds", str(rounds))
    root = ("--root", str(machine.root)) if collective.rooted else ()
    names = (machine.name, collective.name)
    return ("solve", "instance", *names, *machine.options, *root, *numbers, "--no-save")
