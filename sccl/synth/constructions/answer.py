"""Constructed algorithms (translations, breadth first, meshes, products, routes) and their costs.

The costs are the values attained without search, for every k and C.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING

from sccl.collectives import Spec, dual_of
from sccl.core.algorithm import Algorithm, Send
from sccl.core.answer import Sat, Unknown
from sccl.core.collective import Collective
from sccl.core.instance import Instance
from sccl.core.stop import StopKind, StopReason
from sccl.core.symmetric import AnyAlgorithm, Group, SymmetricAlgorithm, Symmetry
from sccl.core.topology import Topology
from sccl.judge import require_valid
from sccl.synth.limits import MAX_PAIRED_RANKS, MAX_SMALL_RANKS, MAX_VARIABLES
from sccl.topo.symmetry.group_choice import candidate_groups, orbit_symmetries, translation_groups
from sccl.topo.symmetry.permutations import rank_orbits

if TYPE_CHECKING:
    from sccl.synth.constructions.mesh_allgather import Mesh
    from sccl.synth.constructions.product_alltoall import ProductAlltoall
    from sccl.topo.symmetry.regular_groups import CayleyMachine

BREADTH_FIRST, COLORING, BY_DIMENSIONS = "breadth first", "colouring", "by dimensions"

NAME = "construction"

_NamedAlgorithm = tuple[str, AnyAlgorithm | None]
"""The name of the group that an algorithm is invariant under, and that, or that there is none."""


@dataclass(frozen=True, slots=True)
class ConstructionCost:
    """The costs that a constructed algorithm attains.

    Attributes:
        steps: S, the largest distance.
        bandwidth: R/C, at some C.
        construction: Name of the construction.
        multiples: Multiples of the pattern's chunks to try in order.
        is_optimal: Whether distances prove that no algorithm has a smaller R/C.
    """

    steps: int
    bandwidth: Fraction
    construction: str
    multiples: tuple[int, ...]
    is_optimal: bool = False


@lru_cache(maxsize=4)
def cost_without_search(topology: Topology, collective: Collective) -> ConstructionCost | None:
    """Return the costs attained in as few steps as possible. None: no construction is known.

    Args:
        topology: The machine.
        collective: Collective without reductions, at any C.

    Raises:
        UnreachableError: A rank cannot reach another one.
    """
    if topology.budgets or topology.switches or collective.combining:
        return None
    if not (collective.is_allgather or collective.is_alltoall):
        return None
    machine = _cayley_graph(topology, collective)
    if collective.is_alltoall:
        return _coloring_construction(machine) if machine else None
    from sccl.synth.constructions import abelian_allgather, mesh_allgather  # noqa: PLC0415 - NumPy is slow to load

    if machine:
        return _bfb_construction(abelian_allgather.step_costs(machine))
    by_lines = mesh_allgather.find_mesh(topology)
    wide = None if by_lines and by_lines.has_equal_sides else _bfb_costs(topology, collective)
    candidates = [_mesh_construction(by_lines) if by_lines else None, _bfb_construction(wide)]
    return min(filter(None, candidates), key=lambda each: each.bandwidth, default=None)


def attained_cost(topology: Topology, spec: Spec) -> ConstructionCost | None:
    """Return the costs attained in the fewest steps without search. None: nothing is known.

    For reductions these are the costs of their duals. An allreduce on one-way links has both
    phases, each on its own machine.
    """
    dual = dual_of(spec)
    unit = dual.spec.at(dual.spec.unit)
    per_phase = [cost_without_search(phase.topology, unit) for phase in dual.phases_on(topology)]
    results = [result for result in per_phase if result is not None]
    if len(results) < len(per_phase):
        return None
    each = Fraction(dual.phases, len(results))  # phases per solved machine
    return replace(
        results[0],
        steps=int(sum(result.steps * each for result in results)),
        bandwidth=sum((dual.bandwidth(result.bandwidth) for result in results), Fraction(0))
        / len(results),
    )


def _bfb_costs(topology: Topology, collective: Collective) -> tuple[Fraction, ...] | None:
    """Return the rounds per chunk of each step, breadth first. None: there are too many ranks."""
    from sccl.synth.constructions import bfb  # noqa: PLC0415 - NumPy is slow to load

    if topology.ranks > MAX_PAIRED_RANKS:
        return None
    orbit_ranks = rank_orbits(topology, orbit_symmetries(topology, collective))
    return bfb.cached_costs(topology, tuple(orbit_ranks))


def _bfb_construction(costs: tuple[Fraction, ...] | None) -> ConstructionCost | None:
    if not costs:
        return None
    times = lcm(*(cost.denominator for cost in costs))
    return ConstructionCost(len(costs), sum(costs, Fraction(0)), BREADTH_FIRST, (times,))


def _mesh_construction(lines: Mesh) -> ConstructionCost:
    return ConstructionCost(lines.steps, lines.cost, BY_DIMENSIONS, (lines.pieces,))


def _cayley_graph(topology: Topology, collective: Collective) -> CayleyMachine | None:
    from sccl.topo.symmetry.regular_groups import as_cayley_machine, translation_group  # noqa: PLC0415 - NumPy is slow

    for candidate in translation_groups(topology, collective):
        if group := translation_group(candidate.generators):
            return as_cayley_machine(topology, group)
    return None


def _coloring_construction(machine: CayleyMachine) -> ConstructionCost | None:
    """Return the costs of an alltoall with C = S P chunks, or twice as many, in S steps."""
    from sccl.synth.constructions import abelian_alltoall  # noqa: PLC0415 - NumPy is slow to load

    once, twice = (abelian_alltoall.rounds_per_chunk(machine, pieces) for pieces in (1, 2))
    if once is None or twice is None:
        return None
    far, cost = machine.distances(), min(once, twice)
    steps = int(far.max())
    # on even rings the antipodal chunk goes both ways: one piece of a pair can't
    times = (2, steps) if twice < once else (1, 2, steps)
    lower_bound = Fraction(int(far.sum()), sum(machine.lanes) * machine.group.ranks)
    return ConstructionCost(steps, cost, COLORING, times, cost == lower_bound)


def answer(instance: Instance, among: Sequence[Group]) -> Sat | Unknown | None:
    """Return an algorithm that is not yet verified. None: only a search can decide the instance.

    Unknown: no algorithm was found, and a search would take too long.

    Args:
        instance: The instance.
        among: Groups of symmetries. The first one with translations is used, else the first one in
            which only the identity fixes a rank.
    """
    begin = time.perf_counter()
    collective, plain = instance.collective, not instance.topology.budgets
    if not (collective.is_alltoall or (collective.is_allgather and plain)):
        return None
    algorithm: AnyAlgorithm | None
    has_translations, algorithm = (
        _answer_by_translations(instance, among) if plain else (False, None)
    )
    name = "translations"
    best: Fraction | None = None
    if not has_translations and collective.is_allgather:
        name, algorithm, best = _best_allgather(instance, among)
    if collective.is_alltoall and algorithm is None:
        colored = cost_without_search(instance.topology, collective) if has_translations else None
        if colored is None or not colored.is_optimal:
            name, algorithm, best = _best_alltoall(instance, among)
        if colored and colored.steps == instance.steps:
            best = min(colored.bandwidth, best or colored.bandwidth)
    seconds = time.perf_counter() - begin
    if algorithm is not None and algorithm.rounds <= instance.rounds:
        first, *rest = algorithm.rounds_per_step
        first += instance.rounds - algorithm.rounds
        return Sat(replace(algorithm, rounds_per_step=(first, *rest)), NAME, seconds, group=name)
    size = collective.num_chunks * len(instance.topology.links) * instance.steps
    many = collective.is_alltoall and instance.topology.ranks > MAX_SMALL_RANKS
    if best is None or (size <= MAX_VARIABLES and not many):
        return None
    why = (
        f"R/C {best} is known for this number of steps without a search, and a search would take "
        "long"
    )
    return Unknown(StopReason(StopKind.OTHER, why), NAME, seconds, best=best)


def construct_algorithm(
    topology: Topology, collective: Collective, steps: int
) -> AnyAlgorithm | None:
    """Return a verified algorithm of ``steps`` steps without search. None: no construction applies.

    Its C is the one at which the construction attains its R/C, or for routes the smallest C.

    Args:
        topology: The machine.
        collective: Collective without reductions, at its smallest C.
        steps: Number of steps.
    """
    attainable = cost_without_search(topology, collective)
    made: _NamedAlgorithm = ("", None)
    if collective.is_alltoall and not (attainable and attainable.is_optimal):
        made = "", _construct_alltoall(topology, collective, steps)
    if attainable is not None and attainable.steps == steps:
        made = _cheaper(made, ("", _construct_at_chunks(attainable, topology, collective)))
    return require_valid(made[1], "an answer without search") if made[1] else None


def _construct_at_chunks(
    attainable: ConstructionCost, topology: Topology, collective: Collective
) -> AnyAlgorithm | None:
    """Return an algorithm that attains the known costs, with the fewest chunks for which it can."""
    for times in attainable.multiples:
        chunks = collective.chunks * times
        rounds = attainable.bandwidth * chunks
        if rounds.denominator == 1 and rounds >= attainable.steps:
            scaled = collective.with_chunks(chunks)
            asked = Instance(topology, scaled, attainable.steps, int(rounds))
            result = answer(asked, _symmetry_groups(topology, collective))
            if isinstance(result, Sat):
                return result.algorithm
    return None


@lru_cache(maxsize=4)
def _construct_alltoall(
    topology: Topology, collective: Collective, steps: int
) -> AnyAlgorithm | None:
    """Return an alltoall of a product or by routes, whichever is cheaper.

    If the factors have equal rounds, routes cannot be cheaper.
    """
    product = _product_in_steps(topology, steps)
    made: _NamedAlgorithm = ("", None)
    if product is not None:
        times = len(product.factors)
        scaled = collective.with_chunks(collective.chunks * times)
        made = _alltoall_of_product(topology, scaled, steps)
        if made[1] is not None and product.has_equal_rounds:
            return made[1]
    routed = _alltoall_by_routes(
        topology, collective, steps, _symmetry_groups(topology, collective)
    )
    return _cheaper(made, routed)[1]


def _best_alltoall(
    instance: Instance, among: Sequence[Group]
) -> tuple[str, AnyAlgorithm | None, Fraction | None]:
    """Return an alltoall of a product, else by routes, and the least R/C known at any C.

    Routes are not tried if factors have equal rounds and the instance allows no more than the cost
    of the product.
    """
    topology, steps, asked = instance.topology, instance.steps, instance.collective
    product, candidate = (
        _product_in_steps(topology, steps),
        _alltoall_of_product(topology, asked, steps),
    )
    cost = product.cost if product else None
    if candidate[1] is None or candidate[1].rounds > instance.rounds:
        hopeless = (
            product and product.has_equal_rounds and instance.rounds <= product.cost * asked.chunks
        )
        if not hopeless:
            candidate = _cheaper(candidate, _alltoall_by_routes(topology, asked, steps, among))
    costs = [] if cost is None else [cost]
    costs += [candidate[1].bandwidth_cost] if candidate[1] else []
    fewest = asked.with_chunks(topology.ranks)
    if product is None and asked.chunks > fewest.chunks:  # routes may cost more with more chunks
        smallest = _construct_alltoall(topology, fewest, steps)
        costs += [smallest.bandwidth_cost] if smallest else []
    return *candidate, min(costs, default=None)


def _cheaper(first: _NamedAlgorithm, second: _NamedAlgorithm) -> _NamedAlgorithm:
    if first[1] is None or second[1] is None:
        return first if second[1] is None else second
    return first if first[1].bandwidth_cost <= second[1].bandwidth_cost else second


@lru_cache(maxsize=4)
def _symmetry_groups(topology: Topology, collective: Collective) -> tuple[Group, ...]:
    """Return all known groups of symmetries, and those found by a search of some seconds."""
    return candidate_groups(topology, collective, "auto")


def _answer_by_translations(
    instance: Instance, among: Sequence[Group]
) -> tuple[bool, SymmetricAlgorithm | None]:
    """Return whether there are translations, and the algorithm that is invariant under them."""
    from sccl.synth.constructions import abelian_allgather, abelian_alltoall  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.regular_groups import (  # noqa: PLC0415
        as_cayley_machine,
        split_commuting,
        translation_group,
    )

    topology, collective = instance.topology, instance.collective
    for symmetry_group in among:
        group = translation_group(symmetry_group.generators)
        machine = as_cayley_machine(topology, group) if group else None
        if machine is None:
            continue
        if collective.is_allgather:
            made = abelian_allgather.build_sends(
                machine, collective.chunks, instance.steps, instance.rounds
            )
        else:
            pieces = collective.chunks // topology.ranks
            made = abelian_alltoall.build_sends(machine, pieces, instance.steps, instance.rounds)
        if made is None:
            return True, None
        rounds, sends = made
        kept, _ = split_commuting(symmetry_group.generators)
        return True, SymmetricAlgorithm(
            topology, collective, rounds, tuple(kept), tuple(sends), len(sends) * topology.ranks
        )
    return False, None


def _semiregular_groups(
    topology: Topology, among: Sequence[Group]
) -> Iterator[tuple[str, tuple[Symmetry, ...]]]:
    """Yield the named groups in which only the identity fixes a rank, then the trivial group.

    Generators that fix ranks and shift chunks are dropped.
    """
    from sccl.topo.symmetry.regular_groups import find_semiregular_group  # noqa: PLC0415 - NumPy is slow to load

    for symmetry_group in among:
        kept = tuple(symmetry for symmetry in symmetry_group.generators if not symmetry.chunk_shift)
        if kept and find_semiregular_group([symmetry.ranks for symmetry in kept], topology.ranks):
            yield symmetry_group.name, kept
    yield "", ()


def _build_algorithm(
    topology: Topology,
    collective: Collective,
    rounds: tuple[int, ...],
    kept: tuple[Symmetry, ...],
    sends: Sequence[Send],
) -> AnyAlgorithm:
    """Return an algorithm from the sends of the chunks of one rank of each orbit."""
    if not kept:
        return Algorithm(topology, collective, rounds, tuple(sends))
    firsts = len({send.chunk % topology.ranks for send in sends})
    number = len(sends) * (topology.ranks // firsts)
    return SymmetricAlgorithm(topology, collective, rounds, kept, tuple(sends), number)


def _best_allgather(
    instance: Instance, among: Sequence[Group]
) -> tuple[str, AnyAlgorithm | None, Fraction | None]:
    """Return an allgather without translations, and the least R/C known at any C."""
    candidate = _allgather_on_mesh(instance)
    if candidate[1] is None:
        candidate = _allgather_breadth_first(instance, among)
    attainable = (
        cost_without_search(instance.topology, instance.collective)
        if candidate[1] is None
        else None
    )
    best = attainable.bandwidth if attainable and attainable.steps == instance.steps else None
    return *candidate, best


def _allgather_on_mesh(instance: Instance) -> _NamedAlgorithm:
    """Return an allgather dimension by dimension, if its C is a suitable multiple."""
    from sccl.synth.constructions import mesh_allgather  # noqa: PLC0415 - NumPy is slow to load

    machine, pieces = mesh_allgather.find_mesh(instance.topology), instance.collective.chunks
    if machine is None or instance.steps != machine.steps or pieces % machine.pieces:
        return "", None
    times = pieces // machine.pieces
    made = (
        mesh_allgather.build_sends(machine, pieces)
        if times * sum(machine.rounds) <= instance.rounds
        else None
    )
    if made is None:
        return "", None
    kept, rounds = machine.symmetries(), tuple(times * each for each in machine.rounds)
    name = "turns of dimensions" if kept else ""
    return name, _build_algorithm(instance.topology, instance.collective, rounds, kept, made)


def _allgather_breadth_first(instance: Instance, among: Sequence[Group]) -> _NamedAlgorithm:
    from sccl.synth.constructions.bfb import build_sends  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.symmetry.regular_groups import find_semiregular_group  # noqa: PLC0415 - NumPy is slow

    topology, collective = instance.topology, instance.collective
    name, kept = next(_semiregular_groups(topology, among))
    free = (
        find_semiregular_group([symmetry.ranks for symmetry in kept], topology.ranks)
        if kept
        else None
    )
    made = build_sends(topology, free, collective.chunks, instance.steps, instance.rounds)
    if made is None:
        return name, None
    return name, _build_algorithm(topology, collective, made[0], kept, made[1])


def _alltoall_by_routes(
    topology: Topology, collective: Collective, steps: int, among: Sequence[Group]
) -> _NamedAlgorithm:
    from sccl.synth.constructions.alltoall_routes import build_sends, find_routes  # noqa: PLC0415 - NumPy is slow to load

    name, kept = next(_semiregular_groups(topology, among))
    pieces = collective.chunks // topology.ranks
    routing = find_routes(topology, tuple(symmetry.ranks for symmetry in kept), pieces, steps)
    if routing is None:
        return name, None
    return name, _build_algorithm(
        topology, collective, routing.rounds, kept, build_sends(topology, routing)
    )


def _product_in_steps(topology: Topology, steps: int) -> ProductAlltoall | None:
    """Return the alltoall of a product with this number of steps. None: there is none."""
    from sccl.synth.constructions.product_alltoall import product_alltoall  # noqa: PLC0415 - NumPy is slow to load

    product = product_alltoall(topology)
    return product if product and len(product.rounds) == steps else None


def _alltoall_of_product(topology: Topology, collective: Collective, steps: int) -> _NamedAlgorithm:
    """Return an alltoall of a product, if its number of pieces divides the chunks of a pair."""
    product, pieces = _product_in_steps(topology, steps), collective.chunks // topology.ranks
    if product is None or pieces % len(product.factors):
        return "", None
    sends = product.sends(pieces)
    if sends is None:
        return "", None
    rounds = tuple(r * (pieces // len(product.factors)) for r in product.rounds)
    kept = product.symmetries
    return "symmetries of factors" if kept else "", _build_algorithm(
        topology, collective, rounds, kept, sends
    )
