"""The parts of workloads: roles, computation, collectives, dependencies, programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sccl.core.dtypes import ITEM_BYTES
from sccl.errors import ParameterError

ROOTED = ("broadcast", "gather", "reduce", "scatter")
COMBINING = ("allreduce", "reduce", "reducescatter")
IN_BLOCKS = ("allgather", "alltoall", "gather", "reducescatter", "scatter")
"""Those whose largest buffer has a block for each rank of the group."""
COLLECTIVES = tuple(sorted({*ROOTED, *COMBINING, *IN_BLOCKS}))

REDUCTIONS = ("avg", "bitwise", "max", "min", "prod", "sum")

MOST_NAME = 256
"""Characters of an id or of another name, which messages and tables repeat."""

MOST_RANKS = 2**20
MOST_ELEMENTS = 2**50
MOST_US = 1e12
MOST_LAG = 1000
"""Guards against slips of the finger: iterations that a dependency may span, among others."""


def check_name(name: str, what: str) -> None:
    """Raise a ParameterError unless a name can be shown, in a line."""
    if len(name) > MOST_NAME:
        raise ParameterError(
            f"{what} is {name[:30]!r}... and has {len(name)} characters, expected {MOST_NAME} at "
            "most"
        )
    if not name.strip() or not name.isprintable():
        raise ParameterError(f"{what} is {name!r:.60}, expected a name that can be printed")


def check_us(us: float, what: str) -> None:
    """Raise a ParameterError unless it is a time."""
    if not 0 <= us <= MOST_US:
        raise ParameterError(f"{what} is {us:g}, expected microseconds, 0 to {MOST_US:g}")


def _check_lag(lag: int, what: str) -> None:
    if not 0 <= lag <= MOST_LAG:
        raise ParameterError(f"{what}: lag is {lag}, expected 0 to {MOST_LAG} iterations")


def _check_among(what: str, field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(
            f"{what}: {field} is {value!r:.60}, expected one of {', '.join(allowed)}"
        )


def _shown(ranks: tuple[int, ...]) -> str:
    text = ", ".join(map(str, ranks[:8]))
    return f"({text}{', ...' if len(ranks) > 8 else ''})"


@dataclass(frozen=True, slots=True)
class Role:
    """A program, and the ranks that run it, in ascending order."""

    name: str
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a role")
        if not self.ranks or any(a >= b for a, b in zip(self.ranks, self.ranks[1:], strict=False)):
            raise ParameterError(
                f"role {self.name!r}: ranks are {_shown(self.ranks)}, expected one or more, in "
                "ascending order"
            )


@dataclass(frozen=True, slots=True)
class ComputeOp:
    """Computation of every rank of a role; earlier operations of its stream finish first."""

    id: str
    role: str
    stream: str
    duration_us: float

    def __post_init__(self) -> None:
        check_name(self.id, "the id of an operation")
        check_name(self.role, f"operation {self.id!r}: its role")
        check_name(self.stream, f"operation {self.id!r}: its stream")
        check_us(self.duration_us, f"operation {self.id!r}: duration_us")


@dataclass(frozen=True, slots=True)
class CommOp:
    """A collective among some ranks, or among those of several groups at once.

    Attributes:
        group: global ranks, in the order of the group.
        count: elements of the largest buffer of a rank in the group: the whole of an allreduce, a
            broadcast or a reduce. The received total of an allgather. The sent total of a
            reducescatter or an alltoall. The root's total of a gather or a scatter.
        dtype: one of :data:`~sccl.core.dtypes.ITEM_BYTES`.
        root: global rank, if it has one.
        reduce: one of :data:`REDUCTIONS`, if it combines.
        splits: for an uneven alltoall the elements that each rank of the group sends to each, a row
            a rank. Empty: equal amounts.
        holds_bytes: memory that its result takes until its last use is done.
        beside: further groups that run it at the same time, of as many ranks each, without common
            ranks. Their roots and splits are at the same places.
        merged: collectives that it replaces, in their order, which a plan sends as one. Empty: only
            itself.
    """

    id: str
    collective: str
    group: tuple[int, ...]
    count: int
    dtype: str
    root: int | None = None
    reduce: str | None = None
    splits: tuple[tuple[int, ...], ...] = ()
    holds_bytes: int = 0
    beside: tuple[tuple[int, ...], ...] = ()
    merged: tuple[CommOp, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.id, "the id of an operation")
        what = f"operation {self.id!r}"
        _check_among(what, "collective", self.collective, COLLECTIVES)
        _check_among(what, "dtype", self.dtype, tuple(ITEM_BYTES))
        if not self.group or len(set(self.group)) < len(self.group) or min(self.group) < 0:
            raise ParameterError(
                f"{what}: group is {_shown(self.group)}, expected different ranks from 0 on"
            )
        if self.beside:
            self._check_beside(what)
        for name in ("count", "holds_bytes"):
            if not 0 <= getattr(self, name) <= MOST_ELEMENTS:
                raise ParameterError(
                    f"{what}: {name} is {getattr(self, name)}, expected 0 to {MOST_ELEMENTS}"
                )
        self._check_root_and_reduce(what)
        self._check_merged(what)
        if self.splits:
            self._check_splits(what)
        elif self.collective in IN_BLOCKS and self.count % len(self.group):
            raise ParameterError(
                f"{what}: {self.count} elements are no whole block for each of "
                f"{len(self.group)} ranks: give a multiple, or the splits of an alltoall"
            )

    def _check_beside(self, what: str) -> None:
        seen = set(self.group)
        for group in self.beside:
            if len(group) != len(self.group) or len(set(group)) < len(group) or min(group) < 0:
                raise ParameterError(
                    f"{what}: a parallel group is {_shown(group)}, expected {len(self.group)} "
                    f"different ranks from 0 on, as many as its group {_shown(self.group)} has"
                )
            if twice := seen.intersection(group):
                raise ParameterError(
                    f"{what}: rank {min(twice)} is in two of the groups that it is of, expected "
                    "each rank in one"
                )
            seen.update(group)

    def _check_merged(self, what: str) -> None:
        for one in self.merged:
            if one.merged or one.likeness != self.likeness:
                raise ParameterError(
                    f"{what} stands for {one.id!r}, expected collectives of its own kind, groups, "
                    "type, root and reduction, none of which stands for others"
                )

    def _check_root_and_reduce(self, what: str) -> None:
        if self.collective not in ROOTED and self.root is not None:
            raise ParameterError(f"{what}: {self.collective} has no root: leave it out")
        if self.collective in ROOTED and self.root not in self.group:
            raise ParameterError(
                f"{what}: root is {self.root}, expected a rank of its group {_shown(self.group)}"
            )
        if self.collective in COMBINING:
            _check_among(what, "reduce", str(self.reduce), REDUCTIONS)
        elif self.reduce is not None:
            raise ParameterError(f"{what}: {self.collective} does not reduce: leave it out")

    def _check_splits(self, what: str) -> None:
        ranks = len(self.group)
        if self.collective != "alltoall":
            raise ParameterError(f"{what}: splits are of an alltoall, this is {self.collective}")
        if {len(self.splits), *map(len, self.splits)} != {ranks}:
            raise ParameterError(
                f"{what}: splits are {len(self.splits)} rows, expected {ranks} rows of {ranks}: "
                "elements from each rank of its group to each"
            )
        if min(map(min, self.splits)) < 0 or max(map(sum, self.splits)) != self.count:
            raise ParameterError(
                f"{what}: count is {self.count}, and by its splits a rank gives "
                f"{max(map(sum, self.splits))} at most: expected numbers from 0 on whose largest "
                "sum of a row is the count"
            )

    @property
    def likeness(self) -> tuple[object, ...]:
        """Return a key that is equal for collectives that can be merged."""
        return (self.collective, self.groups, self.dtype, self.root, self.reduce)

    @property
    def shape(self) -> tuple[object, ...]:
        """Return a key that is equal for collectives with the same options."""
        parts = tuple(one.shape for one in self.merged)
        return (*self.likeness, self.count, self.splits, parts)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return all groups that do it at the same time, its own first."""
        return (self.group, *self.beside)

    @property
    def members(self) -> frozenset[int]:
        """Return the ranks of all of its groups."""
        return frozenset(self.group).union(*self.beside)

    @property
    def size_bytes(self) -> int:
        """Return the bytes of its ``count`` elements."""
        return self.count * ITEM_BYTES[self.dtype]


AnyOp = ComputeOp | CommOp


@dataclass(frozen=True, slots=True)
class Dependency:
    """An operation that has to be done before another begins.

    Attributes:
        lag: iterations from that of ``before`` to that of ``after``.
    """

    before: str
    after: str
    lag: int = 0

    def __post_init__(self) -> None:
        for name in (self.before, self.after):
            check_name(name, "the id of an operation in a dependency")
        _check_lag(self.lag, f"the dependency of {self.after!r} on {self.before!r}")


class HostAction(StrEnum):
    """The action of a program on a collective."""

    SUBMIT = "submit"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class HostEvent:
    """A line of a program: a call of a collective, or a wait for it.

    Attributes:
        lag: for a wait, how many iterations ago the operation was submitted.
    """

    action: HostAction
    op: str
    lag: int = 0

    def __post_init__(self) -> None:
        check_name(self.op, f"the id of an operation in a {self.action}")
        _check_lag(self.lag, f"{self.action} of {self.op!r}")
        if self.lag and self.action is HostAction.SUBMIT:
            raise ParameterError(f"submit of {self.op!r}: lag is {self.lag}, expected none")


@dataclass(frozen=True, slots=True)
class HostProgram:
    """The submissions and waits of the ranks of a role, in order. Empty: unknown."""

    role: str
    events: tuple[HostEvent, ...]

    def __post_init__(self) -> None:
        check_name(self.role, "the role of a program")
