"""Define the parallelism of a training job, and the speed of its processors.

Ranks are numbered as in Megatron-LM: tensor-parallel ranks are adjacent, data-parallel replicas
come next, and pipeline stages are farthest apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import groupby
from math import isfinite
from typing import Annotated, Any

from msgspec import Meta

from sccl.core.sizes import ITEM_BYTES
from sccl.errors import ParameterError, TooLargeError
from sccl.training.types.workload_ops import MAX_ELEMENTS, MAX_JOB_RANKS

MAX_MEMBERS = 2**24
"""Largest number of ranks in the groups of all collectives together."""

MAX_VISITS = 50_000
"""Largest number of visited layers."""

_MAX_WIDTHS = 10_000

MODEL_VARIANT = {"model variant": True}
"""Metadata of parameters that are reported only if they differ from their defaults."""

OPTIMIZER_BYTES = 28
"""Bytes that Adam moves per parameter: it reads the gradient, and reads and writes parameter and
both moments, in 32 bits. With 16 bits, the additional copy and the smaller gradient cancel out.
"""


def check_integers(minimum: int, **values: int) -> None:
    """Raise a ParameterError if an integer is below a minimum or above ``MAX_ELEMENTS``."""
    for name, value in values.items():
        if not minimum <= value <= MAX_ELEMENTS:
            raise ParameterError(
                f"{option_name(name)} is {value}, expected {minimum} to {MAX_ELEMENTS}"
            )


def check_size_limit(number: int, label: str) -> None:
    """Raise a TooLargeError if a number exceeds :data:`MAX_VISITS`."""
    if number > MAX_VISITS:
        raise TooLargeError(f"there are {number} {label} and up to {MAX_VISITS} are made")


def check_positive(**values: float) -> None:
    """Raise a ParameterError unless all numbers are finite and positive."""
    for name, value in values.items():
        if not (isfinite(value) and value > 0):
            raise ParameterError(f"{option_name(name)} is {value:g}, expected a number above 0")


def check_divides(part: str, divisor: int, total: str, number: int) -> None:
    """Raise a ParameterError unless a number is a multiple of a divisor."""
    if number % divisor:
        raise ParameterError(
            f"{option_name(total)} is {number}, which is no multiple of {option_name(part)}, "
            f"{divisor}: change "
            "one of both"
        )


def option_name(name: str) -> str:
    """Return the command-line name of a parameter."""
    return name.replace("_", "-")


def round_up(number: int, of: int) -> int:
    """Round a number up to a multiple of ``of``."""
    return -(-number // of) * of


@dataclass(frozen=True, kw_only=True)
class Processor:
    """The processor of each rank. Fields are options of users (:mod:`sccl.api.option_fields`)."""

    dtype: Annotated[
        str,
        Meta(extra={"choices": tuple(ITEM_BYTES)}),
        "Type of parameters, gradients, and activations.",
    ] = "bfloat16"
    tflops: Annotated[float, "Peak of a rank in 10^12 operations per second."] = 125.0
    efficiency: Annotated[float, "Share of the peak that computation reaches."] = 0.5
    memory_gb_per_s: Annotated[float, "Memory bandwidth of a rank in 10^9 bytes/s."] = 900.0

    def __post_init__(self) -> None:
        if self.dtype not in ITEM_BYTES:
            raise ParameterError(
                f"dtype is {self.dtype!r:.40}, expected one of {', '.join(ITEM_BYTES)}"
            )
        check_positive(tflops=self.tflops, memory_gb_per_s=self.memory_gb_per_s)
        if not 0 < self.efficiency <= 1:
            raise ParameterError(
                f"efficiency is {self.efficiency:g}, expected a part of the peak, above 0 and up "
                "to 1"
            )

    @property
    def item(self) -> int:
        """Return the bytes of an element."""
        return ITEM_BYTES[self.dtype]

    def compute_us(self, flops: float) -> float:
        """Return the time of operations in microseconds: operations / (peak * efficiency)."""
        return flops / (self.tflops * 1e6 * self.efficiency)

    def memory_us(self, moved: float) -> float:
        """Return the time to move bytes from or to memory, in microseconds."""
        return moved / (self.memory_gb_per_s * 1e3)

    def list_parameters(self) -> dict[str, Any]:
        """Return the parameters by option name, without variants of the model that are off."""
        return {
            option_name(field.name): value
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
            or field.metadata != MODEL_VARIANT
        }

    def parameters_text(self) -> str:
        """Return the parameters as text, in the notation of the options."""
        return ", ".join(
            f"{name} {_value_text(value)}" for name, value in self.list_parameters().items()
        )


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return widths_text(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def widths_text(widths: tuple[int, ...]) -> str:
    """Return the text of widths, with repetitions abbreviated, such as ``512x3/64``."""
    runs = [(width, len(list(run))) for width, run in groupby(widths)]
    return "/".join(f"{width}x{times}" if times > 1 else str(width) for width, times in runs)


def parse_widths(text: str, label: str) -> tuple[int, ...]:
    """Parse widths such as ``512x3/64``: 512 three times, then 64.

    Raises:
        ParameterError: The text is invalid, or has too many widths.
    """
    widths: list[int] = []
    for word in text.split("/"):
        match = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,4}))?", word.strip())
        times = int(match[2] or 1) if match else 0
        if match is None or len(widths) + times > _MAX_WIDTHS:
            raise ParameterError(
                f"{label} is {text!r:.60}, expected up to {_MAX_WIDTHS} numbers, as in 512x3/64: "
                "512 three times, then 64"
            )
        widths += [int(match[1])] * times
    return tuple(widths)


def source_text(model: str, job: Processor, about: str) -> str:
    """Return the source of a workload: its model and its parameters."""
    return f"sccl train make: {model} of {job.parameters_text()}{'. ' if about else ''}{about}"


@dataclass(frozen=True, kw_only=True)
class ParallelJob(Processor):
    """A job of several ranks, with the distribution of model, data, and states."""

    tp: Annotated[int, "Size of a tensor-parallel group, t, which shares tensors of a layer."] = 1
    pp: Annotated[int, "Number of pipeline stages, with equal numbers of layers."] = 1
    dp: Annotated[int, "Number of data-parallel replicas, d.", "1, or the remainder of --ranks"] = 1
    zero: Annotated[
        int,
        "ZeRO stage: 0 nothing, 1 optimizer states, 2 also gradients, 3 also parameters are "
        "sharded.",
    ] = 0
    microbatches: Annotated[int, "Number of microbatches of an iteration, in sequence."] = 1
    sequence_parallel: Annotated[
        bool, "Use reducescatter and allgather instead of allreduces in tensor groups."
    ] = False
    bucket_mb: Annotated[float, "Size of a gradient bucket in 10^6 bytes."] = 25.0
    prefetch: Annotated[
        int, "Number of layers of which parameters are gathered in advance (zero 3)."
    ] = 2
    overlap_next: Annotated[
        bool, "Let the next iteration wait for gradients or parameters layer by layer."
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers(1, tp=self.tp, pp=self.pp, dp=self.dp, microbatches=self.microbatches)
        check_integers(0, prefetch=self.prefetch)
        check_positive(bucket_mb=self.bucket_mb)
        if self.zero not in range(4):
            raise ParameterError(f"zero is {self.zero}, expected 0 to 3")
        if self.zero == 3 and self.overlap_next:
            raise ParameterError(
                "overlap-next needs replicated parameters, and with zero 3 each iteration "
                "gathers them block by block: leave one of the two out"
            )
        if self.sequence_parallel and self.tp == 1:
            raise ParameterError(
                "sequence-parallel needs tensor parallelism, and tp is 1: give --tp 2 or more"
            )
        if self.ranks > MAX_JOB_RANKS:
            raise TooLargeError(
                f"tp * pp * dp is {self.ranks} ranks, expected at most {MAX_JOB_RANKS}"
            )

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.tp * self.pp * self.dp


Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class RankLayout:
    """The groups of ranks.

    Attributes:
        tp: Size of a tensor-parallel group.
        dp: Number of data-parallel replicas.
        pp: Number of pipeline stages.
        ep: Number of ranks that share the experts of a layer. They are consecutive in a stage.
    """

    tp: int
    dp: int
    pp: int = 1
    ep: int = 1

    @cached_property
    def _stages(self) -> tuple[range, ...]:
        each = self.tp * self.dp
        return tuple(range(stage * each, (stage + 1) * each) for stage in range(self.pp))

    def stage_ranks(self, stage: int) -> tuple[int, ...]:
        """Return the ranks of a stage."""
        return tuple(self._stages[stage])

    def tensors(self, stage: int) -> Groups:
        """Return the groups of ranks that share the tensors of layers."""
        ranks = self._stages[stage]
        return tuple(tuple(ranks[at : at + self.tp]) for at in range(0, len(ranks), self.tp))

    def replicas(self, stage: int) -> Groups:
        """Return the groups of ranks with the same parameters and different data."""
        return tuple(tuple(self._stages[stage][at :: self.tp]) for at in range(self.tp))

    def experts(self, stage: int) -> Groups:
        """Return the groups of ranks that share the experts of layers."""
        ranks = self._stages[stage]
        return tuple(tuple(ranks[at : at + self.ep]) for at in range(0, len(ranks), self.ep))

    def expert_replicas(self, stage: int) -> Groups:
        """Return the groups of ranks with the same experts."""
        return tuple(tuple(self._stages[stage][at :: self.ep]) for at in range(self.ep))

    def pairs(self, giver: int, taker: int) -> Groups:
        """Return the pairs of ranks at the same place in two stages."""
        return tuple(zip(self._stages[giver], self._stages[taker], strict=True))
