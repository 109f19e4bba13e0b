"""Generate workloads of recommendation models (DLRM) with distributed tables.

Each of N ranks has T / N of T tables, whose rows have E elements, and a replica of all perceptrons.
A rank looks up rows for the samples of all ranks: B samples per rank, L rows per sample and table.
The sums, B T E elements per rank, go to the ranks of their samples by an all-to-all, and gradients
go back. The lengths and indices of lookups (B T and B T L numbers of 8 bytes) are exchanged one
iteration ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

from sccl.errors import ParameterError
from sccl.training.models.parallelism import (
    OPTIMIZER_BYTES,
    Processor,
    check_integers,
    check_positive,
    round_up,
    source_text,
)
from sccl.training.models.program_writer import RoleWriter, WorkloadWriter, build_call
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import MAX_JOB_RANKS, CommOp

INDEX = "int64"


@dataclass(frozen=True, kw_only=True)
class DlrmJob(Processor):
    """A recommendation model, and its training.

    Each rank has its own tables, and all of the perceptrons.
    """

    dtype: str = "float32"
    tflops: float = 15.0
    ranks: Annotated[int, "Number of ranks of the job."]
    batch: Annotated[int, "Samples of a rank."]
    tables: Annotated[int, "Number of tables of all ranks."]
    dimension: Annotated[int, "Number of elements of a row."]
    pooling: Annotated[int, "Number of rows per table and sample, which are summed."]
    bottom: Annotated[
        tuple[int, ...], "Widths of the bottom perceptron, for dense features, as in 512x3/64."
    ]
    top: Annotated[tuple[int, ...], "Widths of the top perceptron, for lookups and dense features."]
    interaction_mflops: Annotated[
        float, "Forward operations per sample between the perceptrons, in 10^6."
    ] = 0.0
    zero: Annotated[int, "3: perceptrons are gathered layer by layer; 0: each rank has them."] = 0
    prefetch: Annotated[int, "Number of layers of which parameters are gathered in advance."] = 2
    data_prefetch: Annotated[bool, "Exchange the next batch while this one is trained on."] = True
    overlap_next: Annotated[
        bool, "Let each layer of the next iteration wait for its gradients."
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers(1, batch=self.batch, tables=self.tables, dimension=self.dimension)
        check_integers(1, pooling=self.pooling)
        check_integers(0, prefetch=self.prefetch)
        if not 2 <= self.ranks <= MAX_JOB_RANKS:
            raise ParameterError(f"ranks is {self.ranks}, expected 2 to {MAX_JOB_RANKS}")
        if self.tables < self.ranks:
            raise ParameterError(
                f"{self.tables} tables are fewer than {self.ranks} ranks, expected at least one "
                "per rank: give more tables, or fewer ranks"
            )
        for name, widths in (("bottom", self.bottom), ("top", self.top)):
            if len(widths) < 2:
                raise ParameterError(
                    f"{name} has {len(widths)} widths, expected two or more, as in 512/256/64: "
                    "each with the next is a layer"
                )
            check_integers(1, **dict.fromkeys([name], min(widths)))
            check_integers(1, **dict.fromkeys([name], max(widths)))
        if self.interaction_mflops:
            check_positive(interaction_mflops=self.interaction_mflops)
        if self.zero not in (0, 3):
            raise ParameterError(f"zero is {self.zero}, expected 0 or 3 of a dlrm")
        if self.zero and self.overlap_next:
            raise ParameterError(
                "overlap-next needs replicated parameters, and with zero 3 each iteration "
                "gathers them layer by layer: leave one of the two out"
            )

    @property
    def rows(self) -> int:
        """Return B T, the sums of rows for a rank's samples, rounded up to a multiple of N."""
        return round_up(self.batch * self.tables, self.ranks)

    def lookup_us(self) -> float:
        """Return the time of lookups in microseconds: L rows are read, and their sum is written."""
        return self.memory_us(self.rows * self.dimension * (self.pooling + 1) * self.item)

    def layer_us(self, parameters: int) -> float:
        """Return the forward time of a layer in microseconds: 2 operations per parameter."""
        return self.compute_us(2 * self.batch * parameters)

    def interaction_us(self) -> float:
        """Return the forward time of the interaction of rows and dense features, in us."""
        return self.compute_us(self.batch * self.interaction_mflops * 1e6)


def layer_parameters(widths: Sequence[int]) -> list[int]:
    """Return the number of parameters of each layer of a perceptron."""
    return [a * b for a, b in pairwise(widths)]


def generate_dlrm(job: DlrmJob, name: str = "dlrm", about: str = "") -> Workload:
    """Return the workload of one training iteration of a recommendation model.

    Args:
        job: Parameters.
        name: Name of the workload.
        about: Source of the parameters.

    Raises:
        InputError: There are too many collectives.
    """
    writer = WorkloadWriter()
    _RankProgram(job, writer.add_role("all", tuple(range(job.ranks)))).write()
    return writer.workload(name, job.ranks, source_text("a dlrm", job, about))


class _RankProgram:
    """The program of all ranks.

    Attributes:
        bottom: Name and number of parameters of each layer of the bottom perceptron.
        top: Name and number of parameters of each layer of the top perceptron.
        gathers: Allgathers of layers, forward and then backward. Empty: parameters are replicated.
        submitted: Number of submitted allgathers.
        visits: Number of layers visited so far.
    """

    def __init__(self, job: DlrmJob, role: RoleWriter) -> None:
        self.job = job
        self.role = role
        self.group = tuple(range(job.ranks))
        self.bottom = [(f"bottom-{k}", n) for k, n in enumerate(layer_parameters(job.bottom))]
        self.top = [(f"top-{k}", n) for k, n in enumerate(layer_parameters(job.top))]
        self.layers = [*self.bottom, *self.top]
        self.gathers: list[CommOp] = []
        if job.zero:
            self.gathers += [self._gather_op(f"gather-forward/{k}", n) for k, n in self.layers]
            back = reversed(self.layers)
            self.gathers += [self._gather_op(f"gather-backward/{k}", n) for k, n in back]
        self.submitted = self.visits = 0

    def write(self) -> None:
        job, role = self.job, self.role
        if job.data_prefetch:
            role.wait("indices", 1)
        self._write_alltoall("lengths", job.rows, INDEX, ())
        if not job.data_prefetch:
            self._write_index_exchange()
            role.wait("indices")
        role.compute("forward/lookup", job.lookup_us())
        self._write_alltoall("rows-forward", job.rows * job.dimension, job.dtype)
        for layer in self.bottom:
            self._write_forward(*layer)
        role.wait("rows-forward")
        role.compute("forward/interaction", job.interaction_us())
        for layer in self.top:
            self._write_forward(*layer)
        if job.data_prefetch:
            self._write_index_exchange()
        for layer in reversed(self.top):
            self._write_backward(*layer)
        role.compute("backward/interaction", 2 * job.interaction_us())
        self._write_alltoall("rows-backward", job.rows * job.dimension, job.dtype)
        for layer in reversed(self.bottom):
            self._write_backward(*layer)
        role.wait("rows-backward")
        role.compute("backward/lookup", job.lookup_us())
        if not job.overlap_next:
            for name, _ in reversed(self.layers):
                role.wait(f"reduce/{name}")
            role.compute("optimizer", self._update_us(sum(n for _, n in self.layers)))

    def _write_alltoall(
        self, name: str, count: int, dtype: str, needs: tuple[tuple[str, int], ...] | None = None
    ) -> None:
        self.role.submit(self._build_op(name, "alltoall", count, dtype), needs)

    def _write_index_exchange(self) -> None:
        """Exchange the indices of lookups, after their lengths."""
        self.role.wait("lengths")
        self._write_alltoall("indices", self.job.rows * self.job.pooling, INDEX, (("lengths", 0),))

    def _build_op(self, name: str, collective: str, count: int, dtype: str) -> CommOp:
        return build_call(name, collective, (self.group,), count, dtype)

    def _update_us(self, parameters: int) -> float:
        shards = self.job.ranks if self.job.zero else 1
        return self.job.memory_us(OPTIMIZER_BYTES * parameters / shards)

    def _gather_op(self, name: str, parameters: int) -> CommOp:
        count = round_up(parameters, self.job.ranks)
        op = self._build_op(name, "allgather", count, self.job.dtype)
        return replace(op, holds_bytes=op.size_bytes)

    def _prefetch_parameters(self) -> None:
        """Wait for the parameters of a layer, and submit the allgathers of following layers."""
        if self.gathers:
            ahead = self.visits + self.job.prefetch + 1
            for op in self.gathers[self.submitted : ahead]:
                self.role.submit(op, (("optimizer", 1),))
            self.submitted = max(self.submitted, ahead)
            self.role.wait(self.gathers[self.visits].id)
        self.visits += 1

    def _write_forward(self, name: str, parameters: int) -> None:
        self._prefetch_parameters()
        if self.job.overlap_next:
            self.role.wait(f"reduce/{name}", 1)
            self.role.compute(f"update/{name}", self._update_us(parameters))
        self.role.compute(f"forward/{name}", self.job.layer_us(parameters))

    def _write_backward(self, name: str, parameters: int) -> None:
        self._prefetch_parameters()
        self.role.compute(f"backward/{name}", 2 * self.job.layer_us(parameters))
        collective = "reducescatter" if self.job.zero else "allreduce"
        count = round_up(parameters, self.job.ranks) if self.job.zero else parameters
        self.role.submit(self._build_op(f"reduce/{name}", collective, count, self.job.dtype))
