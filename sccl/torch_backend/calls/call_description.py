"""Describe a call of a process group: its tensors, and the properties that identify it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

Tensors = tuple[torch.Tensor, ...]

DTYPES = {
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.int16: "int16",
    torch.uint16: "uint16",
    torch.int32: "int32",
    torch.uint32: "uint32",
    torch.int64: "int64",
    torch.uint64: "uint64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bool: "bool",
    torch.float8_e4m3fn: "float8-e4m3",
    torch.float8_e5m2: "float8-e5m2",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
}
"""Names of torch's types. Calls of other types are made, but neither recorded nor planned."""

_REDUCTIONS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "bitwise",
    dist.ReduceOp.BOR: "bitwise",
    dist.ReduceOp.BXOR: "bitwise",
}


@dataclass(frozen=True, slots=True)
class CallDescription:
    """A call.

    Attributes:
        collective: Name in :data:`~sccl.training.types.workload_ops.COLLECTIVES`. A barrier is an
            allreduce of one byte. Empty: a point-to-point call.
        inputs: Input tensors, in the order of ranks if there is one for each.
        got: Output tensors, in the same order. For an allreduce they are the inputs.
        root: Place of the root in the group.
        reduce: Operator of the reduction. Empty: none.
        gives: Elements of :attr:`inputs` for each rank, for an alltoall of uneven parts.
        gets: Elements of :attr:`got` from each rank.
        peer: Place of the other rank of a point-to-point call. None: any.
        sends: Whether this rank is the sender of a point-to-point call.
    """

    collective: str
    inputs: Tensors
    got: Tensors
    root: int | None = None
    reduce: str = ""
    gives: tuple[int, ...] = ()
    gets: tuple[int, ...] = ()
    peer: int | None = None
    sends: bool = False

    @property
    def dtype(self) -> str:
        """Return the type of the elements. Empty: no type, several types, or one without a name."""
        types = {tensor.dtype for tensor in (*self.inputs, *self.got)}
        return DTYPES.get(types.pop(), "") if len(types) == 1 else ""

    @property
    def size(self) -> str:
        """Return the number and type of the elements as text."""
        many = max(self.elements_given, self.elements_got)
        return f"{many} {self.dtype or 'elements'}"

    @property
    def elements_given(self) -> int:
        """Return the number of input elements."""
        return sum(tensor.numel() for tensor in self.inputs)

    @property
    def elements_got(self) -> int:
        """Return the number of output elements."""
        return sum(tensor.numel() for tensor in self.got)


Describer = Callable[..., CallDescription]
"""Function from the arguments of a method to the description of the call."""


def _flatten_tensors(tensors: Any) -> Tensors:
    if isinstance(tensors, torch.Tensor):
        return (tensors,)
    return tuple(tensor for inner in tensors for tensor in _flatten_tensors(inner))


def _reduction(opts: Any) -> str:
    """Return the reduction operator from options, or from an operator in place of options."""
    op = dist.ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts)
    # The kind of a ReduceOp is its attribute ``op``. Reductions with a factor have no name.
    kind = getattr(op, "op", op)
    return next((name for reduce_kind, name in _REDUCTIONS.items() if reduce_kind == kind), "")


def _root(opts: Any) -> int:
    return int(getattr(opts, "rootRank", opts if isinstance(opts, int) else 0))


def _describer(
    collective: str, *, in_place: bool = False, rooted: bool = False, reduces: bool = False
) -> Describer:
    """Return a function for calls with tensors, or with outputs and inputs, and then options."""

    def describe(outputs: Any, *rest: Any) -> CallDescription:
        got = _flatten_tensors(outputs)
        inputs = got if in_place else _flatten_tensors(rest[0])
        opts = next(iter(rest if in_place else rest[1:]), None)
        root, reduce = _root(opts) if rooted else None, _reduction(opts) if reduces else ""
        return CallDescription(collective, inputs, got, root, reduce)

    return describe


def _barrier(*_: Any) -> CallDescription:
    placeholder = (torch.zeros(1, dtype=torch.uint8),)
    return CallDescription("allreduce", placeholder, placeholder, reduce="sum")


def _reduce(tensors: Any, opts: Any = 0, *rest: Any) -> CallDescription:
    flat_tensors = _flatten_tensors(tensors)
    op = rest[0] if rest else opts
    op = dist.ReduceOp.SUM if isinstance(op, int) else op
    return CallDescription(
        "reduce", flat_tensors, flat_tensors, root=_root(opts), reduce=_reduction(op)
    )


def _all_to_all(outputs: Any, inputs: Any, *_: Any) -> CallDescription:
    flat_inputs, got = _flatten_tensors(inputs), _flatten_tensors(outputs)
    return CallDescription(
        "alltoall",
        flat_inputs,
        got,
        gives=tuple(tensor.numel() for tensor in flat_inputs),
        gets=tuple(tensor.numel() for tensor in got),
    )


def _all_to_all_single(
    output: torch.Tensor,
    input_tensor: torch.Tensor,
    output_splits: Sequence[int] = (),
    input_splits: Sequence[int] = (),
    *_: Any,
) -> CallDescription:
    return CallDescription(
        "alltoall",
        (input_tensor,),
        (output,),
        gives=_in_elements(input_tensor, input_splits),
        gets=_in_elements(output, output_splits),
    )


def _in_elements(tensor: torch.Tensor, rows: Sequence[int]) -> tuple[int, ...]:
    each = tensor.numel() // tensor.shape[0] if tensor.dim() and tensor.shape[0] else 0
    return tuple(row * each for row in rows)


def _send(tensors: Any, peer: int, *_: Any) -> CallDescription:
    return CallDescription("", _flatten_tensors(tensors), (), peer=peer, sends=True)


def _recv(tensors: Any, peer: int, *_: Any) -> CallDescription:
    return CallDescription("", (), _flatten_tensors(tensors), peer=peer)


def _recv_anysource(tensors: Any, *_: Any) -> CallDescription:
    return CallDescription("", (), _flatten_tensors(tensors))


_all_gather = _describer("allgather")
_all_reduce = _describer("allreduce", in_place=True, reduces=True)
_reduce_scatter = _describer("reducescatter", reduces=True)

DESCRIBERS: dict[str, Describer] = {
    "all_gather": _all_gather,
    "all_gather_single": _all_gather,
    "all_gather_coalesced": _all_gather,
    "all_gather_single_coalesced": _all_gather,
    "all_reduce": _all_reduce,
    "all_reduce_coalesced": _all_reduce,
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
    "barrier": _barrier,
    "broadcast": _describer("broadcast", in_place=True, rooted=True),
    "gather": _describer("gather", rooted=True),
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter,
    "reduce_scatter_single_coalesced": _reduce_scatter,
    "scatter": _describer("scatter", rooted=True),
    "send": _send,
    "recv": _recv,
    "recv_anysource": _recv_anysource,
}
"""Functions that read the arguments of methods, by the keys of
:data:`~sccl.torch_backend.torch_releases.METHOD_NAMES`.
"""
