"""Generate workloads of transformers with experts (MoE).

Every ``moe_every``-th layer has E experts, which are perceptrons, and each token uses k of them.
Experts are not split. Those of a layer are distributed over ``ep`` consecutive ranks of a stage.
Each rank sends its b s / t tokens to the ranks of their experts (dispatch), k times and scaled by
the capacity factor c. It receives as much back (combine). Both move b s h k c / t elements per
rank, forward and backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sccl.errors import ParameterError
from sccl.training.models.parallelism import (
    RankLayout,
    check_divides,
    check_integers,
    check_positive,
    source_text,
)
from sccl.training.models.pipeline_stages import (
    BlockCall,
    BlockCompute,
    BlockStep,
    ModelBlock,
    RankSet,
)
from sccl.training.models.transformer import (
    TransformerJob,
    attention_us,
    backward_steps,
    build_dense_layer,
    generate_from_layers,
    recomputation_steps,
    tensor_parallel_steps,
)
from sccl.training.types.workload import Workload


@dataclass(frozen=True, kw_only=True)
class MoeJob(TransformerJob):
    """A transformer with experts, and its training."""

    experts: Annotated[int, "Number of experts of a layer, E."]
    top_k: Annotated[int, "Number of experts per token."] = 2
    capacity: Annotated[float, "Expert capacity factor."] = 1.0
    ep: Annotated[int, "Number of ranks that share the experts of a layer."] = 1
    moe_every: Annotated[int, "Interval of layers with experts; the last of each has some."] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers(1, experts=self.experts, top_k=self.top_k)
        check_integers(1, ep=self.ep, moe_every=self.moe_every)
        check_positive(capacity=self.capacity)
        check_divides("ep", self.ep, "experts", self.experts)
        check_divides("ep", self.ep, "tp * dp", self.tp * self.dp)
        if self.top_k > self.experts:
            raise ParameterError(
                f"top-k is {self.top_k} and a layer has {self.experts} experts: each expert gets "
                f"a token at most once, expected 1 to {self.experts}"
            )

    @property
    def layout(self) -> RankLayout:
        """Return the layout of rank groups."""
        return RankLayout(self.tp, self.dp, self.pp, self.ep)

    @property
    def dispatched(self) -> int:
        """Return the elements that a rank sends to experts and receives back: b s h k c / t."""
        return round(self.activations // self.tp * self.top_k * self.capacity)


def generate_moe(job: MoeJob, name: str = "moe", about: str = "") -> Workload:
    """Return the workload of one training iteration of a transformer with experts.

    Args:
        job: Parameters.
        name: Name of the workload.
        about: Source of the parameters.

    Raises:
        InputError: There are no collectives, or too many.
    """
    layers = tuple(
        build_dense_layer(job, number)
        if (number + 1) % job.moe_every
        else _expert_layer(job, number)
        for number in range(job.layers)
    )
    model = "a transformer with experts"
    return generate_from_layers(job, layers, job.layout, (name, source_text(model, job, about)))


def _expert_layer(job: MoeJob, number: int) -> ModelBlock:
    weights, itself = attention_us(job)
    experts = job.compute_us(2 * job.dispatched * (job.mlp_parameters // job.hidden))
    forward = (
        *tensor_parallel_steps(
            job, "attention", (BlockCompute("attention", weights + itself),), backward=False
        ),
        _expert_exchange(job, "dispatch"),
        BlockCompute("experts", experts, experts=True),
        _expert_exchange(job, "combine"),
        *_gather_sequence(job, "experts-gather"),
    )
    first, *behind = backward_steps(job, "experts", experts, 0.0, experts=True)
    backward = (
        _expert_exchange(job, "combine"),
        first,
        _expert_exchange(job, "dispatch"),
        *behind,
        *_gather_sequence(job, "attention-gather"),
        *tensor_parallel_steps(
            job, "attention", backward_steps(job, "attention", weights, itself), backward=True
        ),
    )
    return ModelBlock(
        f"layer-{number}",
        forward,
        (*recomputation_steps(job, forward), *backward),
        parameters=job.attention_parameters // job.tp,
        expert_parameters=job.mlp_parameters * job.experts // job.ep,
    )


def _expert_exchange(job: MoeJob, name: str) -> BlockCall:
    return BlockCall(name, "alltoall", RankSet.EXPERTS, job.dispatched)


def _gather_sequence(job: MoeJob, name: str) -> tuple[BlockStep, ...]:
    """Return the allgather of activations after experts, if each rank needs the whole sequence."""
    if job.tp == 1 or job.sequence_parallel:
        return ()
    return (BlockCall(name, "allgather", RankSet.TENSORS, job.activations),)
