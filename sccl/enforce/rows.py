"""The row of an operation, in which what all ranks hold is laid out, upon the tensors of this rank.

Contiguous tensors are taken as they are; others go through scratch, and are put back in the end.
Source: SYNDICATE (NSDI 2023) section 4.4: repacking of what motifs bring into the outputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import torch

from sccl.enforce.described import Described, Tensors
from sccl.enforce.script import ScriptOp


class OpRow:
    """Where elements of the row lie.

    Attributes:
        given: what this rank gives, flat.
        got: what it gets, flat; of an allreduce the same.
    """

    def __init__(
        self, op: ScriptOp, described: Described, group: Sequence[int], place: int
    ) -> None:
        self._op, self._place, self._places = op, place, len(group)
        self._outputs = described.got
        self._at_root = group[place] in op.roots
        any_tensor = (*described.given, *described.got)[0]
        self.given = _flat(described.given, any_tensor)
        same = described.given is described.got
        self.got = self.given if same else _emptied(described.got, any_tensor)
        self._scratch: dict[int, torch.Tensor] = {}
        self._whole = self._laid_out()

    def at(self, start: int, stop: int) -> torch.Tensor:
        """Return elements of the row, to be sent or to be filled."""
        if self._whole is not None:
            return self._whole[start:stop]
        cell = bisect_right(self._starts, start) - 1
        base = start - self._starts[cell]
        return self._cell(cell)[base : base + stop - start]

    def finish(self, *, divide_by: int = 1) -> None:
        """Put results where they belong, all motifs being done."""
        op, own = self._op.collective, self._own_block()
        if divide_by > 1 and self._whole is not None:
            self._whole.div_(divide_by)
        if op in ("reducescatter", "scatter") and self._whole is not None:
            self.got.copy_(self._whole[own])
        if op == "reduce" and self._at_root and self._whole is not None:
            self.got.copy_(self._whole)
        if len(self._outputs) != 1 or not self._outputs[0].is_contiguous():
            at = 0
            for tensor in self._outputs:
                tensor.copy_(self.got[at : at + tensor.numel()].view(tensor.shape))
                at += tensor.numel()

    def _laid_out(self) -> torch.Tensor | None:
        """Return the row, with what this rank gives in place; None: cells are kept one by one."""
        op, count, own = self._op.collective, self._op.count, self._own_block()
        if op in ("allreduce", "broadcast"):
            return self.got
        if op == "reduce":
            return self.given.clone()
        if op == "reducescatter":
            return self.given.clone()
        if op == "alltoall":
            self._starts = _evenly(count * self._places, self._places**2)
            mine = self._place * (self._places + 1)
            self._cell(mine).copy_(self._part(self.given, self._place))
            return None
        if op == "scatter":
            return self.given if self._at_root else self.given.new_empty(count)
        # an allgather, or a gather, of which others than the root have no outputs
        row = self.got if self.got.numel() == count else self.given.new_empty(count)
        row[own].copy_(self.given)
        return row

    def _cell(self, cell: int) -> torch.Tensor:
        source, target = divmod(cell, self._places)
        if target == self._place:
            return self._part(self.got, source)
        if source == self._place:
            return self._part(self.given, target)
        if cell not in self._scratch:
            self._scratch[cell] = self.given.new_empty(self._starts[cell + 1] - self._starts[cell])
        return self._scratch[cell]

    def _part(self, tensor: torch.Tensor, place: int) -> torch.Tensor:
        each = tensor.numel() // self._places
        return tensor[place * each : (place + 1) * each]

    def _own_block(self) -> slice:
        each = self._op.count // self._places
        return slice(self._place * each, (self._place + 1) * each)


def _flat(tensors: Tensors, like: torch.Tensor) -> torch.Tensor:
    if len(tensors) == 1 and tensors[0].is_contiguous():
        return tensors[0].view(-1)
    return torch.cat([one.reshape(-1) for one in tensors]) if tensors else like.new_empty(0)


def _emptied(tensors: Tensors, like: torch.Tensor) -> torch.Tensor:
    if len(tensors) == 1 and tensors[0].is_contiguous():
        return tensors[0].view(-1)
    return like.new_empty(sum(one.numel() for one in tensors))


def _evenly(count: int, parts: int) -> Sequence[int]:
    return list(accumulate([count // parts] * parts, initial=0))
