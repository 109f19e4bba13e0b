"""Instances that need no search: by translations, or breadth first on any machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sccl.core.algorithm import Algorithm
from sccl.core.answer import Sat
from sccl.core.instance import Instance
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm
from sccl.topo.symmetry.group import Group

NAME = "direct"


def answer(instance: Instance, groups: Sequence[Group]) -> Sat | None:
    """Return an algorithm, not yet judged; None: it takes a search to know whether there is one.

    Args:
        groups: of symmetries; the first that holds translations is used, else the first of which
            only the identity keeps a rank.
    """
    begin = time.perf_counter()
    collective = instance.collective
    if instance.topology.budgets or not (collective.is_gathered or collective.is_transpose):
        return None
    name: str = "translations"
    found: AnyAlgorithm | None
    known, found = _by_translations(instance, groups)
    if not known and collective.is_gathered:
        name, found = _breadth_first(instance, groups)
    return Sat(found, NAME, time.perf_counter() - begin, group=name) if found else None


def _by_translations(
    instance: Instance, groups: Sequence[Group]
) -> tuple[bool, SymmetricAlgorithm | None]:
    """Return whether there are translations, and the algorithm that is invariant under them."""
    from sccl.synth.direct import allgather, alltoall  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.regular import cayley, commuting, translations  # noqa: PLC0415

    topology, collective = instance.topology, instance.collective
    for one in groups:
        group = translations(one.generators)
        machine = cayley(topology, group) if group else None
        if machine is None:
            continue
        if collective.is_gathered:
            made = allgather.sends(machine, collective.chunks, instance.steps, instance.rounds)
        else:
            pieces = collective.chunks // topology.ranks
            made = alltoall.sends(machine, pieces, instance.steps, instance.rounds)
        if made is None:
            return True, None
        rounds, sends = made
        kept, _ = commuting(one.generators)
        return True, SymmetricAlgorithm(
            topology, collective, rounds, tuple(kept), tuple(sends), len(sends) * topology.ranks
        )
    return False, None


def _breadth_first(instance: Instance, groups: Sequence[Group]) -> tuple[str, AnyAlgorithm | None]:
    """Return the group that an allgather breadth first is invariant under, if any, and that."""
    from sccl.synth.direct.arrivals import sends  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.free import free_group  # noqa: PLC0415 - likewise

    topology, collective = instance.topology, instance.collective
    for one in (*groups, None):
        kept = tuple(s for s in one.generators if not s.turn) if one else ()
        free = free_group([s.ranks for s in kept], topology.ranks) if kept else None
        if one and not free:
            continue
        made = sends(topology, free, collective.chunks, instance.steps, instance.rounds)
        if made is None:
            return "", None
        rounds, given = made
        if one is None or free is None:
            return "", Algorithm(topology, collective, rounds, tuple(given))
        number = len(given) * free.size
        return one.name, SymmetricAlgorithm(
            topology, collective, rounds, kept, tuple(given), number
        )
    return "", None
