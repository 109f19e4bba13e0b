"""Convert names, files, and Python values to machines and collectives."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from os import PathLike

from sccl.api.arguments import check_arguments
from sccl.api.machine import Topology
from sccl.collectives import Spec, custom_spec, format_in_groups, resolve_collective
from sccl.core import topology as core
from sccl.core.files.json_text import parse
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.errors import MachineNote, ParameterError
from sccl.synth.common.problem import CollectiveProblem
from sccl.topo import resolve_topology

Machine = str | PathLike[str] | Topology
"""A name (``"dgx1"``, ``"torus:4x4"``), a JSON file, or a topology."""

CollectiveLike = str | PathLike[str] | Spec
"""The name of a collective, a JSON file, or the result of :func:`collective`."""

GroupsLike = str | PathLike[str] | Sequence[Sequence[int]]
"""The ranks of each group, ``"0-3,4-7"`` as on the command line, or a JSON file."""

Root = int | str
"""A rank: its number, or its label on the machine (``"GPU0"``)."""

Ranks = Mapping[int, int | Iterable[int]]
"""For every chunk, the rank or the ranks that hold it: ``{0: [0, 1], 1: 2}``."""


@check_arguments
def topology(name: Machine) -> Topology:
    """Return a machine by name, or from a file.

    Args:
        name: ``"dgx1"``, ``"torus:4x4"`` (``sccl topo list`` shows all), or the path of a .json.

    Raises:
        InputError: There is no such machine, or the file is not a topology.

    Examples:
        >>> import sccl
        >>> sccl.topology("dgx1")
        Topology(dgx1: 8 ranks, 32 links)
    """
    return Topology(core_topology(name))


def core_topology(machine: Machine) -> core.Topology:
    """Return a machine as a value of :mod:`sccl.core.topology`.

    Raises:
        InputError: There is no such machine, or the file is not a topology.
    """
    return machine.value if isinstance(machine, Topology) else resolve_topology(str(machine))


def core_collective(collective: CollectiveLike) -> str | Spec:
    """Return a collective by its name, its file, or its value."""
    return collective if isinstance(collective, Spec) else str(collective)


def note_changes(problem: CollectiveProblem) -> CollectiveProblem:
    """Return the problem of a public function, and warn about the changes to its machine."""
    for note in problem.notes:
        text = f"{problem.topology.name}: {note}"
        warnings.warn(text, MachineNote, stacklevel=4)  # the call of the public function
    return problem


@check_arguments
def collective(  # noqa: PLR0913 - a name, or the parts of a custom collective
    name: str | PathLike[str],
    ranks: int,
    root: int | None = None,
    *,
    groups: GroupsLike | None = None,
    pre: Ranks | None = None,
    post: Ranks | None = None,
    combining: bool = False,
    counts: Sequence[int] = (),
    allgatherv: Sequence[int] = (),
    alltoallv: Sequence[Sequence[int]] = (),
    gatherv: Sequence[int] = (),
    reducescatterv: Sequence[int] = (),
    scatterv: Sequence[int] = (),
) -> Spec:
    """Return a collective by name, from a file, or from Python values.

    All functions with a ``collective`` argument accept it, for any number of chunks.

    Args:
        name: ``"allgather"``, ``"allreduce"``, ..., or the path of a .json. With ``pre`` and
            ``post``, the name of your custom collective.
        ranks: Number of ranks of the machine.
        root: Root of broadcast, reduce, gather, scatter, gatherv, and scatterv. None: rank 0.
        groups: Process groups. Each group runs the named collective, at the same time.
        pre: Rank or ranks that hold each chunk at the beginning. Chunks count from 0.
        post: Rank or ranks that must hold it at the end.
        combining: Whether the ranks of ``pre`` contribute, and ``post`` receives the reduction.
        counts: Elements of each chunk, if they differ. A size then refers to one element.
        allgatherv: Instead of ``pre`` and ``post``: elements of each rank.
        alltoallv: Instead of ``pre`` and ``post``: one row per rank with its elements for rank 0,
            1, ...
        gatherv: Instead of ``pre`` and ``post``: elements of each rank, which the root receives.
        reducescatterv: Instead of ``pre`` and ``post``: elements of the reduction that each rank
            receives.
        scatterv: Instead of ``pre`` and ``post``: elements that the root sends to each rank.

    Raises:
        InputError: The name is unknown, the definition does not fit this number of ranks, or
            its parts contradict each other.

    Examples:
        >>> import sccl
        >>> sccl.collective("broadcast", 8, root=3).root
        3
        >>> pairs = sccl.collective("allgather", 4, groups=[[0, 2], [1, 3]])
        >>> sccl.bounds(pairs, "ring:4").steps
        2
        >>> everyone = range(4)
        >>> uneven = sccl.collective(
        ...     "uneven-gather", 4, pre={0: 0, 1: 0, 2: 1}, post=dict.fromkeys(range(3), everyone)
        ... )
        >>> sccl.bounds(uneven, "ring:4").bandwidth
        Fraction(3, 2)
        >>> sccl.collective("dispatch", 3, alltoallv=[[0, 2, 1], [4, 0, 0], [1, 1, 0]]).counts
        (2, 1, 4, 1, 1)
    """
    vectors = {"allgatherv": allgatherv, "gatherv": gatherv, "reducescatterv": reducescatterv}
    vectors |= {"scatterv": scatterv, "counts": counts}
    rows: dict[str, object] = {label: _counts_row(label, row) for label, row in vectors.items()}
    rows["alltoallv"] = [_counts_row("alltoallv", row) for row in alltoallv]
    fields = {label: row for label, row in rows.items() if row}
    if groups is not None:
        if fields or pre is not None or post is not None or combining:
            raise ParameterError(
                f"groups and a custom collective are both given for {name}: leave one out"
            )
        return resolve_collective(format_in_groups(str(name), _groups_text(groups)), ranks, root)
    if pre is None and post is None and not combining and not fields:
        return resolve_collective(str(name), ranks, root)
    is_counted = bool(fields) and (root is None or bool(gatherv or scatterv))
    fields |= {"name": str(name), "ranks": ranks}
    if pre is None and post is None and is_counted:
        return _custom_spec(fields | {"root": root or 0})
    return _custom_collective(fields, root, pre, post, combining=combining)


def _custom_collective(
    fields: dict[str, object],
    root: int | None,
    pre: Ranks | None,
    post: Ranks | None,
    *,
    combining: bool,
) -> Spec:
    """Return a custom collective.

    Args:
        fields: Its name, ranks, and counts.

    Raises:
        InputError: It contradicts itself.
    """
    name = fields["name"]
    if pre is None and post is None and combining and len(fields) == 2:
        raise ParameterError(
            f"combining is given for {name}, but it applies to custom collectives only: give "
            "pre and post, too, or leave it out"
        )
    if pre is None or post is None or root is not None:
        raise ParameterError(
            f"the collective {name} has "
            f"{'a root' if root is not None else 'only one of the two'}: a custom collective has "
            "pre and post, and no root"
        )
    pairs = {"pre": _chunk_rank_pairs("pre", pre), "post": _chunk_rank_pairs("post", post)}
    return _custom_spec(fields | pairs | {"combining": combining})


def _custom_spec(fields: dict[str, object]) -> Spec:
    where = "sccl.collective"
    return custom_spec(parse(json.dumps(fields), CustomCollectiveWire, where), where)


def _groups_text(groups: GroupsLike) -> str:
    """Return process groups in the notation of the command line."""
    if isinstance(groups, str | PathLike):
        return str(groups)
    rank_lists = [_counts_row("groups", group) for group in groups]
    return "/".join(",".join(map(str, group)) for group in rank_lists)


def _counts_row(label: str, row: Sequence[int]) -> list[int]:
    for count in row:
        if not isinstance(count, Integral) or isinstance(count, bool):
            raise ParameterError(f"{label} is given {count!r:.60}, expected whole numbers")
    return [int(count) for count in row]


def _chunk_rank_pairs(label: str, ranks: Ranks) -> list[tuple[int, int]]:
    """Return sorted (chunk, rank) pairs, for JSON."""
    pairs = []
    for chunk, chunk_ranks in ranks.items():
        several = (
            chunk_ranks
            if isinstance(chunk_ranks, Iterable) and not isinstance(chunk_ranks, str)
            else [chunk_ranks]
        )
        pairs += [(chunk, rank) for rank in several]
    for pair in pairs:
        if not all(isinstance(n, Integral) and not isinstance(n, bool) for n in pair):
            raise ParameterError(
                f"{label} is given {pair!r:.60}, expected whole numbers: a chunk, and its ranks, "
                "such as {0: [0, 1]}"
            )
    return sorted((int(chunk), int(rank)) for chunk, rank in pairs)
