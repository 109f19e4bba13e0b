"""Duals: the non-combining collectives solved instead of combining ones (SCCL section 3.5)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sccl.collectives.names import Spec, named_spec
from sccl.core.collective import ALL, Relation, RelationKind
from sccl.core.ids import Rank
from sccl.core.topology import Topology, to_ranks
from sccl.errors import CollectiveError

_DUAL_NAMES = {"allreduce": "allgather", "reduce": "broadcast", "reducescatter": "allgather"}
_NAME = re.compile(r"(?:(?<=[+*])|^)[a-z]+(?=[@+]|$)")
"""Name of a built-in collective, alone or among several concurrent ones."""
_ALLREDUCE_SCOPE = "reducescatter-then-allgather compositions of equal steps and rounds"


@dataclass(frozen=True, slots=True)
class DualPhase:
    """The machine on which a dual is solved, for one phase of a collective, or for equal phases.

    Attributes:
        number: Number of the phase in files of certificates.
        topology: The machine.
        on_reversed: Whether it is the reversed machine, as for the reducescatter of allreduce.
    """

    number: int
    topology: Topology
    on_reversed: bool


@dataclass(frozen=True, slots=True)
class Dual:
    """The non-combining collective that is solved instead of ``original``.

    A dual algorithm of (C, S, R) becomes one of (``chunk_factor`` * C, ``phases`` * S, ``phases`` *
    R).

    Attributes:
        spec: The solved collective.
        on_reversed: Whether it is solved on the reversed topology.
        phases: 2 for allreduce, which runs the inverse and then an allgather. Otherwise 1.
        scope: Class in which an optimum of the dual is an optimum of the original. Empty if that is
            every k-synchronous algorithm, because inversion is a bijection.
    """

    original: Spec
    spec: Spec
    on_reversed: bool
    chunk_factor: int
    phases: int
    scope: str

    @property
    def is_identity(self) -> bool:
        """Return whether the original itself is solved."""
        return self.spec == self.original

    @property
    def first_phase(self) -> Spec:
        """Return the reducescatter that is the first phase of an allreduce."""
        assert self.phases == 2
        reduced = replace(self.original, post=self.spec.pre)
        return _rename_spec(reduced, {"allreduce": "reducescatter"})

    @property
    def is_gathering(self) -> bool:
        """Return whether its algorithms also gather the contributions of an allreduce.

        They do if each rank has the same number of chunks for each of its groups.
        """
        solved = self.spec.at(self.spec.unit)
        return solved.is_allgather or len(solved.chunk_classes()) == solved.num_chunks

    def bandwidth(self, dual_cost: Fraction) -> Fraction:
        """Return the original's R/C for an R/C of the dual."""
        return dual_cost * self.phases / self.chunk_factor

    def phases_on(self, topology: Topology) -> tuple[DualPhase, ...]:
        """Return the phases to solve with their machines: the reversed one, the original, or both.

        If links and budgets are the same in both directions, one solution serves both phases of
        allreduce.
        """
        if self.phases == 1 and not self.on_reversed:
            return (DualPhase(0, topology, on_reversed=False),)
        backwards = topology.reversed()
        if self.phases == 2 and not backwards.same_capacities(topology):
            return (
                DualPhase(0, backwards, on_reversed=True),
                DualPhase(1, topology, on_reversed=False),
            )
        machine = backwards if self.on_reversed else topology
        return (DualPhase(0, machine, self.on_reversed),)


def dual_of(spec: Spec) -> Dual:
    """Return the dual of ``spec``: the collective that is synthesized instead.

    A non-combining collective is its own dual.

    The dual of an allreduce is the allgather, whose inverse runs before it. The same holds in
    groups, where the ranks of a group own chunks cyclically. The dual of any other reduction, with
    one destination for each chunk, has pre and post exchanged, on the reversed topology. For reduce
    that is broadcast, and for reducescatter allgather. Proof: the paths by which contributions
    reach the destination, reversed in direction and time, are a broadcast from it, and vice versa.
    An intermediate rank without a contribution forwards the received data.

    Raises:
        CollectiveError: The collective reduces, is no allreduce, and a chunk has several
            destinations or none. It has no known dual, and a bound by the dual of another
            collective would be wrong.
    """
    if not spec.combining:
        return Dual(spec, spec, on_reversed=False, chunk_factor=1, phases=1, scope="")
    if spec == named_spec("allreduce", spec.ranks):
        return Dual(
            spec,
            named_spec("allgather", spec.ranks),
            on_reversed=False,
            chunk_factor=spec.ranks,
            phases=2,
            scope=_ALLREDUCE_SCOPE,
        )
    if spec.post.pattern and is_allreduce(spec):
        return _dual_of_groups(spec)
    _require_single(spec)
    exchanged = Spec(
        _dual_name(spec.name),
        spec.ranks,
        unit=1,
        pattern_chunks=spec.pattern_chunks,
        pre=spec.post,
        post=spec.pre,
        root=spec.root,
        counts=spec.counts,
    )
    return Dual(spec, exchanged, on_reversed=True, chunk_factor=spec.unit, phases=1, scope="")


def is_allreduce(spec: Spec) -> bool:
    """Return whether the contributors to each chunk are its destinations: all ranks, or groups."""
    groups = spec.post.pattern
    several = all(len(group) > 1 for group in groups) if groups else spec.post == ALL
    return spec.combining and spec.pre == spec.post and several


def embedded_broadcast(spec: Spec, roots: Sequence[int]) -> Spec:
    """Return a broadcast that an allreduce contains: one rank's contribution in each group.

    Args:
        spec: Allreduce, also in groups.
        roots: A rank of each class of chunks, in the order of ``chunk_classes()``.

    Raises:
        CollectiveError: The roots are not such ranks.
    """
    unit = spec.at(spec.unit)
    classes = tuple(unit.chunk_classes())
    if len(roots) != len(classes) or any(
        root not in held for root, (held, _) in zip(roots, classes, strict=True)
    ):
        raise CollectiveError(f"{spec.name} has {len(classes)} groups: give a rank of each as root")
    root_of = dict(zip(classes, roots, strict=True))
    if not spec.post.pattern:
        return named_spec("broadcast", spec.ranks, roots[0])
    ends = ((unit.holders(c), unit.destinations(c)) for c in range(spec.pattern_chunks))
    owned = Relation(RelationKind.PAIRS, pattern=tuple(to_ranks([root_of[key]]) for key in ends))
    return _rename_spec(replace(spec, pre=owned, combining=False), {"allreduce": "broadcast"})


def _dual_of_groups(spec: Spec) -> Dual:
    """Return the dual of an allreduce in groups."""
    turn: Counter[frozenset[Rank]] = Counter()
    owners = []
    for group in spec.post.pattern:
        owners.append(to_ranks([sorted(group)[turn[group] % len(group)]]))
        turn[group] += 1
    owned = Relation(RelationKind.PAIRS, pattern=tuple(owners))
    spread = _rename_spec(replace(spec, unit=1, pre=owned, combining=False), _DUAL_NAMES)
    if spread.name == spec.name or len(set(map(len, spec.post.pattern))) > 1:
        spread = replace(spread, name=f"{spec.name}-dual")  # small groups own more chunks each
    return Dual(
        spec, spread, on_reversed=False, chunk_factor=spec.unit, phases=2, scope=_ALLREDUCE_SCOPE
    )


def _rename_spec(spec: Spec, new: Mapping[str, str]) -> Spec:
    """Rename a collective and its concurrent parts."""
    parts = tuple((_replace_name(name, new), count) for name, count in spec.parts)
    return replace(spec, name=_replace_name(spec.name, new), parts=parts)


def _replace_name(name: str, new: Mapping[str, str]) -> str:
    return _NAME.sub(lambda match: new.get(match[0], match[0]), name)


def _dual_name(name: str) -> str:
    """Return the name of the collective with pre and post exchanged."""
    changed = _replace_name(name, _DUAL_NAMES)
    return f"{name}-dual" if changed == name else changed


def _require_single(spec: Spec) -> None:
    """Check that each chunk has exactly one destination.

    Raises:
        CollectiveError: A chunk has not.
    """
    chunks = len(spec.post.pattern) or (spec.ranks if spec.post.kind is RelationKind.ALL else 0)
    for chunk in range(min(chunks, spec.pattern_chunks)):
        wanted = spec.post.ranks_of(chunk, spec.ranks)
        if len(wanted) != 1:
            raise CollectiveError(
                f"collective {spec.name!r} reduces and ends with chunk {chunk} on {len(wanted)} "
                "ranks: reductions are synthesized by their duals, which exist for one rank per "
                "chunk and for allreduce, also in groups; split it into such collectives"
            )
