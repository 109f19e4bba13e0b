"""Generate programs of pipeline stages: 1F1B, with gradients and parameters sharded as in ZeRO.

A stage begins with one forward pass for each stage after it. Then it alternates one forward and one
backward pass, and ends with the remaining backward passes. It posts the receive of its next pass
before it begins the current one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sccl.training.models.parallelism import (
    OPTIMIZER_BYTES,
    Groups,
    ParallelJob,
    RankLayout,
    round_up,
)
from sccl.training.models.program_writer import RoleWriter, WorkloadWriter, build_call
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp


class RankSet(StrEnum):
    """The ranks of a collective."""

    TENSORS = "tensors"
    REPLICAS = "replicas"
    EXPERTS = "experts"
    EXPERT_REPLICAS = "expert-replicas"


@dataclass(frozen=True, slots=True)
class BlockCompute:
    """A computation of a block.

    Attributes:
        name: Name within the block.
        us: Duration in microseconds.
        experts: Whether it uses parameters of experts, instead of replicated ones.
        is_independent: Whether it is independent of the collective before it, like gradients of
            weights.
    """

    name: str
    us: float
    experts: bool = False
    is_independent: bool = False


@dataclass(frozen=True, slots=True)
class BlockCall:
    """A collective of a block. Its elements are rounded up to a multiple of its ranks."""

    name: str
    collective: str
    rank_set: RankSet
    elements: int


BlockStep = BlockCompute | BlockCall


@dataclass(frozen=True, slots=True)
class ModelBlock:
    """A layer of a model, or a part before or after the layers, on one rank.

    Attributes:
        name: Name of the block.
        forward: Steps of the forward pass, in order.
        backward: Steps of the backward pass, in order.
        parameters: Number of replicated parameters.
        expert_parameters: Number of parameters of the rank's experts.
        tied_parameters: Number of parameters that belong to another block and are also used here.
            The other block reduces their gradients and updates them. ZeRO-3 gathers them for both
            blocks.
    """

    name: str
    forward: tuple[BlockStep, ...]
    backward: tuple[BlockStep, ...]
    parameters: int = 0
    expert_parameters: int = 0
    tied_parameters: int = 0


@dataclass(frozen=True, slots=True)
class PipelinePass:
    """The forward or backward pass of a microbatch."""

    microbatch: int
    backward: bool = False


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> list[PipelinePass]:
    """Return the passes of a stage in 1F1B order."""
    ahead = min(stages - 1 - stage, microbatches)
    passes = [PipelinePass(i) for i in range(ahead)]
    for i in range(ahead, microbatches):
        passes += [PipelinePass(i), PipelinePass(i - ahead, backward=True)]
    left = range(microbatches - ahead, microbatches)
    return passes + [PipelinePass(i, backward=True) for i in left]


def generate_stages(
    job: ParallelJob,
    layout: RankLayout,
    blocks: Sequence[Sequence[ModelBlock]],
    boundary: int,
    named: tuple[str, str],
) -> Workload:
    """Return the workload of a model in pipeline stages.

    Args:
        job: Parallelism of the job.
        layout: Groups of ranks.
        blocks: Blocks of each stage, in the order of the forward pass.
        boundary: Elements of activations that a rank sends to the next stage, and of gradients that
            it sends back.
        named: Name of the workload, and its source.

    Raises:
        InputError: There are no collectives, or too many.
    """
    writer = WorkloadWriter()
    for stage, stage_blocks in enumerate(blocks):
        name = f"stage-{stage}" if job.pp > 1 else "all"
        role = writer.add_role(name, layout.stage_ranks(stage))
        _StageWriter(job, layout, stage, stage_blocks, boundary, role).write()
    return writer.workload(named[0], job.ranks, named[1])


@dataclass(frozen=True, slots=True)
class _GradientBucket:
    """Blocks whose gradients are reduced together, in the order of the backward pass."""

    name: str
    blocks: tuple[str, ...]
    parameters: int
    rank_set: RankSet


def gradient_buckets(
    blocks: Sequence[ModelBlock], item: int, bucket_bytes: float
) -> list[_GradientBucket]:
    """Return the buckets of gradients in the order of the backward pass.

    Args:
        blocks: Blocks of the stage, in the order of the forward pass.
        item: Bytes of an element.
        bucket_bytes: Size at which a bucket is complete.
    """
    result: list[_GradientBucket] = []
    names: list[str] = []
    parameters = 0
    for block in reversed(blocks):
        if block.parameters:
            names.append(block.name)
            parameters += block.parameters
        if names and (parameters * item >= bucket_bytes or block is blocks[0]):
            name = names[0] if len(names) == 1 else f"{names[0]}-to-{names[-1]}"
            result.append(_GradientBucket(name, tuple(names), parameters, RankSet.REPLICAS))
            names, parameters = [], 0
    return result


def _expert_buckets(blocks: Sequence[ModelBlock]) -> list[_GradientBucket]:
    return [
        _GradientBucket(
            f"{b.name}/experts", (b.name,), b.expert_parameters, RankSet.EXPERT_REPLICAS
        )
        for b in reversed(blocks)
        if b.expert_parameters
    ]


@dataclass(frozen=True, slots=True)
class _ParameterGather:
    """The allgather of a block's parameters before a visit (ZeRO-3)."""

    op: CommOp
    visit: int
    experts: bool


@dataclass(slots=True)
class _StageWriter:
    job: ParallelJob
    layout: RankLayout
    stage: int
    blocks: Sequence[ModelBlock]
    boundary: int
    role: RoleWriter
    groups: dict[RankSet, Groups] = field(init=False)
    buckets: list[_GradientBucket] = field(init=False)
    complete: dict[str, list[_GradientBucket]] = field(default_factory=lambda: defaultdict(list))
    pending: list[str] = field(default_factory=list)
    reducing: list[str] = field(default_factory=list)
    gathers: list[_ParameterGather] = field(default_factory=list)
    gathers_by_visit: dict[int, list[_ParameterGather]] = field(
        default_factory=lambda: defaultdict(list)
    )
    submitted: int = 0

    def __post_init__(self) -> None:
        self.groups = {
            RankSet.TENSORS: self.layout.tensors(self.stage),
            RankSet.REPLICAS: self.layout.replicas(self.stage),
            RankSet.EXPERTS: self.layout.experts(self.stage),
            RankSet.EXPERT_REPLICAS: self.layout.expert_replicas(self.stage),
        }
        min_bytes = 0.0 if self.job.zero == 3 else self.job.bucket_mb * 1e6
        all_buckets = [
            *gradient_buckets(self.blocks, self.job.item, min_bytes),
            *_expert_buckets(self.blocks),
        ]
        self.buckets = [
            candidate for candidate in all_buckets if len(self.groups[candidate.rank_set][0]) > 1
        ]
        for bucket in self.buckets:
            self.complete[bucket.blocks[-1]].append(bucket)

    def write(self) -> None:
        passes = one_forward_one_backward(self.stage, self.job.pp, self.job.microbatches)
        if self.job.zero == 3:
            self.gathers = list(self._plan_gathers(passes))
            for gather in self.gathers:
                self.gathers_by_visit[gather.visit].append(gather)
        self._post_receive(passes[0])
        for at, pipe_pass in enumerate(passes):
            if at + 1 < len(passes):
                self._post_receive(passes[at + 1])
            self._receive(pipe_pass)
            for place in range(len(self.blocks)):
                self._visit_block(at, place, pipe_pass)
            self._send(pipe_pass)
        self._update()

    # Stages: a send is a broadcast between two ranks, for all pairs of ranks at once.

    def _send_op(self, pipe_pass: PipelinePass, giver: int) -> CommOp:
        taker = giver - 1 if pipe_pass.backward else giver + 1
        name = self._op_id("gradients" if pipe_pass.backward else "activations", pipe_pass)
        pairs = self.layout.pairs(giver, taker)
        return build_call(
            f"{name}/{giver}-to-{taker}", "broadcast", pairs, self.boundary, self.job.dtype
        )

    def _receive_op(self, pipe_pass: PipelinePass) -> CommOp | None:
        giver = self.stage + 1 if pipe_pass.backward else self.stage - 1
        return self._send_op(pipe_pass, giver) if 0 <= giver < self.job.pp else None

    def _post_receive(self, pipe_pass: PipelinePass) -> None:
        if (op := self._receive_op(pipe_pass)) is not None:
            self.role.submit(op, ())

    def _receive(self, pipe_pass: PipelinePass) -> None:
        if (op := self._receive_op(pipe_pass)) is None:
            return
        self._wait_for_pending()
        self.role.wait(op.id)
        if self.job.tp > 1 and not self.job.sequence_parallel:
            name = f"{op.id}/whole"
            elements = self.boundary * self.job.tp
            self._write_call(BlockCall(name, "allgather", RankSet.TENSORS, elements))

    def _send(self, pipe_pass: PipelinePass) -> None:
        taker = self.stage - 1 if pipe_pass.backward else self.stage + 1
        if 0 <= taker < self.job.pp:
            self._wait_for_pending()
            self.role.submit(self._send_op(pipe_pass, self.stage))

    # Passes over blocks.

    def _op_id(self, word: str, pipe_pass: PipelinePass) -> str:
        return f"{word}-{pipe_pass.microbatch}" if self.job.microbatches > 1 else word

    def _visit_block(self, at: int, place: int, pipe_pass: PipelinePass) -> None:
        """Write the steps of a block's forward or backward pass."""
        block = self.blocks[-1 - place] if pipe_pass.backward else self.blocks[place]
        visit = at * len(self.blocks) + place
        gathered = self._submit_gathers(visit)
        if pipe_pass == PipelinePass(0):
            self._wait_for_last_iteration(block)
        word = self._op_id("backward" if pipe_pass.backward else "forward", pipe_pass)
        steps = block.backward if pipe_pass.backward else block.forward
        last = {s.experts: s for s in steps if isinstance(s, BlockCompute) and not s.is_independent}
        waited: set[bool] = set()
        for step in steps:
            name = f"{word}/{block.name}/{step.name}".removesuffix("/")
            if isinstance(step, BlockCall):
                self._write_call(BlockCall(name, step.collective, step.rank_set, step.elements))
                continue
            if not step.is_independent:
                self._wait_for_pending()
            mine = [g.op.id for g in gathered if g.experts == step.experts]
            if step.experts not in waited:
                waited.add(step.experts)
                for gather in mine:
                    self.role.wait(gather)
            self.role.compute(name, step.us, *(mine if step is last[step.experts] else ()))
        if pipe_pass.backward:
            self._reduce_gradients(block, pipe_pass)

    def _write_call(self, step: BlockCall) -> None:
        groups = self.groups[step.rank_set]
        if len(groups[0]) > 1:
            self._wait_for_pending()
            self.role.submit(self._build_op(step, groups))
            self.pending.append(step.name)

    def _build_op(self, step: BlockCall, groups: Groups) -> CommOp:
        count = step.elements
        if step.collective != "allreduce":
            count = round_up(count, len(groups[0]))
        return build_call(step.name, step.collective, groups, count, self.job.dtype)

    def _wait_for_pending(self) -> None:
        for name in self.pending:
            self.role.wait(name)
        self.pending = []

    # Sharded parameters: ZeRO-3.

    def _plan_gathers(self, passes: Sequence[PipelinePass]) -> Iterator[_ParameterGather]:
        for at, pipe_pass in enumerate(passes):
            word = self._op_id(
                "gather-backward" if pipe_pass.backward else "gather-forward", pipe_pass
            )
            for place in range(len(self.blocks)):
                block = self.blocks[-1 - place] if pipe_pass.backward else self.blocks[place]
                for among, name, parameters in (
                    (RankSet.REPLICAS, block.name, block.parameters + block.tied_parameters),
                    (RankSet.EXPERT_REPLICAS, f"{block.name}/experts", block.expert_parameters),
                ):
                    groups = self.groups[among]
                    if parameters and len(groups[0]) > 1:
                        step = BlockCall(f"{word}/{name}", "allgather", among, parameters)
                        op = self._build_op(step, groups)
                        op = replace(op, holds_bytes=op.size_bytes)
                        experts = among is RankSet.EXPERT_REPLICAS
                        yield _ParameterGather(op, at * len(self.blocks) + place, experts)

    def _submit_gathers(self, visit: int) -> list[_ParameterGather]:
        """Submit the gathers of a visit and of prefetched ones. Return those of the visit."""
        while self.submitted < len(self.gathers):
            gather = self.gathers[self.submitted]
            if gather.visit > visit + self.job.prefetch:
                break
            self.role.submit(gather.op, ((self._optimizer, 1),))
            self.submitted += 1
        return self.gathers_by_visit[visit]

    # Gradients and the optimizer.

    def _reduce_gradients(self, block: ModelBlock, pipe_pass: PipelinePass) -> None:
        """Submit the reductions of gradient buckets that a block's backward pass completes."""
        if self.job.zero < 2 and pipe_pass.microbatch < self.job.microbatches - 1:
            return
        word = self._op_id("reduce", pipe_pass) if self.job.zero > 1 else "reduce"
        for bucket in self.complete[block.name]:
            verb = "reducescatter" if self.job.zero else "allreduce"
            step = BlockCall(f"{word}/{bucket.name}", verb, bucket.rank_set, bucket.parameters)
            self.role.submit(self._build_op(step, self.groups[bucket.rank_set]))
            self.reducing.append(step.name)

    @property
    def _optimizer(self) -> str:
        return f"optimizer/stage-{self.stage}" if self.job.pp > 1 else "optimizer"

    @property
    def _is_update_deferred(self) -> bool:
        """Return whether the next iteration updates the parameters, block by block."""
        return self.job.overlap_next and not self.job.zero

    def _update_us(self, parameters: int, among: RankSet) -> float:
        shards = len(self.groups[among][0]) if self.job.zero else 1
        return self.job.memory_us(OPTIMIZER_BYTES * parameters / shards)

    def _update(self) -> None:
        """Write the optimizer step, and the gathers of parameters that it shards (ZeRO-1, 2)."""
        self._wait_for_pending()
        later = {entry.rank_set for entry in self.buckets} if self._is_update_deferred else set()
        us = sum(
            self._update_us(parameters, among)
            for block in self.blocks
            for among, parameters in (
                (RankSet.REPLICAS, block.parameters),
                (RankSet.EXPERT_REPLICAS, block.expert_parameters),
            )
            if among not in later
        )
        if not self._is_update_deferred:
            for name in self.reducing:
                self.role.wait(name)
        if not self._is_update_deferred or us:
            self.role.compute(self._optimizer, us)
        if self.job.zero not in (1, 2):
            return
        for bucket in reversed(self.buckets):
            step = BlockCall(_gather_id(bucket), "allgather", bucket.rank_set, bucket.parameters)
            self.role.submit(
                self._build_op(step, self.groups[bucket.rank_set]), ((self._optimizer, 0),)
            )
        if not self.job.overlap_next:
            for bucket in reversed(self.buckets):
                self.role.wait(_gather_id(bucket))

    def _wait_for_last_iteration(self, block: ModelBlock) -> None:
        """Wait for the previous iteration's work on the parameters of a block."""
        if not self.job.overlap_next:
            return
        for bucket in self.complete[block.name]:
            if self.job.zero:
                self.role.wait(_gather_id(bucket), 1)
            else:
                self.role.wait(f"reduce/{bucket.name}", 1)
                us = self._update_us(bucket.parameters, bucket.rank_set)
                self.role.compute(f"update/{bucket.name}", us)


def _gather_id(bucket: _GradientBucket) -> str:
    return f"gather/{bucket.name}"
