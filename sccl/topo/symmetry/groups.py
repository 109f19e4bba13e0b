"""Choose groups of symmetries for synthesis: known by construction, sampled, or given.

The larger the group, the smaller the search, and the fewer the remaining algorithms. If a group
leaves none, nothing is proved, so several groups are offered, the largest first. The best groups
act freely on chunks: then one chunk's tree can be any tree. A rotation about a rank does so if it
also rotates the chunks of that rank (chunk j to chunk j+1).

Generated machines have the groups that :mod:`~sccl.topo.symmetry.generated` constructs. For others
:mod:`~sccl.topo.symmetry.recognised` finds translations from the links, and
:mod:`~sccl.topo.symmetry.sampled` draws semiregular subgroups of the group that BLISS finds.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sccl.core.collective import Collective
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo.symmetry.automorphisms import automorphisms, check_symmetry
from sccl.topo.symmetry.generated import generated_groups
from sccl.topo.symmetry.given import group_of_file
from sccl.topo.symmetry.group import Group
from sccl.topo.symmetry.permutations import Permutation
from sccl.topo.symmetry.sampled import sampled_groups

MANY_LINKS = 50_000
"""Number of links beyond which BLISS takes longer than symmetries save."""

_SAMPLED_RANKS = 64
"""Beyond, sampling takes seconds: it is left out where translations are known."""


def groups(topology: Topology, collective: Collective, choice: str) -> tuple[Group, ...]:
    """Return the groups to try, the largest first.

    Args:
        collective: non-combining, with its chunks.
        choice: ``auto``, ``none``, ``translations``, or the path of a .json file, which is not
            offered where C is no multiple of its period.

    Raises:
        ParameterError: there is no such choice, or the file's symmetries do not preserve the
            machine or the demand.
        FormatError: the file is none of symmetries.
    """
    if choice == "none":
        return ()
    if choice.endswith(".json"):
        given = group_of_file(Path(choice), topology, collective)
        return (given,) if given.fits(collective) else ()
    if choice not in {"auto", "translations"}:
        raise ParameterError(
            f"symmetry is {choice!r}, expected auto, none, translations or a .json file"
        )
    every = tuple(generated_groups(topology, collective))
    if not every:
        every = _recognised(topology, collective)
        if not every or topology.ranks <= _SAMPLED_RANKS:
            every += tuple(sampled_groups(topology, collective))
    if choice == "translations":
        return tuple(group for group in every if not group.turns_chunks())
    return every


@lru_cache(maxsize=4)
def some_symmetries(topology: Topology, collective: Collective) -> tuple[Permutation, ...]:
    """Return symmetries of a machine and its demand, by which ranks are images of one another.

    Translations, where they are known or recognised. Otherwise all that BLISS finds. None on
    machines of more than :data:`MANY_LINKS` links without translations.
    """
    if every := translation_groups(topology, collective):
        return tuple(symmetry.ranks for symmetry in every[0].generators)
    if len(topology.links) > MANY_LINKS:
        return ()
    return automorphisms(topology, collective)


def translation_groups(topology: Topology, collective: Collective) -> tuple[Group, ...]:
    """Return the translations of a machine, as they are known or recognised. At most one group."""
    every = (g for g in generated_groups(topology, collective) if not g.turns_chunks())
    return tuple(every)[:1] or _recognised(topology, collective)


def _recognised(topology: Topology, collective: Collective) -> tuple[Group, ...]:
    """Return the translations of a machine, if it has some and they preserve the demand."""
    from sccl.topo.symmetry.recognised import recognised_translations  # noqa: PLC0415 - NumPy is slow

    rooted = any(r.root is not None for r in (collective.pre, collective.post))
    images = () if rooted else recognised_translations(topology)
    try:
        for image in images:
            check_symmetry(topology, collective, image)
    except ParameterError:  # its budgets, or the user's own demand, tell ranks apart
        return ()
    return (Group("translations", tuple(Symmetry(image) for image in images)),) if images else ()
