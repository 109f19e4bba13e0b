"""Tensors as gloo takes them: contiguous, and of types that it moves and reduces.

Gloo has no 16-bit integers, no larger unsigned ones and no float8. It moves their elements as those
of another type of the same size, to the bit. It reduces integers in a wider type: the results are
those of the narrow type, as both wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from sccl.core.workload_ops import COMBINING
from sccl.enforce.described import DTYPES, Described
from sccl.enforce.peers import CallError
from sccl.enforce.works import CopiedWork, Restore

_SERVED = frozenset({
    torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
})  # fmt: skip

_MOVED_AS = {1: torch.uint8, 2: torch.float16, 4: torch.int32, 8: torch.int64}
"""By the bytes of an element."""

_REDUCED_AS = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}

_HIGHEST_BIT = -(2**63)
"""Flipped, it gives int64 the order of uint64."""


def in_gloo_types(call: Described) -> tuple[Described, tuple[Restore, ...]]:
    """Return a call whose elements are of a type that gloo serves.

    Returns:
        The call, and functions that write its results to the tensors of the given one. A call whose
        tensors differ in type is returned as it is, for gloo to refuse.

    Raises:
        CallError: Its reduction of this type is served by nothing.
    """
    every = (*call.given, *call.got)
    dtypes = {tensor.dtype for tensor in every}
    if len(dtypes) != 1 or dtypes <= _SERVED or any(t.layout != torch.strided for t in every):
        return call, ()
    (dtype,) = dtypes
    if call.collective in COMBINING and dtype != torch.uint64:
        if dtype.is_complex:  # torch gives their parts instead
            return call, ()
        if dtype not in _REDUCED_AS:
            name = DTYPES.get(dtype, str(dtype))
            raise CallError(
                f"gloo, bundles and plans reduce no {name}: convert it before the call, as to "
                "float32"
            )
        return _converted(call, partial(_widened, dtype=_REDUCED_AS[dtype]), _narrow)
    if call.collective in COMBINING and call.reduce in ("min", "max"):
        return _converted(call, _in_order_of_int64, _in_order_of_uint64)
    stand_in = _MOVED_AS.get(dtype.itemsize)
    if stand_in is None:
        return call, ()
    return _converted(call, lambda tensor: tensor.detach().view(stand_in))


def as_gloo_takes(
    name: str, describe: Callable[..., Described], *, flat: bool = False
) -> Callable[..., Any]:
    """Return a call of gloo's method that copies and converts tensors where gloo needs it.

    Gloo takes the elements of a tensor as consecutive in memory, whatever its strides are.

    Args:
        flat: Whether the method gets tensors of one dimension: gloo compares shapes of blocks.
    """

    def carry(group: Any, *args: Any, **kwargs: Any) -> Any:
        call = describe(*args, *kwargs.values())
        converted, restores = in_gloo_types(call)
        passed: dict[int, torch.Tensor] = {}
        own = (*call.given, *call.got)
        for tensor, one in zip(own, (*converted.given, *converted.got), strict=True):
            if id(tensor) not in passed:
                passed[id(tensor)] = _in_gloo_memory(one, flat=flat)
        if all(passed[id(tensor)] is tensor for tensor in own):
            return getattr(group, name)(*args, **kwargs)
        copied = [
            partial(_copy, one, passed[id(tensor)])
            for tensor, one in zip(call.got, converted.got, strict=True)
            if passed[id(tensor)].data_ptr() != one.data_ptr()
        ]
        work = getattr(group, name)(*_replaced(args, passed), **kwargs)
        return CopiedWork(work, (*copied, *restores), call.got)

    return carry


def all_to_all_as_gloo_takes(name: str, describe: Callable[..., Described]) -> Callable[..., Any]:
    """Return a call of gloo's exchange, likewise, whose tensors may share memory."""
    carry_apart = as_gloo_takes(name, describe)

    def carry(group: Any, output: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        if output.untyped_storage().data_ptr() == given.untyped_storage().data_ptr():
            given = given.detach().clone()
        return carry_apart(group, output, given, *args, **kwargs)

    return carry


def all_to_all_of_lists(exchange: Callable[..., Any]) -> Callable[..., Any]:
    """Return an exchange of tensors of any sizes: gloo's own takes them of one size.

    Args:
        exchange: Exchanges the parts of single tensors.
    """

    def carry(group: Any, outputs: Any, inputs: Any, *_: Any) -> CopiedWork:
        given = torch.cat([one.reshape(-1) for one in inputs])
        came = given.new_empty(sum(one.numel() for one in outputs))
        sizes = [[one.numel() for one in those] for those in (outputs, inputs)]
        work = exchange(group, came, given, *sizes)
        parts = zip(outputs, came.split(sizes[0]), strict=True)
        return CopiedWork(work, [partial(_copy, *both) for both in parts], outputs)

    return carry


def _converted(
    call: Described,
    convert: Callable[[torch.Tensor], torch.Tensor],
    restore: Callable[[torch.Tensor, torch.Tensor], Any] | None = None,
) -> tuple[Described, tuple[Restore, ...]]:
    given = tuple(map(convert, call.given))
    got = given if call.got is call.given else tuple(map(convert, call.got))
    pairs = zip(call.got, got, strict=True)
    restores = () if restore is None else tuple(partial(restore, *both) for both in pairs)
    return replace(call, given=given, got=got), restores


def _widened(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.detach().to(dtype, memory_format=torch.contiguous_format)


def _narrow(into: torch.Tensor, wide: torch.Tensor) -> None:
    into.detach().copy_(wide)


def _in_order_of_int64(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.detach().view(torch.int64) ^ _HIGHEST_BIT).contiguous()


def _in_order_of_uint64(into: torch.Tensor, result: torch.Tensor) -> None:
    into.detach().view(torch.int64).copy_(result ^ _HIGHEST_BIT)


def _in_gloo_memory(tensor: torch.Tensor, *, flat: bool) -> torch.Tensor:
    if tensor.layout != torch.strided:
        return tensor
    if not tensor.is_contiguous():
        tensor = tensor.detach().contiguous()
    return tensor.detach().view(-1) if flat and tensor.dim() != 1 else tensor


def _copy(into: torch.Tensor, result: torch.Tensor) -> None:
    into.detach().copy_(result.view(into.shape))


def _replaced(arguments: Sequence[Any], passed: dict[int, torch.Tensor]) -> list[Any]:
    """Return arguments with other tensors in their lists."""
    return [
        _replaced(one, passed) if isinstance(one, list | tuple) else passed.get(id(one), one)
        for one in arguments
    ]
