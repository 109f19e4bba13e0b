"""Map the row of an operation, the layout of all ranks' data, to the tensors of this rank.

Contiguous tensors are used in place. Other tensors, and those of merged calls, whose rows are
concatenated, are copied through scratch memory. Source: SYNDICATE (NSDI 2023) section 4.4,
repacking of motif results into outputs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch

from sccl.torch_backend.calls.call_description import CallDescription, Tensors
from sccl.torch_backend.peers import CallError
from sccl.torch_backend.script import ScriptOp


class OpRow:
    """The row of one call of an operation, mapped to tensors of this rank.

    Blocks of an alltoall may have other sizes than in the plan. A part of a block is then the same
    fraction of the actual block, rounded down. Sender and receiver of a block know its size.

    Attributes:
        inputs: Input of this rank, flat.
        got: Output of this rank, flat. For an allreduce it is the input.
    """

    def __init__(  # noqa: PLR0913 - independent inputs
        self,
        op: ScriptOp,
        described: CallDescription,
        group: Sequence[int],
        place: int,
        *,
        call: int = 0,
        into: torch.Tensor | None = None,
    ) -> None:
        """Lay out the input of this rank.

        Args:
            op: Operation.
            described: Description of the call.
            group: Ranks of the call.
            place: Place of this rank in the group.
            call: Index of the call in the operation.
            into: Tensor for the row. None: choose one.

        Raises:
            CallError: The blocks of an alltoall do not match its tensors.
        """
        self._collective, self._count = op.collective, op.counts[call]
        self._place, self._places = place, len(group)
        self._outputs, self._into = described.got, into
        self._at_root = group[place] in op.roots
        any_tensor = (*described.inputs, *described.got)[0]
        self.inputs = _flatten(described.inputs, any_tensor)
        is_shared = described.inputs is described.got
        self.got = self.inputs if is_shared else _empty_row(described.got, any_tensor)
        if op.collective == "alltoall":
            if self.inputs.untyped_storage().data_ptr() == self.got.untyped_storage().data_ptr():
                self.inputs = (
                    self.inputs.clone()
                )  # received blocks would overwrite blocks that are not sent yet
            self._gives = _block_offsets(self.inputs, described.gives, self._places)
            self._gets = _block_offsets(self.got, described.gets, self._places)
        self._scratch: dict[int, torch.Tensor] = {}
        self._buffer = self._laid_out()

    def at(self, start: int, stop: int) -> torch.Tensor:
        """Return a view of elements of the row, for sending or receiving."""
        if self._buffer is not None:
            return self._buffer[start:stop]
        each = self._count // self._places
        cell, low = divmod(start, each)
        block = self._block(*divmod(cell, self._places))
        size, high = block.numel(), low + stop - start
        return block[size * low // each : size * high // each]

    def finish(self, *, divide_by: int = 1) -> None:
        """Copy results to the outputs, after the end of all motifs."""
        op, block = self._collective, self._own_block()
        if divide_by > 1 and self._buffer is not None:
            self._buffer.div_(divide_by)
        if op in ("reducescatter", "scatter") and self._buffer is not None:
            self.got.copy_(self._buffer[block])
        if op == "reduce" and self._at_root and self._buffer is not None:
            self.got.copy_(self._buffer)
        if self._into is not None and op in ("allgather", "allreduce", "broadcast", "gather"):
            self.got = self._into
        elif len(self._outputs) == 1 and self._outputs[0].is_contiguous():
            return
        at = 0
        for tensor in self._outputs:
            tensor.copy_(self.got[at : at + tensor.numel()].view(tensor.shape))
            at += tensor.numel()

    def _laid_out(self) -> torch.Tensor | None:
        """Return the row with the input of this rank in place. None: cells are separate."""
        op, count, block, into = self._collective, self._count, self._own_block(), self._into
        if op == "alltoall":
            self._block(self._place, self._place).copy_(
                _split_part(self.inputs, self._gives, self._place)
            )
            return None
        if into is None:
            if op in ("allreduce", "broadcast"):
                return self.got
            if op in ("reduce", "reducescatter"):
                return self.inputs.clone()
            if op == "scatter" and self._at_root:
                return self.inputs
            # in a gather, only the root has outputs
            into = self.got if self.got.numel() == count else self.inputs.new_empty(count)
        if op in ("allgather", "gather"):
            into[block].copy_(self.inputs)
        elif op != "scatter" or self._at_root:
            into.copy_(self.inputs)
        return into

    def _block(self, source: int, target: int) -> torch.Tensor:
        """Return the elements that an alltoall moves between two ranks."""
        if target == self._place:
            return _split_part(self.got, self._gets, source)
        if source == self._place:
            return _split_part(self.inputs, self._gives, target)
        cell = source * self._places + target
        if cell not in self._scratch:
            self._scratch[cell] = self.inputs.new_empty(self._count // self._places)
        return self._scratch[cell]

    def _own_block(self) -> slice:
        each = self._count // self._places
        return slice(self._place * each, (self._place + 1) * each)


def _flatten(tensors: Tensors, like: torch.Tensor) -> torch.Tensor:
    if len(tensors) == 1 and tensors[0].is_contiguous():
        return tensors[0].view(-1)
    return torch.cat([tensor.reshape(-1) for tensor in tensors]) if tensors else like.new_empty(0)


def _empty_row(tensors: Tensors, like: torch.Tensor) -> torch.Tensor:
    if len(tensors) == 1 and tensors[0].is_contiguous():
        return tensors[0].view(-1)
    return like.new_empty(sum(tensor.numel() for tensor in tensors))


def _block_offsets(tensor: torch.Tensor, sizes: Sequence[int], places: int) -> list[int]:
    """Return the offsets of the blocks of an alltoall, and the end of the last one.

    Args:
        tensor: Flat tensor of all blocks.
        sizes: Elements of each block. Empty: equal blocks.
        places: Number of blocks.

    Raises:
        CallError: The sizes do not match the tensor.
    """
    many = tensor.numel()
    ends = list(accumulate(sizes or [many // places] * places, initial=0))
    if len(ends) != places + 1 or ends[-1] != many:
        raise CallError(
            f"blocks for {len(ends) - 1} ranks have {ends[-1]} elements, expected {many} for "
            f"{places} ranks"
        )
    return ends


def _split_part(tensor: torch.Tensor, ends: Sequence[int], place: int) -> torch.Tensor:
    return tensor[ends[place] : ends[place + 1]]


class MergedRow:
    """The concatenated rows of merged calls."""

    def __init__(
        self, op: ScriptOp, calls: Sequence[CallDescription], group: Sequence[int], place: int
    ) -> None:
        """Lay out the input of this rank.

        Raises:
            CallError: The blocks of an alltoall do not match its tensors.
        """
        in_cells = op.collective == "alltoall"
        sizes = [count * len(group) if in_cells else count for count in op.counts]
        self._starts = list(accumulate(sizes, initial=0))
        any_tensor = (*calls[0].inputs, *calls[0].got)[0]
        self._buffer = None if in_cells else any_tensor.new_empty(self._starts[-1])
        self._rows = [
            OpRow(op, described, group, place, call=k, into=None if in_cells else self.at(*ends))
            for k, (described, ends) in enumerate(zip(calls, pairwise(self._starts), strict=True))
        ]

    def at(self, start: int, stop: int) -> torch.Tensor:
        """Return a view of elements of the row, for sending or receiving."""
        if self._buffer is not None:
            return self._buffer[start:stop]
        call = bisect_right(self._starts, start) - 1
        before = self._starts[call]
        return self._rows[call].at(start - before, stop - before)

    def finish(self, *, divide_by: int = 1) -> None:
        """Copy results to the outputs, after the end of all motifs."""
        for row in self._rows:
            row.finish(divide_by=divide_by)


Row = OpRow | MergedRow
