"""Choose groups of symmetries for synthesis: known by construction, sampled, or given.

The larger the group, the smaller the search, and the fewer the remaining algorithms. If a group
leaves none, nothing is proved, so several groups are offered, the largest first. The best groups
act freely on chunks: then one chunk's tree can be any tree. A rotation about a rank does so if it
also rotates the chunks of that rank (chunk j to chunk j+1).

Generated machines have the groups that :mod:`~sccl.topo.symmetry.generator_symmetries` constructs.
For others :mod:`~sccl.topo.symmetry.translation_search` finds translations from the links, and
:mod:`~sccl.topo.symmetry.sampled_groups` draws semiregular subgroups of the group that BLISS finds.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sccl.core.collective import Collective
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo.symmetry.automorphisms import automorphisms, check_symmetry
from sccl.topo.symmetry.generator_symmetries import generator_groups
from sccl.topo.symmetry.group import Group
from sccl.topo.symmetry.permutations import Permutation
from sccl.topo.symmetry.sampled_groups import sample_groups
from sccl.topo.symmetry.symmetry_files import load_group

MAX_BLISS_LINKS = 50_000
"""Number of links beyond which BLISS takes longer than symmetries save."""

_SAMPLED_RANKS = 64
"""Beyond, sampling takes seconds: it is left out where translations are known."""


def candidate_groups(topology: Topology, collective: Collective, choice: str) -> tuple[Group, ...]:
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
        file_group = load_group(Path(choice), topology, collective)
        return (file_group,) if file_group.fits(collective) else ()
    if choice not in {"auto", "translations"}:
        raise ParameterError(
            f"symmetry is {choice!r}, expected auto, none, translations or a .json file"
        )
    candidates = tuple(generator_groups(topology, collective))
    if not candidates:
        candidates = _recognized_translations(topology, collective)
        if not candidates or topology.ranks <= _SAMPLED_RANKS:
            candidates += tuple(sample_groups(topology, collective))
    if choice == "translations":
        return tuple(group for group in candidates if not group.shifts_chunks())
    return candidates


@lru_cache(maxsize=4)
def orbit_symmetries(topology: Topology, collective: Collective) -> tuple[Permutation, ...]:
    """Return symmetries of a machine and its demand, by which ranks are images of one another.

    Translations, where they are known or recognised. Otherwise all that BLISS finds. None on
    machines of more than :data:`MAX_BLISS_LINKS` links without translations.
    """
    if candidates := translation_groups(topology, collective):
        return tuple(symmetry.ranks for symmetry in candidates[0].generators)
    if len(topology.links) > MAX_BLISS_LINKS:
        return ()
    return automorphisms(topology, collective)


def translation_groups(topology: Topology, collective: Collective) -> tuple[Group, ...]:
    """Return the translations of a machine, as they are known or recognised. At most one group."""
    candidates = (g for g in generator_groups(topology, collective) if not g.shifts_chunks())
    return tuple(candidates)[:1] or _recognized_translations(topology, collective)


def _recognized_translations(topology: Topology, collective: Collective) -> tuple[Group, ...]:
    """Return the translations of a machine, if it has some and they preserve the demand."""
    from sccl.topo.symmetry.translation_search import find_translations  # noqa: PLC0415 - NumPy is slow

    rooted = any(r.root is not None for r in (collective.pre, collective.post))
    images = () if rooted else find_translations(topology)
    try:
        for image in images:
            check_symmetry(topology, collective, image)
    except ParameterError:  # its budgets, or the user's own demand, tell ranks apart
        return ()
    return (Group("translations", tuple(Symmetry(image) for image in images)),) if images else ()
