"""Parse the names of collectives: single ones, in process groups, or concurrent ones.

``alltoall@0-3/4-7`` is an alltoall in each of two groups of ranks. ``alltoall@16x8`` has 16 groups
of 8 consecutive ranks, and ``alltoall@16x8.strided`` 16 groups of 8 ranks that are 16 apart.
``broadcast@0-3:2/4-7:5`` has roots 2 and 5. The default root is the first rank of a group. A ``+``
joins concurrent collectives: ``allgather@0-7+alltoall@8-15``. Each part is a name, or the file of a
custom collective, which has no groups. Either all parts reduce or none does. An allreduce runs
together with allreduces only, because other reductions have one destination.

C has the same meaning for each group as for a single collective, so a size is that of a rank's
buffer in each group. If C must be divisible by several group sizes, it is a multiple of all of
them. One group of all ranks is the collective itself. ``64*allgather@0-7+alltoall@8-15`` makes the
chunks of the first part 64 times as large. A size then refers to a chunk of the other part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import lcm
from pathlib import Path

from sccl.collectives.names import ROOTED, Spec, collective_names, custom_spec, named_spec
from sccl.core.collective import Relation, RelationKind
from sccl.core.files.collectives import load_custom_collective, load_groups
from sccl.core.files.shapes import GroupsWire
from sccl.core.ids import Rank
from sccl.core.topology import to_ranks
from sccl.errors import CollectiveError, FormatError, ParameterError, unknown_name

MAX_PATTERN_CHUNKS = 2**20
"""Maximum number of chunks of all parts together."""

_TIMES = re.compile(r"(\d{1,12})\*(.*)", re.DOTALL)
_GRID = re.compile(r"(\d{1,6})x(\d{1,6})(\.strided)?")
_SPAN = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")
_ROOT = re.compile(r"(.*?)(?::(\d{1,6}))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _ChunkPattern:
    """Sources, destinations, and counts of the chunks of a group.

    Attributes:
        unit: C is a multiple of this number.
    """

    unit: int
    pre: tuple[frozenset[Rank], ...]
    post: tuple[frozenset[Rank], ...]
    combining: bool
    counts: tuple[int, ...]

    def repeat(self, n: int) -> _ChunkPattern:
        """Return the pattern repeated n times, for n times the unit."""
        return replace(self, unit=self.unit * n, pre=self.pre * n, post=self.post * n)


@dataclass(frozen=True, slots=True)
class _Group:
    """The ranks of a group. The first one is the default root."""

    ranks: list[int]
    root: int | None = None

    def spec_for(self, name: str) -> Spec:
        """Return the collective on the group's number of ranks, numbered from 0."""
        return named_spec(
            name, len(self.ranks), None if self.root is None else self.ranks.index(self.root)
        )


def resolve_collective(text: str, ranks: int, root: int | None = None) -> Spec:
    """Return a collective by name, from a file (``.json``), in groups, or several concurrent ones.

    Raises:
        InputError: The name or file does not exist, groups do not match the ranks, parts are
            incompatible, or a file is for another number of ranks.
    """
    if text.endswith(".json") and (not {"+", "*"} & set(text) or Path(text).exists()):
        if root is not None:
            raise ParameterError("root is given, but a custom collective has none: leave it out")
        groups = load_groups(Path(text))
        return (
            _resolve_file(text, ranks)
            if groups is None
            else _resolve_single(_groups_file_text(groups, None, text), ranks, None)
        )
    return _resolve_single(text, ranks, root)


def format_in_groups(collective: str | None, groups: str) -> str:
    """Return the name of a collective in groups for :func:`resolve_collective`.

    Args:
        collective: Its name. None: the file of groups contains a name for each group.
        groups: ``0-3,4-7`` or ``0-3/4-7``, ``0,2,4/1,3,5``, ``2x4``, ``2x4.strided``, or a
            ``.json`` file.

    Raises:
        InputError: The file cannot be read, its groups overlap, or a collective is missing.
    """
    if groups.endswith(".json"):
        wire = load_groups(Path(groups))
        if wire is None:
            raise FormatError(f"{groups}: it is no file of groups: see 'sccl doctor schema groups'")
        return _groups_file_text(wire, collective, groups)
    if collective is None or collective not in collective_names():
        hint = f"groups run one of the named collectives: {', '.join(collective_names())}"
        raise unknown_name("collective", collective or "", collective_names(), hint)
    spans = groups.split(",")
    if "/" not in groups and any("-" in span for span in spans):
        groups = "/".join(spans)
    return f"{collective}@{groups}"


def _groups_file_text(wire: GroupsWire, collective: str | None, where: str) -> str:
    seen, parts = dict[int, int](), list[tuple[str, list[str]]]()
    for number, group in enumerate(wire.groups):
        name = group.collective or collective
        if name is None:
            raise FormatError(
                f"{where}, $.groups[{number}]: the group has no collective, and --collective is "
                "not set: add one of the two"
            )
        if name not in collective_names():
            hint = f"groups run one of the named collectives: {', '.join(collective_names())}"
            raise unknown_name("collective", name, collective_names(), hint)
        for rank in group.ranks:
            if rank in seen:
                raise FormatError(
                    f"{where}, $.groups[{number}]: rank {rank} is in $.groups[{seen[rank]}], too; "
                    "a rank is in one group, once"
                )
            seen[rank] = number
        text = _ranks_text(group.ranks) + ("" if group.root is None else f":{group.root}")
        if parts and parts[-1][0] == name:
            parts[-1][1].append(text)
        else:
            parts.append((name, [text]))
    return "+".join(f"{name}@{'/'.join(groups)}" for name, groups in parts)


def remove_rank(text: str, ranks: int, lost: int) -> str:
    """Return the collective without a lost rank. The ranks above it are renumbered.

    Args:
        text: Name of a collective in groups, or of several concurrent ones.

    Raises:
        ParameterError: The rank is a root, or no group keeps two ranks.
    """
    parts = []
    for part in text.split("+"):
        name, at, where = part.partition("@")
        left = []
        for group in _parse_groups(where, ranks, text) if at else ():
            root = group.ranks[0] if group.root is None else group.root
            if root == lost and name.rpartition("*")[2] in ROOTED:
                raise ParameterError("it is the root of its group")
            fewer = [rank - (rank > lost) for rank in group.ranks if rank != lost]
            root_suffix = "" if group.root is None else f":{group.root - (group.root > lost)}"
            left += [_ranks_text(fewer) + root_suffix] if len(fewer) > 1 else []
        if left or not at:
            parts.append(f"{name}{at}{'/'.join(left)}")
    if not parts:
        raise ParameterError("nothing is left to do: no group has two ranks without it")
    return "+".join(parts)


def group_specs(spec: Spec) -> Iterator[tuple[Spec, tuple[int, ...]]]:
    """Yield the collective of each group on ranks numbered from 0, and the group's ranks.

    Groups are in the order of their chunks in the pattern.

    Args:
        spec: Collective in groups, or concurrent collectives.

    Raises:
        CollectiveError: A part is from a file, has another chunk size, or has a group whose ranks
            do not ascend.
    """
    for text, _ in spec.parts:
        name, at, where = text.partition("@")
        if spec.counts or name not in collective_names():
            raise CollectiveError(f"{text} is not one of sccl's own collectives in groups alone")
        default_groups = [_Group(list(range(spec.ranks)))]
        for group in _parse_groups(where, spec.ranks, text) if at else default_groups:
            if group.ranks != sorted(group.ranks):
                raise CollectiveError(f"{text}: give the ranks of each group in ascending order")
            yield group.spec_for(name), tuple(group.ranks)


def _ranks_text(ranks: Sequence[int]) -> str:
    """Format the ranks of a group: ``0-3,7``."""
    runs = list[list[int]]()
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _resolve_single(text: str, ranks: int, root: int | None) -> Spec:
    if not {"@", "+", "*"} & set(text):
        return named_spec(text, ranks, root)
    if root is not None:
        raise ParameterError(
            f"root is {root}, but {text} has one root per group (default: the first rank of the "
            "group): give each group its own, as in broadcast@0-3:2/4-7:5"
        )
    name, _, where = text.partition("@")
    if name in collective_names() and "+" not in where:
        first, *others = _parse_groups(where, ranks, text)
        if not others and first.ranks == list(range(ranks)):
            return first.spec_for(name)
    return _resolve_concurrent(text, ranks)


def _resolve_file(text: str, ranks: int) -> Spec:
    wire = load_custom_collective(Path(text))
    if wire.ranks != ranks:
        raise FormatError(
            f"{text}, $.ranks: the collective is for {wire.ranks} ranks, the topology has {ranks}"
        )
    return custom_spec(wire, text)


def _resolve_concurrent(text: str, ranks: int) -> Spec:
    named_parts = [(name, _resolve_parts(name, ranks)) for name in text.split("+")]
    all_parts = [part for _, parts in named_parts for part in parts]
    if len({part.combining for part in all_parts}) > 1:
        raise CollectiveError(
            f"collective {text!r}: some of its parts reduce, and others do not; plan these "
            "separately"
        )
    counts = tuple(count for part in all_parts for count in part.counts)
    if set(counts) == {1}:
        counts, all_parts = (), _align_patterns(all_parts, text)
    pre = tuple(held for part in all_parts for held in part.pre)
    post = tuple(wanted for part in all_parts for wanted in part.post)
    combining = all_parts[0].combining
    if combining and len({len(wanted) > 1 for wanted in post}) > 1:
        raise CollectiveError(
            f"collective {text!r}: it combines an allreduce with reductions for one rank each, "
            "which sccl synthesizes separately: give the allreduces in one collective, and the "
            "others in another"
        )
    left = iter(all_parts)
    spec = Spec(
        text,
        ranks,
        unit=1 if counts else all_parts[0].unit,
        pattern_chunks=len(pre),
        pre=Relation(RelationKind.PAIRS, pattern=pre),
        post=Relation(RelationKind.PAIRS, pattern=post),
        combining=combining,
        counts=counts,
        parts=tuple(
            (name, sum(len(part.pre) for part in islice(left, len(parts))))
            for name, parts in named_parts
        ),
    )
    spec.at(spec.unit)
    return spec


def _align_patterns(parts: list[_ChunkPattern], text: str) -> list[_ChunkPattern]:
    """Return the parts at their least common C.

    Raises:
        CollectiveError: There are too many chunks.
    """
    unit = lcm(*(part.unit for part in parts))
    chunks = sum(unit // part.unit * len(part.pre) for part in parts)
    if chunks > MAX_PATTERN_CHUNKS:
        raise CollectiveError(
            f"collective {text!r}: C is a multiple of {unit}, of the sizes of all groups, and then "
            f"there are {chunks} chunks in all; several together may have {MAX_PATTERN_CHUNKS}: "
            "give "
            "fewer ranks, or groups of one size"
        )
    return [part.repeat(unit // part.unit) for part in parts]


def _resolve_parts(text: str, ranks: int) -> list[_ChunkPattern]:
    if times := _TIMES.fullmatch(text):
        if not int(times[1]):
            raise ParameterError(
                f"collective {text!r}: chunks 0 times as large are none; leave that part out"
            )
        return [
            replace(part, counts=tuple(int(times[1]) * count for count in part.counts))
            for part in _resolve_parts(times[2], ranks)
        ]
    name, at, where = text.partition("@")
    if not at and name.endswith(".json"):
        return [_place_on_group(_resolve_file(name, ranks), _Group(list(range(ranks))))]
    if name not in collective_names():
        hint = (
            f"the collectives are {', '.join(collective_names())}, or a .json file of your own "
            f"without '@'"
        )
        raise unknown_name("collective", name, collective_names(), hint)
    groups = _parse_groups(where, ranks, text) if at else [_Group(list(range(ranks)))]
    return [_place_on_group(group.spec_for(name), group) for group in groups]


def _place_on_group(spec: Spec, group: _Group) -> _ChunkPattern:
    """Map the chunks of a collective to the ranks of a group."""
    if spec.pattern_chunks > MAX_PATTERN_CHUNKS:
        raise CollectiveError(
            f"collective {spec.name!r} of {spec.ranks} ranks has {spec.pattern_chunks} chunks; "
            f"several together may have {MAX_PATTERN_CHUNKS} each: give smaller groups"
        )
    chunks = range(spec.pattern_chunks)
    pre, post = (
        tuple(to_ranks(group.ranks[r] for r in relation.ranks_of(c, spec.ranks)) for c in chunks)
        for relation in (spec.pre, spec.post)
    )
    return _ChunkPattern(spec.unit, pre, post, spec.combining, spec.counts or (1,) * len(pre))


def _parse_groups(where: str, ranks: int, text: str) -> list[_Group]:
    """Parse the ranks of each group.

    Raises:
        ParameterError: The text is no description of groups of the machine's ranks.
    """
    if grid := _GRID.fullmatch(where):
        return [_Group(group) for group in _parse_grid(grid, ranks, text)]
    groups = [_parse_group(group, ranks, text) for group in where.split("/")]
    seen = Counter(rank for group in groups for rank in group.ranks)
    if twice := sorted(rank for rank, times in seen.items() if times > 1):
        raise ParameterError(
            f"collective {text!r}: rank {twice[0]} stands twice; a rank is in one group, so join "
            "a concurrent collective with '+'"
        )
    return groups


def _parse_grid(grid: re.Match[str], ranks: int, text: str) -> list[list[int]]:
    count, size = int(grid[1]), int(grid[2])
    if count * size != ranks or size < 2 or count < 1:
        raise ParameterError(
            f"collective {text!r}: {count} groups of {size} ranks, and the machine has {ranks} "
            "ranks: give numbers that make them up, of 2 ranks or more"
        )
    if grid[3]:
        return [list(range(first, ranks, count)) for first in range(count)]
    return [list(range(first, first + size)) for first in range(0, ranks, size)]


def _parse_group(group: str, ranks: int, text: str) -> _Group:
    hit = _ROOT.fullmatch(group)
    assert hit is not None
    members = _parse_ranks(hit[1], ranks, text)
    if hit[2] is None:
        return _Group(members)
    name, root = text.partition("@")[0].rpartition("*")[2], int(hit[2])
    if root not in members:
        raise ParameterError(
            f"collective {text!r}: root {root} is not in its group {hit[1]}: give one of its ranks"
        )
    if name not in ROOTED:
        raise ParameterError(
            f"collective {text!r}: group {group!r} has a root, but {name} has none: leave "
            f"':{root}' out (collectives with a root: {', '.join(ROOTED)})"
        )
    return _Group(members, root)


def _parse_ranks(group: str, ranks: int, text: str) -> list[int]:
    members: list[int] = []
    for span in group.split(","):
        hit = _SPAN.fullmatch(span)
        if hit is None:
            raise ParameterError(
                f"collective {text!r}: {span!r} names no ranks, expected groups as 0-3/4-7, "
                "0,2,4/1,3,5, 2x4 or 2x4.strided"
            )
        first, last = int(hit[1]), int(hit[2] or hit[1])
        if not first <= last < ranks:
            raise ParameterError(
                f"collective {text!r}: ranks {span}, expected ascending ones from 0 to {ranks - 1}"
            )
        members += range(first, last + 1)
    if len(members) < 2:
        raise ParameterError(
            f"collective {text!r}: group {group!r} has one rank, expected more; where groups are "
            "lists, a slash parts them: 0,2,4/1,3,5"
        )
    return members
