"""The rows in the words of the public ``msccl`` command.

Its numbers are not all sccl's: chunks of alltoall and reducescatter count one pair of ranks, and
``--rounds`` is R, the rounds of all steps together. An allreduce asked for directly is another
problem there, with partial sums in the encoding. The paper's method, which sccl follows too, is one
reducescatter with half the steps and rounds, and its mirror image: that is what a row asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.paper import PaperRow


@dataclass(frozen=True, slots=True)
class PeerMachine:
    """A topology of the catalogue as ``msccl`` knows it, equal to ours up to names of ranks.

    Attributes:
        root: the rank that our rank 0 is there, for rooted collectives.
    """

    name: str
    ranks: int
    root: int = 0
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PeerCollective:
    """A collective as ``msccl`` knows it.

    Attributes:
        per_pair: whether its chunks count what one rank has for another; ours are P times that.
        phases: how many times it is needed, each with its part of S and R.
    """

    name: str
    per_pair: bool = False
    phases: int = 1
    rooted: bool = False


# DGX1: the same weighted graph under an isomorphism that keeps rank 0. Z52: a ring looks the same
# from everywhere.
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
    """Return what to call ``msccl`` with for a row."""
    machine, collective = MACHINES[row.topology], COLLECTIVES[row.collective]
    chunks = row.chunks // machine.ranks if collective.per_pair else row.chunks
    steps, rounds = row.steps // collective.phases, row.rounds // collective.phases
    numbers = ("--chunks", str(chunks), "--steps", str(steps), "--rounds", str(rounds))
    root = ("--root", str(machine.root)) if collective.rooted else ()
    names = (machine.name, collective.name)
    return ("solve", "instance", *names, *machine.options, *root, *numbers, "--no-save")
