"""Generate workloads of transformers from the shape of their layers.

A layer has P = 2 h^2 (1 + k / a) + m h f parameters. Here h is the width, a the number of query
heads, k the number of key/value heads, f the width of the perceptron, and m the number of its
matrices: 2, or 3 if it is gated. With k = a, f = 4 h and m = 2, P is 12 h^2 (Narayanan et al., SC
2021). Each of t tensor-parallel ranks has P / t parameters. In the forward pass of b sequences of s
tokens, it computes 2 b s P / t operations for parameters, and 4 b s^2 h / t for attention itself.
The backward pass has twice as many. Biases, norms, and learned positions are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from sccl.errors import ParameterError
from sccl.training.models.parallelism import (
    MODEL_VARIANT,
    ParallelJob,
    RankLayout,
    check_divides,
    check_integers,
    check_size_limit,
    source_text,
)
from sccl.training.models.pipeline_stages import (
    BlockCall,
    BlockCompute,
    BlockStep,
    ModelBlock,
    RankSet,
    generate_stages,
)
from sccl.training.types.workload import Workload

RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True, kw_only=True)
class TransformerJob(ParallelJob):
    """A transformer, and its training."""

    layers: Annotated[int, "Number of layers of all stages."]
    hidden: Annotated[int, "Width, h."]
    heads: Annotated[int, "Number of attention heads."]
    sequence: Annotated[int, "Tokens, s."] = 2048
    batch: Annotated[int, "Sequences of a microbatch, or samples or pictures of a rank."] = 1
    vocabulary: Annotated[
        int, "Vocabulary size, V, with an embedding and an output matrix; 0: neither."
    ] = 0
    recompute: Annotated[
        str,
        Meta(extra={"choices": RECOMPUTE}),
        f"Recomputation in the backward pass: {', '.join(RECOMPUTE)} (attention, or whole layers "
        "with their collectives).",
    ] = "none"
    split_backward: Annotated[bool, "Compute weight gradients while input gradients are sent."] = (
        False
    )
    mlp_width: Annotated[int | None, "Width of the perceptron and of experts, f.", "4 * hidden"] = (
        field(default=None, metadata=MODEL_VARIANT)
    )
    kv_heads: Annotated[
        int | None, "Number of key/value heads of grouped-query attention.", "the number of heads"
    ] = field(default=None, metadata=MODEL_VARIANT)
    gated_mlp: Annotated[
        bool, "A third matrix in each perceptron and expert, for its gate (SwiGLU, GeGLU)."
    ] = field(default=False, metadata=MODEL_VARIANT)
    tied_embeddings: Annotated[
        bool, "One matrix for the embedding and behind the layers, with a single stage."
    ] = field(default=False, metadata=MODEL_VARIANT)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers(1, layers=self.layers, hidden=self.hidden, heads=self.heads)
        check_integers(1, sequence=self.sequence, batch=self.batch)
        check_integers(0, vocabulary=self.vocabulary)
        check_size_limit(self.layers * self.microbatches, "layers, of all microbatches together,")
        check_divides("tp", self.tp, "heads", self.heads)
        check_divides("heads", self.heads, "hidden", self.hidden)
        if self.kv_heads is not None:
            check_integers(1, kv_heads=self.kv_heads)
            check_divides("kv_heads", self.kv_heads, "heads", self.heads)
            check_divides("tp", self.tp, "kv_heads", self.kv_heads)
        if self.mlp_width is not None:
            check_integers(1, mlp_width=self.mlp_width)
            check_divides("tp", self.tp, "mlp_width", self.mlp_width)
        check_divides("pp", self.pp, "layers", self.layers)
        check_divides("tp", self.tp, "vocabulary", self.vocabulary)
        if self.sequence_parallel:
            check_divides("tp", self.tp, "sequence", self.sequence)
        if self.recompute not in RECOMPUTE:
            raise ParameterError(
                f"recompute is {self.recompute!r:.40}, expected one of {', '.join(RECOMPUTE)}"
            )
        if self.tied_embeddings and not self.vocabulary:
            raise ParameterError(
                "tied-embeddings is for models with an embedding, and vocabulary is 0: give "
                "--vocabulary"
            )
        if self.tied_embeddings and self.pp > 1:
            raise ParameterError(
                f"tied-embeddings is for models of a single stage, and pp is {self.pp}: sums of "
                "gradients between the first and the last stage are not modeled; leave one of "
                "both out"
            )

    @property
    def attention_parameters(self) -> int:
        """Return the number of parameters of attention in a layer: 2 h^2 (1 + k / a)."""
        kv_heads = self.heads if self.kv_heads is None else self.kv_heads
        return 2 * self.hidden * (self.hidden + self.hidden // self.heads * kv_heads)

    @property
    def mlp_parameters(self) -> int:
        """Return the number of parameters of a perceptron: h f for each of its matrices."""
        width = 4 * self.hidden if self.mlp_width is None else self.mlp_width
        return (3 if self.gated_mlp else 2) * self.hidden * width

    @property
    def activations(self) -> int:
        """Return b s h, the elements between two layers."""
        return self.batch * self.sequence * self.hidden

    @property
    def layout(self) -> RankLayout:
        """Return the layout of rank groups."""
        return RankLayout(self.tp, self.dp, self.pp)


def generate_transformer(
    job: TransformerJob, name: str = "transformer", about: str = ""
) -> Workload:
    """Return the workload of one training iteration of a transformer.

    Args:
        job: Parameters.
        name: Name of the workload.
        about: Source of the parameters.

    Raises:
        InputError: There are no collectives, or too many.
    """
    layers = tuple(build_dense_layer(job, number) for number in range(job.layers))
    return generate_from_layers(
        job, layers, job.layout, (name, source_text("a transformer", job, about))
    )


def generate_from_layers(
    job: TransformerJob,
    layers: tuple[ModelBlock, ...],
    layout: RankLayout,
    named: tuple[str, str],
) -> Workload:
    """Return the workload of layers in stages, with the embedding and the head if there are any."""
    each = job.layers // job.pp
    stages = [list(layers[at : at + each]) for at in range(0, job.layers, each)]
    if job.vocabulary:
        stages[0].insert(0, _embedding_block(job))
        stages[-1].append(_head_block(job))
    return generate_stages(job, layout, stages, job.activations // job.tp, named)


def attention_us(job: TransformerJob) -> tuple[float, float]:
    """Return the forward times of the projections and of attention itself, in microseconds."""
    tokens = job.batch * job.sequence
    weights = 2 * tokens * job.attention_parameters / job.tp
    return job.compute_us(weights), job.compute_us(4 * tokens * job.sequence * job.hidden / job.tp)


def tensor_parallel_steps(
    job: TransformerJob, name: str, steps: tuple[BlockStep, ...], *, backward: bool
) -> tuple[BlockStep, ...]:
    """Return the computation of a tensor-parallel group with its collectives.

    An allreduce gives the sum to all ranks. With sequence parallelism, an allgather comes before
    the computation, and a reducescatter after it.
    """
    if job.tp == 1:
        return steps
    first, *behind = steps
    if job.sequence_parallel:
        before = BlockCall(f"{name}-gather", "allgather", RankSet.TENSORS, job.activations)
        after = BlockCall(f"{name}-scatter", "reducescatter", RankSet.TENSORS, job.activations)
        return (before, first, after, *behind)
    word = "gradients" if backward else "sum"
    return (
        first,
        BlockCall(f"{name}-{word}", "allreduce", RankSet.TENSORS, job.activations),
        *behind,
    )


def backward_steps(
    job: TransformerJob, name: str, weights: float, itself: float, *, experts: bool = False
) -> tuple[BlockCompute, ...]:
    """Return the backward pass of a computation: twice the forward time, in one or two parts.

    Args:
        job: Parameters.
        name: Name of the computation.
        weights: Forward time of products with weights, in microseconds.
        itself: Forward time of products without weights, in microseconds. With selective
            recomputation it is added once more.
        experts: Whether experts compute it.
    """
    again = itself if job.recompute == "selective" else 0.0
    if not job.split_backward:
        return (BlockCompute(name, 2 * (weights + itself) + again, experts),)
    inputs = BlockCompute(f"{name}-inputs", weights + 2 * itself + again, experts)
    return inputs, BlockCompute(f"{name}-weights", weights, experts, is_independent=True)


def recomputation_steps(
    job: TransformerJob, forward: tuple[BlockStep, ...]
) -> tuple[BlockStep, ...]:
    """Return the repeated forward pass for full recomputation. Empty for other settings."""
    if job.recompute != "full":
        return ()
    steps: list[BlockStep] = []
    for step in forward:
        name = f"again-{step.name}".removesuffix("-")
        if isinstance(step, BlockCall):
            steps.append(BlockCall(name, step.collective, step.rank_set, step.elements))
        else:
            steps.append(BlockCompute(name, step.us, step.experts, step.is_independent))
    return tuple(steps)


def build_dense_layer(job: TransformerJob, number: int) -> ModelBlock:
    """Return a layer without experts."""
    weights, itself = attention_us(job)
    mlp = job.compute_us(2 * job.batch * job.sequence * job.mlp_parameters / job.tp)
    forward: tuple[BlockStep, ...]
    backward: tuple[BlockStep, ...]
    if job.tp == 1:
        forward = (BlockCompute("", weights + itself + mlp),)
        backward = backward_steps(job, "", weights + mlp, itself)
    else:
        forward = (
            *tensor_parallel_steps(
                job, "attention", (BlockCompute("attention", weights + itself),), backward=False
            ),
            *tensor_parallel_steps(job, "mlp", (BlockCompute("mlp", mlp),), backward=False),
        )
        backward = (
            *tensor_parallel_steps(job, "mlp", backward_steps(job, "mlp", mlp, 0.0), backward=True),
            *tensor_parallel_steps(
                job, "attention", backward_steps(job, "attention", weights, itself), backward=True
            ),
        )
    return ModelBlock(
        f"layer-{number}",
        forward,
        (*recomputation_steps(job, forward), *backward),
        parameters=(job.attention_parameters + job.mlp_parameters) // job.tp,
    )


def _embedding_block(job: TransformerJob) -> ModelBlock:
    """Return the embedding, a matrix of V h / t. Its time is the memory traffic of the rows."""
    us = job.memory_us(2 * job.activations * job.item)
    collective = "reducescatter" if job.sequence_parallel else "allreduce"
    forward: tuple[BlockStep, ...] = (
        BlockCompute("", us),
        BlockCall("sum", collective, RankSet.TENSORS, job.activations),
    )
    backward: tuple[BlockStep, ...] = (BlockCompute("", us),)
    if job.sequence_parallel:
        gather = BlockCall("gather", "allgather", RankSet.TENSORS, job.activations)
        backward = (gather, *backward)
    return ModelBlock("embedding", forward, backward, job.vocabulary * job.hidden // job.tp)


def _head_block(job: TransformerJob) -> ModelBlock:
    """Return the output matrix of h V / t after the layers. The time of the loss is negligible."""
    tokens = job.batch * job.sequence
    us = job.compute_us(2 * tokens * job.hidden * job.vocabulary / job.tp)
    forward: tuple[BlockStep, ...] = (BlockCompute("", us),)
    if job.sequence_parallel:
        gather = BlockCall("gather", "allgather", RankSet.TENSORS, job.activations)
        forward = (gather, *forward)
    first, *behind = backward_steps(job, "", us, 0.0)
    collective = "reducescatter" if job.sequence_parallel else "allreduce"
    gradients = BlockCall("gradients", collective, RankSet.TENSORS, job.activations)
    parameters = job.vocabulary * job.hidden // job.tp
    tied = job.tied_embeddings
    return ModelBlock(
        "head",
        forward,
        (first, gradients, *behind),
        parameters=0 if tied else parameters,
        tied_parameters=parameters if tied else 0,
    )
