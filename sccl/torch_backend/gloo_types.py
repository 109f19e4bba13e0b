"""Convert tensors for gloo: make them contiguous, and of types that gloo moves and reduces.

Gloo has no 16-bit integers, no unsigned integers of more than 8 bits, and no float8. Their elements
are moved bitwise as elements of another type of the same size. Such integers are reduced in a wider
type. The results equal those of the narrow type, because both wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from sccl.torch_backend.calls.call_description import DTYPES, CallDescription
from sccl.torch_backend.calls.works import CopiedWork, Restore
from sccl.torch_backend.peers import CallError
from sccl.training.types.workload_ops import COMBINING

_GLOO_DTYPES = frozenset({
    torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
})  # fmt: skip

_MOVED_AS = {1: torch.uint8, 2: torch.float16, 4: torch.int32, 8: torch.int64}
"""Type in which elements are moved, by their size in bytes."""

_REDUCED_AS = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}

_HIGHEST_BIT = -(2**63)
"""Bit that maps the order of uint64 to that of int64 when it is flipped."""


def convert_call(call: CallDescription) -> tuple[CallDescription, tuple[Restore, ...]]:
    """Return a call with elements of a type that gloo supports.

    Returns:
        Converted call, and functions that write its results to the tensors of the original call. A
        call with tensors of several types is not converted, and gloo refuses it.

    Raises:
        CallError: The reduction of this type is not supported.
    """
    tensors = (*call.inputs, *call.got)
    dtypes = {tensor.dtype for tensor in tensors}
    if (
        len(dtypes) != 1
        or dtypes <= _GLOO_DTYPES
        or any(t.layout != torch.strided for t in tensors)
    ):
        return call, ()
    (dtype,) = dtypes
    if call.collective in COMBINING and dtype != torch.uint64:
        if dtype.is_complex:  # torch passes their parts as real numbers
            return call, ()
        if dtype not in _REDUCED_AS:
            name = DTYPES.get(dtype, str(dtype))
            raise CallError(
                f"gloo, bundles and plans reduce no {name}: convert it before the call, as to "
                "float32"
            )
        return _convert(call, partial(_widen, dtype=_REDUCED_AS[dtype]), _narrow)
    if call.collective in COMBINING and call.reduce in ("min", "max"):
        return _convert(call, _to_int64_order, _from_int64_order)
    stand_in = _MOVED_AS.get(dtype.itemsize)
    if stand_in is None:
        return call, ()
    return _convert(call, lambda tensor: tensor.detach().view(stand_in))


def wrap_gloo_method(
    name: str, describe: Callable[..., CallDescription], *, flat: bool = False
) -> Callable[..., Any]:
    """Return a function that calls gloo's method, with tensors copied and converted if necessary.

    Gloo ignores strides, and assumes that the elements of a tensor are consecutive in memory.

    Args:
        name: Name of the method.
        describe: Function that reads the arguments.
        flat: Whether to pass tensors of one dimension, because gloo compares shapes of blocks.
    """

    def carry(group: Any, *args: Any, **kwargs: Any) -> Any:
        call = describe(*args, *kwargs.values())
        converted, restores = convert_call(call)
        passed: dict[int, torch.Tensor] = {}
        tensors = (*call.inputs, *call.got)
        for tensor, cast_tensor in zip(tensors, (*converted.inputs, *converted.got), strict=True):
            if id(tensor) not in passed:
                passed[id(tensor)] = _to_gloo_memory(cast_tensor, flat=flat)
        if all(passed[id(tensor)] is tensor for tensor in tensors):
            return getattr(group, name)(*args, **kwargs)
        copied = [
            partial(_copy_back, cast_tensor, passed[id(tensor)])
            for tensor, cast_tensor in zip(call.got, converted.got, strict=True)
            if passed[id(tensor)].data_ptr() != cast_tensor.data_ptr()
        ]
        work = getattr(group, name)(*_replace_tensors(args, passed), **kwargs)
        return CopiedWork(work, (*copied, *restores), call.got)

    return carry


def wrap_all_to_all(name: str, describe: Callable[..., CallDescription]) -> Callable[..., Any]:
    """Return a function that calls gloo's all-to-all, also with tensors that share memory."""
    carry_apart = wrap_gloo_method(name, describe)

    def carry(group: Any, output: Any, input_tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if output.untyped_storage().data_ptr() == input_tensor.untyped_storage().data_ptr():
            input_tensor = input_tensor.detach().clone()
        return carry_apart(group, output, input_tensor, *args, **kwargs)

    return carry


def list_all_to_all(exchange: Callable[..., Any]) -> Callable[..., Any]:
    """Return an all-to-all of tensors of any sizes. Gloo's own needs equal sizes.

    Args:
        exchange: All-to-all of the parts of single tensors.
    """

    def carry(group: Any, outputs: Any, inputs: Any, *_: Any) -> CopiedWork:
        flat_input = torch.cat([tensor.reshape(-1) for tensor in inputs])
        came = flat_input.new_empty(sum(tensor.numel() for tensor in outputs))
        sizes = [[tensor.numel() for tensor in tensors] for tensors in (outputs, inputs)]
        work = exchange(group, came, flat_input, *sizes)
        parts = zip(outputs, came.split(sizes[0]), strict=True)
        return CopiedWork(work, [partial(_copy_back, *both) for both in parts], outputs)

    return carry


def _convert(
    call: CallDescription,
    convert: Callable[[torch.Tensor], torch.Tensor],
    restore: Callable[[torch.Tensor, torch.Tensor], Any] | None = None,
) -> tuple[CallDescription, tuple[Restore, ...]]:
    inputs = tuple(map(convert, call.inputs))
    got = inputs if call.got is call.inputs else tuple(map(convert, call.got))
    pairs = zip(call.got, got, strict=True)
    restores = () if restore is None else tuple(partial(restore, *both) for both in pairs)
    return replace(call, inputs=inputs, got=got), restores


def _widen(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.detach().to(dtype, memory_format=torch.contiguous_format)


def _narrow(into: torch.Tensor, wide: torch.Tensor) -> None:
    into.detach().copy_(wide)


def _to_int64_order(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.detach().view(torch.int64) ^ _HIGHEST_BIT).contiguous()


def _from_int64_order(into: torch.Tensor, result: torch.Tensor) -> None:
    into.detach().view(torch.int64).copy_(result ^ _HIGHEST_BIT)


def _to_gloo_memory(tensor: torch.Tensor, *, flat: bool) -> torch.Tensor:
    if tensor.layout != torch.strided:
        return tensor
    if not tensor.is_contiguous():
        tensor = tensor.detach().contiguous()
    return tensor.detach().view(-1) if flat and tensor.dim() != 1 else tensor


def _copy_back(into: torch.Tensor, result: torch.Tensor) -> None:
    into.detach().copy_(result.view(into.shape))


def _replace_tensors(arguments: Sequence[Any], passed: dict[int, torch.Tensor]) -> list[Any]:
    return [
        _replace_tensors(item, passed)
        if isinstance(item, list | tuple)
        else passed.get(id(item), item)
        for item in arguments
    ]
