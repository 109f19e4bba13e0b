"""The shape of a certificate: a list of claims, each with its proof or the files with it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.files.shapes import CollectiveWire, TopologyWire

CLAIMS = "claims.json"
"""Name of the file in a certificate's folder that lists its claims."""

UNSAT_SOLVERS = ("cadical", "cpsat", "z3")
"""Solvers whose agreement may support a claim that no algorithm exists."""

ClaimFraction = Annotated[str, Meta(pattern=r"^[0-9]{1,4000}(/[1-9][0-9]{0,3999})?$")]
FileName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.-]{0,200}$")]
_Count = Annotated[int, Meta(ge=1, le=2**22)]
_Bytes = Annotated[int, Meta(ge=1, le=2**60)]
_Halves = Literal["equal", "any"]
_Steps = Annotated[int, Meta(ge=1, le=512)]  # a limit of more is not computed
_Label = Annotated[int, Meta(ge=0, le=513)]


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class StepsWire(_Wire, frozen=True, kw_only=True, tag="steps", tag_field="claim"):
    """No algorithm has fewer steps: some chunk has so far to go."""

    at_least: _Count


class BandwidthWire(_Wire, frozen=True, kw_only=True, tag="bandwidth", tag_field="claim"):
    """No algorithm has a smaller R/C: prices of constraints, and cuts (none: shortest paths)."""

    at_least: ClaimFraction
    machine: int
    prices: tuple[tuple[str, ClaimFraction], ...]
    cuts: tuple[tuple[tuple[int, ...], ClaimFraction], ...]


class LimitClaimWire(
    _Wire, frozen=True, kw_only=True, tag="limit", tag_field="claim", omit_defaults=True
):
    """No algorithm of so many steps has a smaller R/C: prices of constraints in steps.

    With ``trees``: no allreduce in which each chunk goes up timed trees to a rank, or two that
    exchange, and down from there. With ``cuts``, (a label of each rank, weight): by cuts through
    time, and prices of shared budgets.
    """

    steps: _Steps
    at_least: ClaimFraction
    machine: int
    prices: tuple[tuple[str, int, ClaimFraction], ...]
    trees: bool = False
    cuts: tuple[tuple[tuple[_Label, ...], ClaimFraction], ...] = ()


class AllreduceBoundWire(
    _Wire, frozen=True, kw_only=True, tag="every", tag_field="claim", omit_defaults=True
):
    """A lower bound on R/C for every allreduce, in up to a number of steps (null: in any).

    With ``groups``: 2 sends less than two for each go between them, and links between them cost 1
    or more at ``prices`` (in step 0). A single group: data have to enter it. With ``cuts``: for
    each chunk a send crosses them. Otherwise ``root``: an allreduce contains a broadcast from there
    (on the reversed machine: a reduce to it), whose timed trees cost at least the bound at
    ``prices``.

    The same holds for the chunks of each group of an allreduce in process groups: ``groups`` are
    sets of ranks, with two sends for each set but one that contains ranks of the process group, and
    ``roots`` has one rank of each process group.
    """

    steps: _Steps | None
    at_least: ClaimFraction
    prices: tuple[tuple[str, int, ClaimFraction], ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    cuts: tuple[tuple[tuple[_Label, ...], ClaimFraction], ...] = ()
    root: int | None = None
    on_reversed: bool = False
    roots: tuple[int, ...] = ()


class AlgorithmClaimWire(_Wire, frozen=True, kw_only=True, tag="algorithm", tag_field="claim"):
    """There is an algorithm."""

    chunks: _Count
    steps: _Count
    rounds: _Count
    file: FileName


class VectorWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Why there is none with these rounds per step: prices, or a formula and its refutation."""

    rounds: tuple[int, ...]
    prices: tuple[tuple[str, int, ClaimFraction], ...] = ()
    cnf: FileName | None = None
    drat: FileName | None = None


class UnsatWire(
    _Wire, frozen=True, kw_only=True, tag="unsat", tag_field="claim", omit_defaults=True
):
    """There is no algorithm: a reason for every round vector, or solvers that say so."""

    chunks: _Count
    steps: _Count
    rounds: _Count
    machine: int
    vectors: tuple[VectorWire, ...] = ()
    searched: tuple[str, ...] = ()


class ParetoWire(
    _Wire, frozen=True, kw_only=True, tag="pareto", tag_field="claim", omit_defaults=True
):
    """No algorithm with R <= S + k and C up to a number dominates this one.

    It follows from the claims before. For an allreduce, the algorithms are a reducescatter and then
    an allgather, each with R <= S + k, of equal steps and rounds or of any.
    """

    chunks: _Count
    steps: _Count
    rounds: _Count
    k: Annotated[int, Meta(ge=0)]
    max_chunks: int | None
    halves: _Halves = "equal"


class LimitPointWire(
    _Wire, frozen=True, kw_only=True, tag="limit-point", tag_field="claim", omit_defaults=True
):
    """No algorithm of any k and any C dominates this one; follows from the claims before.

    With ``trees``: none of that class. With ``every``: no allreduce of any class. For an allreduce
    with neither: no reducescatter followed by an allgather, of equal steps and rounds or of any.
    """

    chunks: _Count
    steps: _Count
    rounds: _Count
    trees: bool = False
    halves: _Halves = "equal"
    every: bool = False


class TimeWire(_Wire, frozen=True, kw_only=True):
    """No plan of any chunks takes less, from some size of a rank's buffer on, microseconds.

    For L bytes, ``from_bytes`` or more: ``at_least_us + us_per_byte * (L - from_bytes)``. Alphas
    travel. They may occupy their links, too, where no cut-through switch leads to a link with an
    alpha and the links of each budget have the same alpha.
    """

    from_bytes: ClaimFraction
    at_least_us: ClaimFraction
    us_per_byte: ClaimFraction


class TimeCutWire(TimeWire, frozen=True, kw_only=True, tag="time-cut", tag_field="claim"):
    """Lower bound on time by the data of ``sources`` in ``left`` that ``goals`` outside want."""

    left: tuple[int, ...]
    sources: tuple[int, ...]
    goals: tuple[int, ...]


class TimeGroupsWire(TimeWire, frozen=True, kw_only=True, tag="time-groups", tag_field="claim"):
    """Lower bound on the time of an allreduce by the data sent between groups of nodes.

    In process groups the groups of nodes with ranks that reduce a byte count for it.
    """

    groups: tuple[tuple[int, ...], ...]


class TimeBandwidthWire(
    TimeWire, frozen=True, kw_only=True, tag="time-bandwidth", tag_field="claim"
):
    """So long take bytes, by a claim on R/C before, and an alpha in which they help nobody."""


class TimePricesWire(TimeWire, frozen=True, kw_only=True, tag="time-prices", tag_field="claim"):
    """In less time all constraints can sell less than the cheapest timed trees cost.

    Time is cut at ``borders``, microseconds, the first 0, and the last the time. A price is that of
    a microsecond of a constraint in a slot, from 0. ``middle``: the slot that is longer in more
    time. Null: nothing is said of more bytes. ``goals``: the ranks that trees serve, of those that
    want a chunk. Null: all of them.
    """

    machine: int
    borders: Annotated[tuple[ClaimFraction, ...], Meta(min_length=2, max_length=513)]
    middle: int | None
    prices: tuple[tuple[str, int, ClaimFraction], ...]
    goals: tuple[int, ...] | None = None


class TimeLateWire(TimeWire, frozen=True, kw_only=True, tag="time-late", tag_field="claim"):
    """Lower bound on time by data of ``sources`` that arrive late at ranks ``inside``.

    A byte that arrives later than two alphas before the end cannot be forwarded twice. ``apart``:
    minimum latency in microseconds between its holders and the ranks that want it.
    """

    machine: int
    inside: tuple[int, ...]
    sources: tuple[int, ...]
    apart: ClaimFraction


class ScheduleClaimWire(_Wire, frozen=True, kw_only=True, tag="schedule", tag_field="claim"):
    """There is a schedule: for so many bytes of a rank's buffer, and when all has arrived."""

    size_bytes: _Bytes
    finish_us: ClaimFraction
    file: FileName


class TimePointWire(_Wire, frozen=True, kw_only=True, tag="time-point", tag_field="claim"):
    """No plan of any chunks takes less than a time, and that schedule takes no more than another.

    It follows from the claims before.
    """

    size_bytes: _Bytes
    finish_us: ClaimFraction
    at_least_us: ClaimFraction


StepClaim = (
    StepsWire
    | BandwidthWire
    | LimitClaimWire
    | AllreduceBoundWire
    | AlgorithmClaimWire
    | UnsatWire
    | ParetoWire
    | LimitPointWire
)
TimeClaim = TimeCutWire | TimeGroupsWire | TimeBandwidthWire | TimePricesWire | TimeLateWire

Claim = StepClaim | TimeClaim | ScheduleClaimWire | TimePointWire


class CertificateWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """All claims about one collective on one topology."""

    schema: Literal[1] = 1
    kind: Literal["certificate"] = "certificate"
    topology: TopologyWire
    collective: Annotated[CollectiveWire, "The collective, with its smallest C."]
    claims: Annotated[tuple[Claim, ...], Meta(min_length=1)]
    symmetries: Annotated[
        tuple[tuple[int, ...], ...],
        Meta(max_length=64),
        "For large machines: translations, as the image of each rank, that extend a proof for rank "
        "0 to all ranks. They are checked.",
    ] = ()
