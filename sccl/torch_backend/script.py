"""Define scripts, the form of a plan that ranks execute: operations, and transfers of motifs.

A script is derived from a plan. A rank executes it without search or machine models. From the
transfers, it computes its sends and receives in each step, with their dependencies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sccl.core.files.disk import read_text
from sccl.core.sizes import ITEM_BYTES
from sccl.errors import FormatError
from sccl.training.types.workload_ops import BLOCK_COLLECTIVES, COLLECTIVES

RECORD = "SCCL_RECORD"
"""Environment variable: folder for the recordings of ranks."""

SCRIPT = "SCCL_SCRIPT"
"""Environment variable: file with the script of a plan for the job."""

CLAIMED_SUFFIX = ".taken"
"""Suffix of a file next to the script, which a job creates when it reads the script."""

_Number = Annotated[int, Meta(ge=0)]
Transfer = tuple[_Number, _Number, _Number, _Number, _Number, bool]


class _ScriptPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScriptMotif(_ScriptPart, frozen=True, kw_only=True):
    """A motif, in the form for ranks.

    Attributes:
        channel: Index of its channel.
        stream: Stream of that channel.
        after: Motifs of the same operation that end before it begins.
        native: Whether gloo's collective does it, on ``part`` of each block. Otherwise transfers
            do.
        part: First and last element (exclusive) of each block, or of the whole without blocks.
        timed: Its row in a table of costs: collective, option, ranks, and bytes. None: none.
        transfers: Step, first element, last element (exclusive), source, target (global ranks), and
            whether the target reduces it, ascending by step. Elements are those of the operation's
            row, the layout of all ranks' data.
    """

    channel: _Number
    stream: _Number
    after: tuple[_Number, ...] = ()
    native: bool = False
    part: tuple[_Number, _Number] = (0, 0)
    timed: tuple[str, str, _Number, _Number] | None = None
    transfers: tuple[Transfer, ...] = ()


class ScriptOp(_ScriptPart, frozen=True, kw_only=True):
    """A collective, like :class:`~sccl.training.types.workload_ops.CommOp`, with its motifs.

    Attributes:
        groups: Groups that run it at the same time, each rank in at most one.
        count: Elements. For an alltoall with splits: those with blocks of equal size.
        roots: Global rank of the root of each group. Empty: none.
        merged: Count of each merged call, in the order of their rows. Empty: it is one call.
        as_made: Whether calls keep their order, over the lane of the first motif.
        keeps_blocks: Whether an alltoall keeps whole blocks unless all of them have the planned
            size, because relaying ranks know only that size.
    """

    id: str
    collective: str
    groups: tuple[tuple[_Number, ...], ...]
    count: _Number
    dtype: str
    motifs: Annotated[tuple[ScriptMotif, ...], Meta(min_length=1)]
    roots: tuple[_Number, ...] = ()
    reduce: str = ""
    merged: tuple[_Number, ...] = ()
    as_made: bool = False
    keeps_blocks: bool = False

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the count of each call."""
        return self.merged or (self.count,)


class PlanScript(_ScriptPart, frozen=True, kw_only=True):
    """A plan. Without operations, calls keep their order.

    Attributes:
        plan: Digest of the plan.
        workload: Digest of its workload.
        ranks: Number of ranks of the job.
        channels: Number of streams of each channel, by name.
        ops: Operations of the motifs.
        submits: Calls in the order in which every rank submits them: operation, and index of the
            call.
        order: Order of a window: operation, motif, and number of iterations ahead.
        period_us: Claimed period.
        given: Text of the plan's file, for planning again. Ranks do not use it.
    """

    sccl_script: Literal[1] = 1
    plan: str = ""
    workload: str = ""
    ranks: Annotated[int, Meta(ge=1)]
    channels: tuple[tuple[str, Annotated[int, Meta(ge=1)]], ...] = ()
    ops: tuple[ScriptOp, ...] = ()
    submits: tuple[tuple[_Number, _Number], ...] = ()
    order: tuple[tuple[_Number, _Number, _Number], ...] = ()
    period_us: float = 0.0
    given: str = ""


def read_script(path: Path) -> PlanScript:
    """Return the verified script of a file.

    Raises:
        FormatError: The file is not a script, or is inconsistent.
    """
    return parse_script(read_text(path), str(path))


def parse_script(content: str | bytes, where: str) -> PlanScript:
    """Return the verified script of a text.

    Raises:
        FormatError: The text is not a script, or is inconsistent.
    """
    try:
        script = msgspec.json.decode(content, type=PlanScript)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{where}: no script of a plan ({str(error)[:120]})") from error
    wrong = find_script_fault(script)
    if wrong:
        raise FormatError(f"{where}: {wrong}")
    return script


def format_script(script: PlanScript) -> str:
    """Return the text of a script, for files and for stores of jobs."""
    return msgspec.json.encode(script).decode() + "\n"


def find_script_fault(script: PlanScript) -> str:
    """Return a violation of a script. Empty: none."""
    motifs = {(k, m) for k, op in enumerate(script.ops) for m in range(len(op.motifs))}
    pairs = [(op, motif) for op, motif, _ in script.order]
    if len(set(pairs)) < len(pairs) or set(pairs) != motifs:
        return "its order has not every motif once"
    calls = [(k, part) for k, op in enumerate(script.ops) for part in range(len(op.counts))]
    if sorted(script.submits) != calls:
        return "ranks do not submit every call once"
    if script.ops and not script.channels:
        return "it has no channel"
    problem = next((wrong for op in script.ops if (wrong := _find_op_fault(script, op))), "")
    return problem or _find_order_fault(script)


def _find_op_fault(script: PlanScript, op: ScriptOp) -> str:
    if op.collective not in COLLECTIVES or op.dtype not in ITEM_BYTES:
        return f"operation {op.id!r:.60} is none"
    members = [rank for group in op.groups for rank in group]
    if not members or len(set(members)) < len(members) or max(members) >= script.ranks:
        return f"the groups of {op.id!r:.60} are not of different ranks of {script.ranks}"
    sizes = {len(group) for group in op.groups} if op.collective in BLOCK_COLLECTIVES else {1}
    if sum(op.counts) != op.count or any(count % size for count in op.counts for size in sizes):
        return f"calls of {op.id!r:.60} are not all of it, or not of whole blocks"
    if op.roots and any(root not in g for root, g in zip(op.roots, op.groups, strict=False)):
        return f"the root of {op.id!r:.60} is in no group of it"
    if any(_has_bad_motif(script, number, motif) for number, motif in enumerate(op.motifs)):
        return f"a motif of {op.id!r:.60} contradicts itself"
    return ""


def _find_order_fault(script: PlanScript) -> str:
    """Return a violation if the order has a motif before its predecessors. Empty: none."""
    place = {(op, motif): (-shift, k) for k, (op, motif, shift) in enumerate(script.order)}
    for number, op in enumerate(script.ops):
        for motif, entry in enumerate(op.motifs):
            # Calls of later iterations are issued in an earlier window.
            if any(place[number, prior] > place[number, motif] for prior in entry.after):
                return f"motifs of {op.id!r:.60} are ordered before their dependencies"
    return ""


def _has_bad_motif(script: PlanScript, number: int, motif: ScriptMotif) -> bool:
    steps = [row[0] for row in motif.transfers]
    channels: Mapping[int, int] = dict(enumerate(streams for _, streams in script.channels))
    return (
        motif.stream >= channels.get(motif.channel, 0)
        or any(prior >= number for prior in motif.after)
        or motif.part[0] > motif.part[1]
        or steps != sorted(steps)
        or any(row[1] >= row[2] or max(row[3:5]) >= script.ranks for row in motif.transfers)
    )


ElementSpan = tuple[int, int]
"""First element, and end (exclusive), of a span of a row."""


class SendMessage(NamedTuple):
    """The data that a rank sends to a peer in a step.

    Attributes:
        peer: Target rank.
        spans: Sent elements.
        needs: Last step of this rank whose received data are forwarded. -1: none.
    """

    peer: int
    spans: tuple[ElementSpan, ...]
    needs: int


class ReceiveMessage(NamedTuple):
    """The data that a rank receives from a peer in a step.

    Attributes:
        peer: Source rank.
        spans: Received elements.
        adds: Whether each span is reduced into the value at its place.
        straight: Whether the data may be received in place before the step, because nothing else
            reads or writes this place.
        after_sent: Whether elements of the place are sent in this or an earlier step.
    """

    peer: int
    spans: tuple[ElementSpan, ...]
    adds: tuple[bool, ...]
    straight: bool
    after_sent: bool


class RankStep(NamedTuple):
    """The messages of this rank in a step."""

    sent: tuple[SendMessage, ...]
    got: tuple[ReceiveMessage, ...]


def build_rank_steps(rows: Sequence[Transfer], rank: int) -> tuple[RankStep, ...]:
    """Return the steps of a rank, with one message for each peer and direction.

    Args:
        rows: Transfers with the rank as source or target, ascending by step.
        rank: Rank.
    """
    cells = _CellSteps(rows)
    grouped = [list(step_rows) for _, step_rows in groupby(rows, key=lambda row: row[0])]
    for number, step_rows in enumerate(grouped):
        for _, start, stop, source, _, _ in step_rows:
            cells.note(number, start, stop, sent=source == rank)
    return tuple(
        _build_step(number, step_rows, rank, cells) for number, step_rows in enumerate(grouped)
    )


def _build_step(number: int, rows: Sequence[Transfer], rank: int, cells: _CellSteps) -> RankStep:
    sent: dict[int, list[ElementSpan]] = {}
    got: dict[int, list[tuple[ElementSpan, bool]]] = {}
    for _, start, stop, source, target, adds in rows:
        if source == rank:
            sent.setdefault(target, []).append((start, stop))
        else:
            got.setdefault(source, []).append(((start, stop), adds))
    return RankStep(
        tuple(
            SendMessage(peer, tuple(spans), max(cells.came(number, *span) for span in spans))
            for peer, spans in sent.items()
        ),
        tuple(_build_receive(number, peer, places, cells) for peer, places in got.items()),
    )


def _build_receive(
    number: int, peer: int, places: Sequence[tuple[ElementSpan, bool]], cells: _CellSteps
) -> ReceiveMessage:
    spans, adds = tuple(span for span, _ in places), tuple(is_add for _, is_add in places)
    after_sent = any(cells.sent_by(number, *span) for span in spans)
    is_single = len(spans) == 1 and not adds[0] and cells.comes_once(*spans[0])
    return ReceiveMessage(peer, spans, adds, is_single and not after_sent, after_sent)


class _CellSteps:
    """The steps that send or receive each cell. Cells lie between adjacent ends of spans."""

    def __init__(self, rows: Sequence[Transfer]) -> None:
        ends = sorted({end for row in rows for end in row[1:3]})
        self._place = {end: k for k, end in enumerate(ends)}
        self._received: list[list[int]] = [[] for _ in pairwise(ends)]
        self._first_sent: list[int | None] = [None for _ in pairwise(ends)]

    def note(self, step: int, start: int, stop: int, *, sent: bool) -> None:
        """Add a span. Steps must be added in order."""
        for cell in self._of(start, stop):
            if not sent:
                self._received[cell].append(step)
            elif self._first_sent[cell] is None:
                self._first_sent[cell] = step

    def came(self, step: int, start: int, stop: int) -> int:
        """Return the last step before another one that receives part of a span. -1: none."""
        return max(
            (k for cell in self._of(start, stop) for k in self._received[cell] if k < step),
            default=-1,
        )

    def sent_by(self, step: int, start: int, stop: int) -> bool:
        """Return whether part of a span is sent in a step or earlier."""
        firsts = (self._first_sent[cell] for cell in self._of(start, stop))
        return any(first is not None and first <= step for first in firsts)

    def comes_once(self, start: int, stop: int) -> bool:
        """Return whether each cell of a span is received only once."""
        return all(len(self._received[cell]) == 1 for cell in self._of(start, stop))

    def _of(self, start: int, stop: int) -> range:
        return range(self._place[start], self._place[stop])
