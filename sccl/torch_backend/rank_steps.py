"""Compute a rank's sends and receives in each step of transfers, with their dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from sccl.torch_backend.script import Transfer

ElementSpan = tuple[int, int]
"""Elements of a row: the first, and the one after the last."""


class SendMessage(NamedTuple):
    """The data that a rank sends to another in a step.

    Attributes:
        needs: Last own step whose data it forwards. -1: none.
    """

    peer: int
    spans: tuple[ElementSpan, ...]
    needs: int


class ReceiveMessage(NamedTuple):
    """The data that a rank receives from another in a step.

    Attributes:
        adds: For each span whether it is reduced into the value there.
        straight: Whether it may be received in place before its step: nothing else reads or writes
            there.
        after_sent: Whether its place is sent in a step up to its own.
    """

    peer: int
    spans: tuple[ElementSpan, ...]
    adds: tuple[bool, ...]
    straight: bool
    after_sent: bool


class RankStep(NamedTuple):
    """A step of which this rank has a part."""

    sent: tuple[SendMessage, ...]
    got: tuple[ReceiveMessage, ...]


def build_rank_steps(rows: Sequence[Transfer], rank: int) -> tuple[RankStep, ...]:
    """Return the steps in which a rank has a part, each with a message for a rank and direction.

    Args:
        rows: of which the rank is source or target, ascending by step.
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
    """The steps that send or receive each cell between all ends of spans."""

    def __init__(self, rows: Sequence[Transfer]) -> None:
        ends = sorted({end for row in rows for end in row[1:3]})
        self._place = {end: k for k, end in enumerate(ends)}
        self._received: list[list[int]] = [[] for _ in pairwise(ends)]
        self._first_sent: list[int | None] = [None for _ in pairwise(ends)]

    def note(self, step: int, start: int, stop: int, *, sent: bool) -> None:
        """Take note of a span. Steps come in their order."""
        for cell in self._of(start, stop):
            if not sent:
                self._received[cell].append(step)
            elif self._first_sent[cell] is None:
                self._first_sent[cell] = step

    def came(self, step: int, start: int, stop: int) -> int:
        """Return the last step before one that brings some of a span. -1: none does."""
        return max(
            (k for cell in self._of(start, stop) for k in self._received[cell] if k < step),
            default=-1,
        )

    def sent_by(self, step: int, start: int, stop: int) -> bool:
        """Return whether some of a span is sent up to a step."""
        firsts = (self._first_sent[cell] for cell in self._of(start, stop))
        return any(first is not None and first <= step for first in firsts)

    def comes_once(self, start: int, stop: int) -> bool:
        """Return whether no other step or message brings some of a span."""
        return all(len(self._received[cell]) == 1 for cell in self._of(start, stop))

    def _of(self, start: int, stop: int) -> range:
        return range(self._place[start], self._place[stop])
