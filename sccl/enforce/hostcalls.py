"""Translate calls of a group to a bundle's C API: addresses, counts, and copies if needed.

All ranks make the same decisions, because they use only properties that the caller must make equal
on all ranks. So an alltoall with splits, which differ, takes one path for all sizes. Tensors that
are not contiguous, which may differ by rank, are copied and not refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate

import torch

from sccl.enforce.described import DTYPES, Described
from sccl.enforce.joined import IN_PLACE, OPS, TYPES, BundleCall, Joined

Job = Callable[[], None]
Maker = Callable[[Joined, int, Described], "BundleJob | None"]
BundleJob = tuple[str, Job]
"""The collective of the bundle that it uses (empty: none), and the function that makes the call."""

_BYTES = TYPES["int8"]


def job_of(joined: Joined, ranks: int, does: str, described: Described) -> BundleJob | None:
    """Return the job of a call. None: gloo carries it.

    Args:
        does: Key of :data:`~sccl.enforce.releases.NAMES`.
    """
    make = _MAKERS.get(does)
    every = (*described.given, *described.got)
    if make is None or any(t.layout != torch.strided or t.device.type != "cpu" for t in every):
        return None
    return make(joined, ranks, described)


def _all_reduce(joined: Joined, _ranks: int, d: Described) -> BundleJob | None:
    kind = _kind_of(d)
    if len(d.given) != 1 or kind is None or d.reduce not in OPS:
        return None
    own = d.given[0]
    call = BundleCall(b"allreduce", own.numel(), kind, OPS[d.reduce])
    return "allreduce", partial(_run, joined, call, own, own)


def _broadcast(joined: Joined, _ranks: int, d: Described) -> BundleJob | None:
    if len(d.given) != 1:
        return None
    own = d.given[0]
    call = BundleCall(b"broadcast", own.nbytes, _BYTES, root=d.root or 0)
    return "broadcast", partial(_run, joined, call, own, own)


def _all_gather_single(joined: Joined, ranks: int, d: Described) -> BundleJob | None:
    given, got = d.given[0], d.got[0]
    if given.dtype != got.dtype or got.numel() != given.numel() * ranks:
        return None
    call = BundleCall(b"allgather", given.nbytes, _BYTES)
    return "allgather", partial(_run, joined, call, given, got)


def _reduce_scatter_single(joined: Joined, ranks: int, d: Described) -> BundleJob | None:
    given, got, kind = d.given[0], d.got[0], _kind_of(d)
    if kind is None or d.reduce not in OPS or given.numel() != got.numel() * ranks:
        return None
    call = BundleCall(b"reducescatter", got.numel(), kind, OPS[d.reduce])
    return "reducescatter", partial(_run, joined, call, given, got)


def _reduce_scatter(joined: Joined, ranks: int, d: Described) -> BundleJob | None:
    if len(d.given) != ranks or len(d.got) != 1:
        return None
    if any(one.numel() != d.got[0].numel() for one in d.given):
        return None
    whole = torch.cat([one.detach().reshape(-1) for one in d.given])
    return _reduce_scatter_single(joined, ranks, Described("", (whole,), d.got, reduce=d.reduce))


def _all_gather(joined: Joined, ranks: int, d: Described) -> BundleJob | None:
    if len(d.given) != 1 or len(d.got) != ranks:
        return None
    if any(one.nbytes != d.given[0].nbytes for one in d.got):
        return None
    return "", partial(_straight, joined, d.given * ranks, d.got)


def _all_to_all(joined: Joined, ranks: int, d: Described) -> BundleJob | None:
    if not len(d.given) == len(d.got) == ranks:
        return None
    return "", partial(_straight, joined, d.given, d.got)


def _all_to_all_single(joined: Joined, ranks: int, d: Described) -> BundleJob | None:
    given, got = d.given[0], d.got[0]
    gives = d.gives or (given.numel() // ranks,) * ranks
    gets = d.gets or (got.numel() // ranks,) * ranks
    sent, wanted = ([each.element_size() * n for n in parts]
                    for each, parts in ((given, gives), (got, gets)))  # fmt: skip
    if len(sent) != ranks or sum(sent) != given.nbytes:
        return None
    if len(wanted) != ranks or sum(wanted) != got.nbytes:
        return None
    return "", partial(_straight_single, joined, given, got, sent, wanted)


_MAKERS: Mapping[str, Maker] = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "all_gather_single": _all_gather_single,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter_single,
    "all_to_all": _all_to_all,
    "all_to_all_single": _all_to_all_single,
}


def _kind_of(d: Described) -> int | None:
    return TYPES.get(DTYPES.get(d.given[0].dtype, ""))


def _run(joined: Joined, call: BundleCall, given: torch.Tensor, got: torch.Tensor) -> None:
    """Make a call of a program; where both are the same tensor, in place."""
    if not call.count:
        return
    into = got.contiguous()
    send, kept = IN_PLACE, given
    if given is not got:
        kept = _apart(given.contiguous(), (into,))
        send = kept.data_ptr()
    joined.call(call, send, into.data_ptr())
    if into is not got:
        got.copy_(into)


def _straight(joined: Joined, given: Sequence[torch.Tensor], got: Sequence[torch.Tensor]) -> None:
    into = [one.contiguous() for one in got]
    kept = [_apart(one.contiguous(), into) for one in given]
    joined.straight(
        [one.data_ptr() for one in kept],
        [one.nbytes for one in kept],
        [one.data_ptr() for one in into],
        [one.nbytes for one in into],
    )
    for one, made in zip(got, into, strict=True):
        if made is not one:
            one.copy_(made)


def _straight_single(
    joined: Joined,
    given: torch.Tensor,
    got: torch.Tensor,
    sent: Sequence[int],
    wanted: Sequence[int],
) -> None:
    into = got.contiguous()
    kept = _apart(given.contiguous(), (into,))
    joined.straight(_places(kept, sent), sent, _places(into, wanted), wanted)
    if into is not got:
        got.copy_(into)


def _apart(given: torch.Tensor, into: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the input, copied if it overlaps an output."""
    start, end = given.data_ptr(), given.data_ptr() + given.nbytes
    meets = any(one.data_ptr() < end and start < one.data_ptr() + one.nbytes for one in into)
    return given.clone() if meets else given


def _places(tensor: torch.Tensor, lengths: Sequence[int]) -> list[int]:
    return list(accumulate(lengths[:-1], initial=tensor.data_ptr()))
