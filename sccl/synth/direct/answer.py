"""Instances that need no search, where the machine's ranks are an abelian group."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sccl.core.answer import Sat
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.topo.symmetry.group import Group

NAME = "direct"


def answer(instance: Instance, groups: Sequence[Group]) -> Sat | None:
    """Return an algorithm, not yet judged; None: it takes a search to know whether there is one.

    Args:
        groups: of symmetries; the first that holds translations is used.
    """
    begin = time.perf_counter()
    topology, collective = instance.topology, instance.collective
    if topology.budgets or not (collective.is_gathered or collective.is_transpose):
        return None
    from sccl.synth.direct import allgather, alltoall  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.regular import cayley, commuting, translations  # noqa: PLC0415

    for one in groups:
        group = translations(one.generators)
        machine = cayley(topology, group) if group else None
        if machine is None:
            continue
        if collective.is_gathered:
            found = allgather.sends(machine, collective.chunks, instance.steps, instance.rounds)
        else:
            pieces = collective.chunks // topology.ranks
            found = alltoall.sends(machine, pieces, instance.steps, instance.rounds)
        if found is None:
            return None
        rounds, sends = found
        kept, _ = commuting(one.generators)
        algorithm = SymmetricAlgorithm(
            topology, collective, rounds, tuple(kept), tuple(sends), len(sends) * topology.ranks
        )
        return Sat(algorithm, NAME, time.perf_counter() - begin, group="translations")
    return None
