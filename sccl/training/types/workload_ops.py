"""The parts of workloads: roles, computation, collectives, dependencies, programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sccl.core.sizes import ITEM_BYTES
from sccl.errors import ParameterError

ROOTED = ("broadcast", "gather", "reduce", "scatter")
COMBINING = ("allreduce", "reduce", "reducescatter")
BLOCK_COLLECTIVES = ("allgather", "alltoall", "gather", "reducescatter", "scatter")
"""Collectives whose largest buffer has a block for each rank of the group."""
COLLECTIVES = tuple(sorted({*ROOTED, *COMBINING, *BLOCK_COLLECTIVES}))

REDUCTIONS = ("avg", "bitwise", "max", "min", "prod", "sum")

MAX_NAME_LENGTH = 256
"""Maximum number of characters of an id or name, which messages and tables repeat."""

MAX_JOB_RANKS = 2**20
MAX_ELEMENTS = 2**50
MAX_OP_US = 1e12
MAX_LAG = 1000
"""Maximum number of iterations that a dependency spans: a guard against typing errors, like the
limits above.
"""


def check_name(name: str, label: str) -> None:
    """Raise a ParameterError unless a name is printable on one line and not too long."""
    if len(name) > MAX_NAME_LENGTH:
        raise ParameterError(
            f"{label} is {name[:30]!r}... and has {len(name)} characters, expected "
            f"{MAX_NAME_LENGTH} at "
            "most"
        )
    if not name.strip() or not name.isprintable():
        raise ParameterError(f"{label} is {name!r:.60}, expected a name that can be printed")


def check_us(us: float, label: str) -> None:
    """Raise a ParameterError unless a time is in range."""
    if not 0 <= us <= MAX_OP_US:
        raise ParameterError(f"{label} is {us:g}, expected microseconds, 0 to {MAX_OP_US:g}")


def _check_lag(lag: int, label: str) -> None:
    if not 0 <= lag <= MAX_LAG:
        raise ParameterError(f"{label}: lag is {lag}, expected 0 to {MAX_LAG} iterations")


def _check_choice(label: str, field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ParameterError(
            f"{label}: {field} is {value!r:.60}, expected one of {', '.join(allowed)}"
        )


def _ranks_text(ranks: tuple[int, ...]) -> str:
    text = ", ".join(map(str, ranks[:8]))
    return f"({text}{', ...' if len(ranks) > 8 else ''})"


@dataclass(frozen=True, slots=True)
class Role:
    """The name of a program, and the ranks that run it, in ascending order."""

    name: str
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a role")
        if not self.ranks or any(a >= b for a, b in zip(self.ranks, self.ranks[1:], strict=False)):
            raise ParameterError(
                f"role {self.name!r}: ranks are {_ranks_text(self.ranks)}, expected one or more, "
                "in "
                "ascending order"
            )


@dataclass(frozen=True, slots=True)
class ComputeOp:
    """A computation of every rank of a role, after the earlier operations of its stream."""

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
    """A collective in a group of ranks, or in several groups concurrently.

    Attributes:
        group: Global ranks, in the order of the group.
        count: Elements of the largest buffer of a rank in the group: the buffer of an allreduce, a
            broadcast or a reduce, the total received in an allgather, the total sent in a
            reducescatter or an alltoall, or the root's total in a gather or a scatter.
        dtype: Element type, one of :data:`~sccl.core.sizes.ITEM_BYTES`.
        root: Global rank of the root, if there is one.
        reduce: Reduction operator, one of :data:`REDUCTIONS`, if it combines.
        splits: Elements that each rank sends to each rank in an uneven alltoall, shape (ranks,
            ranks). Empty: equal amounts.
        holds_bytes: Memory of its result until its last use has ended.
        beside: Further disjoint groups of the same size that run it concurrently. Their roots and
            splits are at the same positions.
        merged: Collectives that it replaces, in their order, which a plan sends as one. Empty: only
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
        label = f"operation {self.id!r}"
        _check_choice(label, "collective", self.collective, COLLECTIVES)
        _check_choice(label, "dtype", self.dtype, tuple(ITEM_BYTES))
        if not self.group or len(set(self.group)) < len(self.group) or min(self.group) < 0:
            raise ParameterError(
                f"{label}: group is {_ranks_text(self.group)}, expected different ranks from 0 on"
            )
        if self.beside:
            self._check_beside(label)
        for name in ("count", "holds_bytes"):
            if not 0 <= getattr(self, name) <= MAX_ELEMENTS:
                raise ParameterError(
                    f"{label}: {name} is {getattr(self, name)}, expected 0 to {MAX_ELEMENTS}"
                )
        self._check_root_and_reduce(label)
        self._check_merged(label)
        if self.splits:
            self._check_splits(label)
        elif self.collective in BLOCK_COLLECTIVES and self.count % len(self.group):
            raise ParameterError(
                f"{label}: {self.count} elements do not divide into equal blocks for "
                f"{len(self.group)} ranks: give a multiple of {len(self.group)}, or the splits of "
                "an alltoall"
            )

    def _check_beside(self, label: str) -> None:
        seen = set(self.group)
        for group in self.beside:
            if len(group) != len(self.group) or len(set(group)) < len(group) or min(group) < 0:
                raise ParameterError(
                    f"{label}: a parallel group is {_ranks_text(group)}, expected "
                    f"{len(self.group)} different ranks from 0 on, the size of the group "
                    f"{_ranks_text(self.group)}"
                )
            if twice := seen.intersection(group):
                raise ParameterError(
                    f"{label}: rank {min(twice)} is in two parallel groups, expected each rank in "
                    "one"
                )
            seen.update(group)

    def _check_merged(self, label: str) -> None:
        for op in self.merged:
            if op.merged or op.merge_key != self.merge_key:
                raise ParameterError(
                    f"{label} stands for {op.id!r}, expected collectives of its own kind, groups, "
                    "type, root and reduction, none of which stands for others"
                )

    def _check_root_and_reduce(self, label: str) -> None:
        if self.collective not in ROOTED and self.root is not None:
            raise ParameterError(f"{label}: {self.collective} has no root: leave it out")
        if self.collective in ROOTED and self.root not in self.group:
            raise ParameterError(
                f"{label}: root is {self.root}, expected a rank of its group "
                f"{_ranks_text(self.group)}"
            )
        if self.collective in COMBINING:
            _check_choice(label, "reduce", str(self.reduce), REDUCTIONS)
        elif self.reduce is not None:
            raise ParameterError(f"{label}: {self.collective} does not reduce: leave it out")

    def _check_splits(self, label: str) -> None:
        ranks = len(self.group)
        if self.collective != "alltoall":
            raise ParameterError(
                f"{label}: splits apply to an alltoall only, and this is {self.collective}: leave "
                "them out"
            )
        if {len(self.splits), *map(len, self.splits)} != {ranks}:
            raise ParameterError(
                f"{label}: splits are {len(self.splits)} rows, expected {ranks} rows of {ranks}: "
                "elements from each rank of its group to each"
            )
        if min(map(min, self.splits)) < 0 or max(map(sum, self.splits)) != self.count:
            raise ParameterError(
                f"{label}: count is {self.count}, and the largest row sum of its splits is "
                f"{max(map(sum, self.splits))}: expected equal numbers, and no split below 0"
            )

    @property
    def merge_key(self) -> tuple[object, ...]:
        """Return a key that is equal for collectives that can be merged."""
        return (self.collective, self.groups, self.dtype, self.root, self.reduce)

    @property
    def option_key(self) -> tuple[object, ...]:
        """Return a key that is equal for collectives with the same options."""
        parts = tuple(op.option_key for op in self.merged)
        return (*self.merge_key, self.count, self.splits, parts)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return all groups that run it concurrently, its own first."""
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
    """An operation that must end before another begins.

    Attributes:
        lag: Number of iterations from ``before`` to ``after``.
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
        lag: Number of iterations since the submission, for a wait.
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
