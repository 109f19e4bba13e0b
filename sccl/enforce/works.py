"""Works of calls that others carry: what goes wrong says which call that was, and who is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from sccl.enforce.peers import CallError

Naming = Callable[[BaseException], CallError]
"""Makes an error that says which call it is of."""


class CarriedWork(dist._Work):  # noqa: SLF001 - what torch's own groups in Python derive from
    """The work of a call, as what carries it has made it."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self._inner = inner

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait until results are there."""
        return bool(self._inner.wait(*args, **kwargs))

    def get_future(self) -> Any:
        """Return what is done when results are there."""
        return self._inner.get_future()

    def is_completed(self) -> bool:
        """Return whether results are there."""
        return bool(self._inner.is_completed())

    def is_success(self) -> bool:
        """Return whether all went well."""
        return bool(self._inner.is_success())

    def exception(self) -> Any:
        """Return what went wrong."""
        return self._inner.exception()

    def result(self) -> Any:
        """Return the results."""
        return self._inner.result()

    def synchronize(self) -> None:
        """Let what follows wait."""
        self._inner.synchronize()

    def source_rank(self) -> int:
        """Return who sent it."""
        return int(self._inner.source_rank())

    def _source_rank(self) -> int:
        return int(self._inner._source_rank())  # noqa: SLF001 - torch's name


class NamedWork(CarriedWork):
    """One whose errors name the call, in one sentence."""

    def __init__(self, inner: Any, naming: Naming) -> None:
        super().__init__(inner)
        self._naming = naming

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait until results are there.

        Raises:
            CallError: they will not be.
        """
        try:
            return bool(self._inner.wait(*args, **kwargs))
        except RuntimeError as error:
            raise self._naming(error) from error

    def get_future(self) -> Any:
        """Return what is done when results are there."""
        return self._inner.get_future().then(self._value)

    def _value(self, future: Any) -> Any:
        try:
            return future.value()
        except RuntimeError as error:
            raise self._naming(error) from error


def named(inner: Any, naming: Naming) -> NamedWork | None:
    """Return a work whose errors name the call; None where torch gives none, as it is done.

    That is so of calls that a stream waits for by itself.
    """
    return None if inner is None else NamedWork(inner, naming)


class CopiedWork(CarriedWork):
    """The work of a call on copies: it copies the results to the tensors of the job."""

    def __init__(
        self, inner: Any, copies: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]
    ) -> None:
        super().__init__(inner)
        self._copies, self._wanted = copies, wanted
        self._future = inner.get_future().then(self._filled)

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        """Wait until results are in place."""
        self._inner.wait(*args, **kwargs)  # raises what went wrong as it is
        self._future.wait()
        return True

    def get_future(self) -> Any:
        """Return what is done when results are in place."""
        return self._future

    def is_completed(self) -> bool:
        """Return whether results are in place."""
        return bool(self._future.done())

    def result(self) -> Any:
        """Return the results."""
        return list(self._wanted)

    def _filled(self, future: Any) -> Any:
        future.value()  # raises what went wrong
        for tensor, copy in zip(self._wanted, self._copies, strict=True):
            if copy is not tensor:
                tensor.detach().copy_(copy.view(tensor.shape))
        return list(self._wanted)


def all_to_all_of_lists(group: Any, outputs: Any, inputs: Any, *_: Any) -> CopiedWork:
    """Return the work of an exchange of tensors of any sizes: gloo's own takes them of one size."""
    given = torch.cat([one.reshape(-1) for one in inputs])
    came = given.new_empty(sum(one.numel() for one in outputs))
    sizes = [[one.numel() for one in those] for those in (outputs, inputs)]
    work = group.all_to_all_single(came, given, *sizes)
    return CopiedWork(work, came.split(sizes[0]), outputs)


def in_contiguous_memory(name: str) -> Callable[..., Any]:
    """Return a call of gloo's method for tensors in place, which copies non-contiguous ones.

    Gloo takes the elements of a tensor as consecutive in memory, whatever its strides are.
    """

    def carry(group: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        every = tensors if isinstance(tensors, list | tuple) else [tensors]
        if all(map(_is_as_gloo_reads, every)):
            return getattr(group, name)(tensors, *args, **kwargs)
        copies = [one if _is_as_gloo_reads(one) else one.detach().contiguous() for one in every]
        return CopiedWork(getattr(group, name)(copies, *args, **kwargs), copies, every)

    return carry


def all_to_all_in_contiguous_memory(name: str) -> Callable[..., Any]:
    """Return a call of gloo's exchange that copies non-contiguous tensors and shared memory."""

    def carry(group: Any, output: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        came = output if _is_as_gloo_reads(output) else output.detach().contiguous()
        sent = given if _is_as_gloo_reads(given) else given.detach().contiguous()
        if came.untyped_storage().data_ptr() == sent.untyped_storage().data_ptr():
            sent = sent.detach().clone()
        work = getattr(group, name)(came, sent, *args, **kwargs)
        return work if came is output else CopiedWork(work, [came], [output])

    return carry


def _is_as_gloo_reads(tensor: torch.Tensor) -> bool:
    return tensor.layout != torch.strided or bool(tensor.is_contiguous())
