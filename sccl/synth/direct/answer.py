"""Constructed algorithms: by translations, breadth first, and by routes, on any machine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from sccl.core.algorithm import Algorithm, Send
from sccl.core.answer import Sat, Unknown
from sccl.core.collective import Collective
from sccl.core.instance import Instance
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm, Symmetry
from sccl.core.topology import Topology
from sccl.judge import require_valid
from sccl.synth.direct.reach import Attained, attained
from sccl.topo.symmetry.group import Group
from sccl.topo.symmetry.groups import groups

if TYPE_CHECKING:
    from sccl.synth.direct.factors import Rotated

NAME = "direct"

_Named = tuple[str, AnyAlgorithm | None]
"""The name of the group that an algorithm is invariant under, and that, or that there is none."""

SEARCHED = 20
"""Ranks up to which a search finds fewer chunks of an alltoall than are known without."""

_TRUSTED = 2_000_000  # chunks times links times steps, up to which a solver may do better


def answer(instance: Instance, among: Sequence[Group]) -> Sat | Unknown | None:
    """Return an algorithm, not yet judged. None: it takes a search to know whether there is one.

    Unknown: none was found, and a search would take too long.

    Args:
        among: groups of symmetries. The first that holds translations is used, else the first of
            which only the identity keeps a rank.
    """
    begin = time.perf_counter()
    collective, plain = instance.collective, not instance.topology.budgets
    if not (collective.is_transpose or (collective.is_gathered and plain)):
        return None
    found: AnyAlgorithm | None
    known, found = _by_translations(instance, among) if plain else (False, None)
    name = "translations"
    best: Fraction | None = None
    if not known and collective.is_gathered:
        name, found, best = _gathered(instance, among)
    if collective.is_transpose and found is None:
        coloured = attained(instance.topology, collective) if known else None
        if coloured is None or not coloured.is_least:
            name, found, best = _exchanged(instance, among)
        if coloured and coloured.steps == instance.steps:
            best = min(coloured.bandwidth, best or coloured.bandwidth)
    seconds = time.perf_counter() - begin
    if found is not None and found.rounds <= instance.rounds:
        first, *rest = found.rounds_per_step
        first += instance.rounds - found.rounds
        return Sat(replace(found, rounds_per_step=(first, *rest)), NAME, seconds, group=name)
    size = collective.num_chunks * len(instance.topology.links) * instance.steps
    many = collective.is_transpose and instance.topology.ranks > SEARCHED
    if best is None or (size <= _TRUSTED and not many):
        return None
    why = (
        f"without search R/C {best} is known for this number of steps, and a search would take long"
    )
    return Unknown(why, NAME, seconds, best=best)


def constructed(topology: Topology, collective: Collective, steps: int) -> AnyAlgorithm | None:
    """Return a verified algorithm of ``steps`` steps without search. None: no construction applies.

    Its C is the one at which the construction attains its R/C, or for routes the smallest C.

    Args:
        collective: non-combining, at its smallest C.
    """
    known = attained(topology, collective)
    made: _Named = ("", None)
    if collective.is_transpose and not (known and known.is_least):
        made = "", _exchange(topology, collective, steps)
    if known is not None and known.steps == steps:
        made = _better(made, ("", _at_its_chunks(known, topology, collective)))
    return require_valid(made[1], "an answer without search") if made[1] else None


def _at_its_chunks(
    known: Attained, topology: Topology, collective: Collective
) -> AnyAlgorithm | None:
    """Return an algorithm that attains the known values, at the fewest chunks that have one."""
    for times in known.times:
        chunks = collective.chunks * times
        rounds = known.bandwidth * chunks
        if rounds.denominator == 1 and rounds >= known.steps:
            number = collective.num_chunks * times
            whole = replace(collective, chunks=chunks, num_chunks=number)
            asked = Instance(topology, whole, known.steps, int(rounds))
            found = answer(asked, _groups(topology, collective))
            if isinstance(found, Sat):
                return found.algorithm
    return None


@lru_cache(maxsize=4)
def _exchange(topology: Topology, collective: Collective, steps: int) -> AnyAlgorithm | None:
    """Return an alltoall of a product, or by routes, whichever is cheaper.

    If factors are equal, routes cannot be cheaper.
    """
    product = _product(topology, steps)
    made: _Named = ("", None)
    if product is not None:
        times = len(product.parts)
        chunks, number = collective.chunks * times, collective.num_chunks * times
        whole = replace(collective, chunks=chunks, num_chunks=number)
        made = _of_factors(topology, whole, steps)
        if made[1] is not None and product.is_even:
            return made[1]
    other = _by_routes(topology, collective, steps, _groups(topology, collective))
    return _better(made, other)[1]


def _exchanged(
    instance: Instance, among: Sequence[Group]
) -> tuple[str, AnyAlgorithm | None, Fraction | None]:
    """Return an alltoall of a product, else by routes, and the least R/C known at any C.

    Routes are left out where less is asked for than a product of factors that are alike takes.
    """
    topology, steps, asked = instance.topology, instance.steps, instance.collective
    product, found = _product(topology, steps), _of_factors(topology, asked, steps)
    cost = product.cost if product else None
    if found[1] is None or found[1].rounds > instance.rounds:
        hopeless = product and product.is_even and instance.rounds <= product.cost * asked.chunks
        if not hopeless:
            found = _better(found, _by_routes(topology, asked, steps, among))
    known = [] if cost is None else [cost]
    known += [found[1].bandwidth_cost] if found[1] else []
    fewest = replace(asked, chunks=topology.ranks, num_chunks=topology.ranks**2)
    if product is None and asked.chunks > fewest.chunks:  # of more chunks routes may take more
        other = _exchange(topology, fewest, steps)
        known += [other.bandwidth_cost] if other else []
    return *found, min(known, default=None)


def _better(one: _Named, other: _Named) -> _Named:
    """Return the cheaper of two algorithms, which may not be there."""
    if one[1] is None or other[1] is None:
        return one if other[1] is None else other
    return one if one[1].bandwidth_cost <= other[1].bandwidth_cost else other


@lru_cache(maxsize=4)
def _groups(topology: Topology, collective: Collective) -> tuple[Group, ...]:
    """Return all groups that are known or found, which takes seconds on large machines."""
    return groups(topology, collective, "auto")


def _by_translations(
    instance: Instance, among: Sequence[Group]
) -> tuple[bool, SymmetricAlgorithm | None]:
    """Return whether there are translations, and the algorithm that is invariant under them."""
    from sccl.synth.direct import allgather, alltoall  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.regular import cayley, commuting, translations  # noqa: PLC0415

    topology, collective = instance.topology, instance.collective
    for one in among:
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


def _that_keep_no_rank(
    topology: Topology, among: Sequence[Group]
) -> Iterator[tuple[str, tuple[Symmetry, ...]]]:
    """Yield the named groups in which only the identity keeps a rank, then the trivial group.

    If a group has turns, its subgroup without turns is used.
    """
    from sccl.topo.symmetry.free import free_group  # noqa: PLC0415 - NumPy is slow to load

    for one in among:
        kept = tuple(symmetry for symmetry in one.generators if not symmetry.turn)
        if kept and free_group([symmetry.ranks for symmetry in kept], topology.ranks):
            yield one.name, kept
    yield "", ()


def _made(
    topology: Topology,
    collective: Collective,
    rounds: tuple[int, ...],
    kept: tuple[Symmetry, ...],
    sends: Sequence[Send],
) -> AnyAlgorithm:
    """Return an algorithm by the sends of the chunks of a rank of each orbit."""
    if not kept:
        return Algorithm(topology, collective, rounds, tuple(sends))
    firsts = len({one.chunk % topology.ranks for one in sends})
    number = len(sends) * (topology.ranks // firsts)
    return SymmetricAlgorithm(topology, collective, rounds, kept, tuple(sends), number)


def _gathered(
    instance: Instance, among: Sequence[Group]
) -> tuple[str, AnyAlgorithm | None, Fraction | None]:
    """Return an allgather on a machine without translations, and the least R/C known at any C."""
    found = _by_lines(instance)
    if found[1] is None:
        found = _breadth_first(instance, among)
    known = attained(instance.topology, instance.collective) if found[1] is None else None
    best = known.bandwidth if known and known.steps == instance.steps else None
    return *found, best


def _by_lines(instance: Instance) -> _Named:
    """Return an allgather dimension by dimension, where its C is enough for that."""
    from sccl.synth.direct import lines  # noqa: PLC0415 - NumPy is slow to load

    machine, pieces = lines.served(instance.topology), instance.collective.chunks
    if machine is None or instance.steps != machine.steps or pieces % machine.pieces:
        return "", None
    times = pieces // machine.pieces
    made = lines.sends(machine, pieces) if times * sum(machine.rounds) <= instance.rounds else None
    if made is None:
        return "", None
    kept, rounds = machine.symmetries(), tuple(times * each for each in machine.rounds)
    name = "turns of dimensions" if kept else ""
    return name, _made(instance.topology, instance.collective, rounds, kept, made)


def _breadth_first(instance: Instance, among: Sequence[Group]) -> _Named:
    """Return an allgather breadth first."""
    from sccl.synth.direct.arrivals import sends  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.free import free_group  # noqa: PLC0415 - likewise

    topology, collective = instance.topology, instance.collective
    name, kept = next(_that_keep_no_rank(topology, among))
    free = free_group([symmetry.ranks for symmetry in kept], topology.ranks) if kept else None
    made = sends(topology, free, collective.chunks, instance.steps, instance.rounds)
    if made is None:
        return name, None
    return name, _made(topology, collective, made[0], kept, made[1])


def _by_routes(
    topology: Topology, collective: Collective, steps: int, among: Sequence[Group]
) -> _Named:
    """Return an alltoall by routes."""
    from sccl.synth.direct.routes import routes, sends  # noqa: PLC0415 - NumPy is slow to load

    name, kept = next(_that_keep_no_rank(topology, among))
    pieces = collective.chunks // topology.ranks
    found = routes(topology, tuple(symmetry.ranks for symmetry in kept), pieces, steps)
    if found is None:
        return name, None
    return name, _made(topology, collective, found.rounds, kept, sends(topology, found))


def _product(topology: Topology, steps: int) -> Rotated | None:
    """Return the alltoall of a product of so many steps. None: there is none."""
    from sccl.synth.direct.factors import rotated  # noqa: PLC0415 - NumPy is slow to load

    product = rotated(topology)
    return product if product and len(product.rounds) == steps else None


def _of_factors(topology: Topology, collective: Collective, steps: int) -> _Named:
    """Return an alltoall of a product, where each pair of ranks has as many pieces as it takes."""
    product, pieces = _product(topology, steps), collective.chunks // topology.ranks
    if product is None or pieces % len(product.parts):
        return "", None
    given = product.sends(pieces)
    if given is None:
        return "", None
    rounds = tuple(r * (pieces // len(product.parts)) for r in product.rounds)
    kept = product.symmetries
    return "symmetries of factors" if kept else "", _made(topology, collective, rounds, kept, given)
