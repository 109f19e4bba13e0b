"""Reduction of a packing problem by symmetries that keep sources and destinations of chunks.

The mean of all images of a packing is a packing of the same time, and it loads images of a link
equally. So the reduced program has one row for each orbit of links. Each of its trees stands for an
equal share of all images of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sccl.synth.network.symmetries import bounded_symmetries
from sccl.synth.packing.flow_problem import (
    FlowProblem,
    FlowResource,
    RouteImages,
    SlotTree,
)
from sccl.synth.packing.slots import TimedPacking, TreePart

MAX_IMAGES = 4
"""Limit on the images of a tree. With more of them, chunks become so small that few are sent for
each. Without images, a broadcast of 1 MB on torus:4x4@50,25GB takes 4.7 % longer, and on
hypercube:4 1.7 %.
"""


@dataclass(frozen=True, slots=True)
class OrbitReducedProblem:
    """A problem with one resource for each orbit of resources.

    Attributes:
        images: Image of each route under each symmetry, also under the identity.
        resource: Resource of the reduced problem for each resource of the original one.
    """

    problem: FlowProblem
    images: tuple[Sequence[int], ...]
    resource: tuple[int, ...]

    def expand_packing(self, packing: TimedPacking) -> TimedPacking:
        """Return a packing of the whole problem: an equal part of each image of each tree."""
        parts: dict[tuple[int, SlotTree], float] = {}
        for share in packing.shares:
            for image in self.images:
                tree = frozenset((image[link], slot) for link, slot in share.tree)
                weight = parts.get((share.commodity, tree), 0.0)
                parts[share.commodity, tree] = weight + share.part / len(self.images)
        shares = tuple(TreePart(c, tree, part) for (c, tree), part in parts.items())
        prices = packing.prices[np.array(self.resource)]
        return replace(packing, shares=shares, prices=prices)


def reduce_by_orbits(problem: FlowProblem) -> OrbitReducedProblem | None:
    """Return the reduced problem. None: several classes of chunks, or no symmetry keeps them."""
    if len(problem.commodities) != 1 or len(problem.commodities[0].members) != 1:
        return None
    images = bounded_symmetries(problem.topology, problem.collective, MAX_IMAGES)
    if len(images) == 1:
        return None
    number = {member: i for i, r in enumerate(problem.resources) for member in r.orbit}
    alike: dict[int, list[int]] = {}
    for i, resource in enumerate(problem.resources):
        (member,) = resource.orbit  # a problem with one class has no orbits of its own
        image_sets = (frozenset((image[u], image[v]) for u, v in member) for image in images)
        alike.setdefault(min(map(number.__getitem__, image_sets)), []).append(i)
    place = {i: k for k, group in enumerate(alike.values()) for i in group}
    path_images = RouteImages(problem)
    return OrbitReducedProblem(
        replace(
            problem, resources=tuple(_merge_resources(problem, group) for group in alike.values())
        ),
        tuple(path_images.images(image) for image in images),
        tuple(place[i] for i in range(len(problem.resources))),
    )


def _merge_resources(problem: FlowProblem, indices: Sequence[int]) -> FlowResource:
    """Return an orbit of resources as one resource."""
    each = [problem.resources[i] for i in indices]
    times: dict[int, int] = {}
    for link, often in (pair for resource in each for pair in resource.links):
        times[link] = times.get(link, 0) + often
    members = tuple(member for resource in each for member in resource.orbit)
    return FlowResource(
        sum(resource.count for resource in each),
        each[0].rate,
        tuple(sorted(times.items())),
        members,
    )
