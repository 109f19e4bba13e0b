"""Translate calls of a group to a bundle's C API: addresses, counts, and copies if necessary.

All ranks must make the same decisions, so these depend only on properties that are equal on all
ranks. The splits of an alltoall differ by rank, so it uses one method for all sizes. Whether
tensors are contiguous may differ by rank, so others are copied, not refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate

import torch

from sccl.torch_backend.bundles.bundle_abi import (
    IN_PLACE,
    OPS,
    TYPES,
    BundleCall,
    BundleCommunicator,
)
from sccl.torch_backend.calls.call_description import DTYPES, CallDescription

Job = Callable[[], None]
JobBuilder = Callable[[BundleCommunicator, int, CallDescription], "BundleJob | None"]
BundleJob = tuple[str, Job]
"""Collective of the bundle that a job uses (empty: none), and the function that makes the call."""

_BYTES = TYPES["int8"]


def build_job(
    joined: BundleCommunicator, ranks: int, does: str, described: CallDescription
) -> BundleJob | None:
    """Return the job of a call. None: gloo makes the call.

    Args:
        joined: Communicator of the group.
        ranks: Number of ranks of the group.
        does: Operation, a key of :data:`~sccl.torch_backend.torch_releases.METHOD_NAMES`.
        described: Description of the call.
    """
    make = _BUILDERS.get(does)
    tensors = (*described.inputs, *described.got)
    if make is None or any(t.layout != torch.strided or t.device.type != "cpu" for t in tensors):
        return None
    return make(joined, ranks, described)


def _all_reduce(joined: BundleCommunicator, _ranks: int, d: CallDescription) -> BundleJob | None:
    kind = _type_number(d)
    if len(d.inputs) != 1 or kind is None or d.reduce not in OPS:
        return None
    tensor = d.inputs[0]
    call = BundleCall(b"allreduce", tensor.numel(), kind, OPS[d.reduce])
    return "allreduce", partial(_run_call, joined, call, tensor, tensor)


def _broadcast(joined: BundleCommunicator, _ranks: int, d: CallDescription) -> BundleJob | None:
    if len(d.inputs) != 1:
        return None
    tensor = d.inputs[0]
    call = BundleCall(b"broadcast", tensor.nbytes, _BYTES, root=d.root or 0)
    return "broadcast", partial(_run_call, joined, call, tensor, tensor)


def _all_gather_single(
    joined: BundleCommunicator, ranks: int, d: CallDescription
) -> BundleJob | None:
    source, got = d.inputs[0], d.got[0]
    if source.dtype != got.dtype or got.numel() != source.numel() * ranks:
        return None
    call = BundleCall(b"allgather", source.nbytes, _BYTES)
    return "allgather", partial(_run_call, joined, call, source, got)


def _reduce_scatter_single(
    joined: BundleCommunicator, ranks: int, d: CallDescription
) -> BundleJob | None:
    source, got, kind = d.inputs[0], d.got[0], _type_number(d)
    if kind is None or d.reduce not in OPS or source.numel() != got.numel() * ranks:
        return None
    call = BundleCall(b"reducescatter", got.numel(), kind, OPS[d.reduce])
    return "reducescatter", partial(_run_call, joined, call, source, got)


def _reduce_scatter(joined: BundleCommunicator, ranks: int, d: CallDescription) -> BundleJob | None:
    if len(d.inputs) != ranks or len(d.got) != 1:
        return None
    if any(tensor.numel() != d.got[0].numel() for tensor in d.inputs):
        return None
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in d.inputs])
    return _reduce_scatter_single(
        joined, ranks, CallDescription("", (flat,), d.got, reduce=d.reduce)
    )


def _all_gather(joined: BundleCommunicator, ranks: int, d: CallDescription) -> BundleJob | None:
    if len(d.inputs) != 1 or len(d.got) != ranks:
        return None
    if any(tensor.nbytes != d.inputs[0].nbytes for tensor in d.got):
        return None
    return "", partial(_exchange_direct, joined, d.inputs * ranks, d.got)


def _all_to_all(joined: BundleCommunicator, ranks: int, d: CallDescription) -> BundleJob | None:
    if not len(d.inputs) == len(d.got) == ranks:
        return None
    return "", partial(_exchange_direct, joined, d.inputs, d.got)


def _all_to_all_single(
    joined: BundleCommunicator, ranks: int, d: CallDescription
) -> BundleJob | None:
    source, got = d.inputs[0], d.got[0]
    gives = d.gives or (source.numel() // ranks,) * ranks
    gets = d.gets or (got.numel() // ranks,) * ranks
    sent, wanted = ([each.element_size() * n for n in parts]
                    for each, parts in ((source, gives), (got, gets)))  # fmt: skip
    if len(sent) != ranks or sum(sent) != source.nbytes:
        return None
    if len(wanted) != ranks or sum(wanted) != got.nbytes:
        return None
    return "", partial(_exchange_direct_single, joined, source, got, sent, wanted)


_BUILDERS: Mapping[str, JobBuilder] = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "all_gather_single": _all_gather_single,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter_single,
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
}


def _type_number(d: CallDescription) -> int | None:
    return TYPES.get(DTYPES.get(d.inputs[0].dtype, ""))


def _run_call(
    joined: BundleCommunicator, call: BundleCall, source: torch.Tensor, got: torch.Tensor
) -> None:
    """Call a collective of the bundle. If input and output are one tensor, it is in place."""
    if not call.count:
        return
    into = got.contiguous()
    send, kept = IN_PLACE, source
    if source is not got:
        kept = _copy_if_aliased(source.contiguous(), (into,))
        send = kept.data_ptr()
    joined.call(call, send, into.data_ptr())
    if into is not got:
        got.copy_(into)


def _exchange_direct(
    joined: BundleCommunicator, sources: Sequence[torch.Tensor], got: Sequence[torch.Tensor]
) -> None:
    into = [tensor.contiguous() for tensor in got]
    kept = [_copy_if_aliased(tensor.contiguous(), into) for tensor in sources]
    joined.straight(
        [tensor.data_ptr() for tensor in kept],
        [tensor.nbytes for tensor in kept],
        [tensor.data_ptr() for tensor in into],
        [tensor.nbytes for tensor in into],
    )
    for tensor, made in zip(got, into, strict=True):
        if made is not tensor:
            tensor.copy_(made)


def _exchange_direct_single(
    joined: BundleCommunicator,
    source: torch.Tensor,
    got: torch.Tensor,
    sent: Sequence[int],
    wanted: Sequence[int],
) -> None:
    into = got.contiguous()
    kept = _copy_if_aliased(source.contiguous(), (into,))
    joined.straight(_block_addresses(kept, sent), sent, _block_addresses(into, wanted), wanted)
    if into is not got:
        got.copy_(into)


def _copy_if_aliased(source: torch.Tensor, into: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the input, copied if it overlaps an output."""
    start, end = source.data_ptr(), source.data_ptr() + source.nbytes
    meets = any(
        tensor.data_ptr() < end and start < tensor.data_ptr() + tensor.nbytes for tensor in into
    )
    return source.clone() if meets else source


def _block_addresses(tensor: torch.Tensor, lengths: Sequence[int]) -> list[int]:
    return list(accumulate(lengths[:-1], initial=tensor.data_ptr()))
