"""Check claims on machines with translations, by the chunks of one rank.

A certificate may state symmetries of its machine. They are not trusted: the check is that each
preserves links and lanes, that they commute, and that together they map rank 0 to every rank. An
element of the group that fixes one rank fixes all ranks, since it commutes with the elements that
map this rank to the others. So exactly one element maps rank 0 to a given rank. It follows:

* Every statement about rank 0's chunks, their paths, and distances holds for every rank's chunks.
* A link has as many images as there are ranks. If each rank's chunks take the images of the paths
  of rank 0's chunks, then each image carries the load that rank 0's chunks put on all images.

The check is plain Python. It shares no code with the modules that find symmetries and verify
symmetric algorithms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Topology
from sccl.prove.check.timed_trees import Spend

Images = Sequence[Sequence[int]]


def is_symmetric_demand(collective: Collective) -> bool:
    """Return whether the collective is an allgather or alltoall with equal chunks."""
    return not collective.combining and (collective.is_allgather or collective.is_alltoall)


def check_translations(machine: Topology, images: Images, spend: Spend) -> None:
    """Check that symmetries of a machine are valid, commute, and map rank 0 to every rank.

    Raises:
        ValueError: They do not, or the machine has budgets, whose images are not checked.
        TooMuchError: The check takes too much work.
    """
    ranks, lanes = machine.ranks, machine.lanes()
    spend(len(images) * (4 * len(lanes) + (len(images) + 2) * ranks))
    if machine.budgets:
        raise ValueError("symmetries do not support a machine with budgets")
    for number, image in enumerate(images):
        if sorted(image) != list(range(ranks)):
            raise ValueError(f"symmetry {number} is not a permutation of {ranks} ranks")
        for (u, v), width in lanes.items():
            if lanes.get((image[u], image[v])) != width:
                raise ValueError(
                    f"symmetry {number} maps link {u}->{v} to no link with the same lanes"
                )
        for other_image in images[:number]:
            if any(image[other_image[r]] != other_image[image[r]] for r in range(ranks)):
                raise ValueError(f"symmetry {number} does not commute with one before it")
    reached = {0}
    for rank in (queue := [0]):
        for image in images:
            if image[rank] not in reached:
                reached.add(image[rank])
                queue.append(image[rank])
    if len(reached) < ranks:
        raise ValueError(f"symmetries map rank 0 to {len(reached)} of {ranks} ranks")


def _link_kinds(machine: Topology, images: Images, spend: Spend) -> dict[Edge, int]:
    """Map each link to the destination of the link of rank 0 whose image it is."""
    spend(4 * len(machine.links) * len(images))
    kinds: dict[Edge, int] = {}
    for link in machine.links:
        if link.src == 0:
            kinds[link.edge] = link.dst
            for u, v in (queue := [link.edge]):
                for image in images:
                    image_edge = (image[u], image[v])
                    if image_edge not in kinds:
                        kinds[image_edge] = link.dst
                        queue.append(image_edge)
    return kinds


def is_invariant(costs: dict[Edge, int], images: Images, spend: Spend) -> bool:
    """Return whether the symmetries preserve the costs of links."""
    spend(2 * len(costs) * len(images))
    return all(
        costs[image[u], image[v]] == cost for image in images for (u, v), cost in costs.items()
    )


def is_translated(algorithm: SymmetricAlgorithm) -> bool:
    """Return whether the sends of rank 0's chunks and translations define an algorithm."""
    ranks = algorithm.topology.ranks
    return (
        is_symmetric_demand(algorithm.collective)
        and not algorithm.topology.budgets
        and all(symmetry.chunk_shift == 0 for symmetry in algorithm.symmetries)
        and all(send.chunk % ranks == 0 for send in algorithm.sends)
    )


def check_translated(algorithm: SymmetricAlgorithm, spend: Spend) -> None:
    """Check an algorithm in which the paths of all chunks are images of those of rank 0's chunks.

    Raises:
        ValueError: It is not valid, or its symmetries are no translations of its machine.
        TooMuchError: The check takes too much work.
    """
    machine, collective = algorithm.topology, algorithm.collective
    images = [symmetry.ranks for symmetry in algorithm.symmetries]
    check_translations(machine, images, spend)
    kind_of = _link_kinds(machine, images, spend)
    ranks, rounds = machine.ranks, algorithm.rounds_per_step
    spend(20 * len(algorithm.sends) + collective.num_chunks // ranks)
    if any(r < 1 for r in rounds):
        raise ValueError("some step has less than one round")
    arrived: dict[int, dict[int, int]] = {}  # arrival step by chunk and rank
    loads: Counter[tuple[int, int]] = Counter()
    for send in sorted(algorithm.sends):
        step, chunk, edge = int(send.step), int(send.chunk), (int(send.src), int(send.dst))
        if not (0 <= step < len(rounds) and 0 <= chunk < collective.num_chunks):
            raise ValueError(f"step {step} or chunk {chunk} does not exist")
        if edge not in kind_of:
            raise ValueError(f"step {step}: there is no link {edge[0]}->{edge[1]}")
        arrival_steps = arrived.setdefault(chunk, {0: -1})
        if arrival_steps.get(edge[0], step) >= step:
            raise ValueError(f"step {step}: rank {edge[0]} does not hold chunk {chunk}")
        arrival_steps.setdefault(edge[1], step)
        loads[kind_of[edge], step] += 1
    lanes = machine.lanes()
    for (kind, step), load in loads.items():
        if load > lanes[0, kind] * rounds[step]:
            raise ValueError(f"step {step}: link 0->{kind} carries {load} chunks")
    _check_delivered(collective, arrived)
    if len(algorithm.sends) * ranks != algorithm.num_sends:
        raise ValueError(f"it states {algorithm.num_sends} sends, and has another number")


def _check_delivered(collective: Collective, arrived: dict[int, dict[int, int]]) -> None:
    """Check that each chunk of rank 0 reaches its destinations.

    Raises:
        ValueError: A chunk does not.
    """
    ranks = collective.ranks
    to_all = collective.is_allgather
    for chunk in range(0, collective.num_chunks, ranks):
        arrival_steps = arrived.get(chunk, {0: -1})
        if len(arrival_steps) < ranks if to_all else chunk // ranks % ranks not in arrival_steps:
            raise ValueError(f"chunk {chunk} does not reach all its destinations")
