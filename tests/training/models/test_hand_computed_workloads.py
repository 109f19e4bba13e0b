"""Workloads of models by formulas: hand-computed ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sccl.training.models import (
    ConvolutionalJob,
    DlrmJob,
    MoeJob,
    TransformerJob,
    generate_convolutional,
    generate_dlrm,
    generate_moe,
    generate_transformer,
)
from sccl.training.models.pipeline_stages import PipelinePass, one_forward_one_backward
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp, HostAction
from tests.kit.jobs import FAST, SMALL, TABLES


def small(**changes: Any) -> Workload:
    return generate_transformer(TransformerJob(**{**SMALL, **FAST, **changes}))


def collectives(workload: Workload) -> dict[str, CommOp]:
    return {op.id: op for op in workload.collectives()}


def took(workload: Workload) -> dict[str, float]:
    return {op.id: op.duration_us for op in workload.computation()}


def before(workload: Workload, op: str) -> set[tuple[str, int]]:
    return {(dep.before, dep.lag) for dep in workload.deps if dep.after == op}


def program(workload: Workload, role: int = 0) -> list[str]:
    sign = {HostAction.SUBMIT: "+", HostAction.WAIT: "-"}
    return [sign[e.action] + e.op + "'" * e.lag for e in workload.submits[role].events]


# Hand-computed: 24 b s h^2 + 4 b s^2 h = 6144 + 512 = 6656 operations of a layer forward.


def test_data_parallel_gradients_are_added_up_and_awaited_by_the_optimizer() -> None:
    job = small(dp=4, bucket_mb=1e-6, dtype="float32")
    assert took(job) == {
        "forward/layer-0": 6656,
        "forward/layer-1": 6656,
        "backward/layer-1": 2 * 6656,
        "backward/layer-0": 2 * 6656,
        "optimizer": 28 * 2 * 768,
    }
    every = collectives(job)
    assert list(every) == ["reduce/layer-1", "reduce/layer-0"]
    for op in every.values():
        assert (op.collective, op.group, op.beside) == ("allreduce", (0, 1, 2, 3), ())
        assert op.size_bytes == 768 * 4
    assert before(job, "reduce/layer-1") == {("backward/layer-1", 0)}
    assert before(job, "optimizer") == {(name, 0) for name in every}
    assert program(job) == [
        "+reduce/layer-1",
        "+reduce/layer-0",
        "-reduce/layer-1",
        "-reduce/layer-0",
    ]


def test_gradients_of_several_layers_go_together_in_buckets() -> None:
    (op,) = small(dp=4, bucket_mb=1).collectives()
    assert (op.id, op.count) == ("reduce/layer-1-to-layer-0", 2 * 768)


def test_next_iteration_waits_layer_by_layer() -> None:
    job = small(dp=4, bucket_mb=1e-6, overlap_next=True)
    assert before(job, "update/layer-0") == {("reduce/layer-0", 1)}
    assert before(job, "update/layer-1") == {("reduce/layer-1", 1)}
    assert [op.id for op in job.computation()] == [
        *("update/layer-0", "forward/layer-0", "update/layer-1", "forward/layer-1"),
        *("backward/layer-1", "backward/layer-0"),
    ]
    assert took(job)["update/layer-0"] == 28 * 768


@pytest.mark.parametrize("zero", [1, 2])
def test_states_shared_out_are_updated_in_parts_and_gathered(zero: int) -> None:
    job = small(dp=4, bucket_mb=1e-6, zero=zero)
    verbs = Counter(op.collective for op in job.collectives())
    assert verbs == {"reducescatter": 2, "allgather": 2}
    assert took(job)["optimizer"] == 28 * 2 * 768 / 4
    assert before(job, "gather/layer-0") == {("optimizer", 0)}
    assert ("gather/layer-1", 1) in before(job, "forward/layer-0")  # waited for in the end
    later = small(dp=4, bucket_mb=1e-6, zero=zero, overlap_next=True)
    assert before(later, "forward/layer-1") == {("gather/layer-1", 1)}
    assert before(later, "forward/layer-0") == {("gather/layer-0", 1)}


def test_gradients_shared_out_are_reduced_for_each_microbatch() -> None:
    counts = [
        Counter(op.collective for op in small(dp=4, zero=zero, microbatches=3).collectives())
        for zero in range(4)
    ]
    assert counts[0] == {"allreduce": 1}
    assert counts[1] == {"reducescatter": 1, "allgather": 1}
    assert counts[2] == {"reducescatter": 3, "allgather": 1}
    assert counts[3] == {"reducescatter": 6, "allgather": 12}


def test_parameters_shared_out_are_gathered_ahead_and_held() -> None:
    job = small(dp=4, zero=3, prefetch=1)
    every = collectives(job)
    assert [name for name, op in every.items() if op.holds_bytes] == [
        *("gather-forward/layer-0", "gather-forward/layer-1"),
        *("gather-backward/layer-1", "gather-backward/layer-0"),
    ]
    assert every["gather-forward/layer-0"].holds_bytes == 768 * 2
    assert before(job, "gather-forward/layer-0") == {("optimizer", 1)}
    assert before(job, "forward/layer-1") == {("gather-forward/layer-1", 0)}
    assert before(job, "backward/layer-0") == {("gather-backward/layer-0", 0)}
    assert program(job)[:6] == [
        *("+gather-forward/layer-0", "+gather-forward/layer-1", "-gather-forward/layer-0"),
        *("+gather-backward/layer-1", "-gather-forward/layer-1", "+gather-backward/layer-0"),
    ]


def test_tensors_shared_out_are_summed_up_twice_each_way() -> None:
    job = small(tp=2, dp=2, bucket_mb=1)
    every = collectives(job)
    sums = [op for op in every.values() if op.id != "reduce/layer-1-to-layer-0"]
    assert len(sums) == 2 * 4
    for op in sums:
        assert (op.collective, op.groups, op.count) == ("allreduce", ((0, 1), (2, 3)), 32)
    assert every["reduce/layer-1-to-layer-0"].groups == ((0, 2), (1, 3))
    assert every["reduce/layer-1-to-layer-0"].count == 768
    # 8 b s h^2 + 4 b s^2 h = 2560 of attention, 16 b s h^2 = 4096 of the perceptron
    assert took(job)["forward/layer-0/attention"] == 2560 / 2
    assert took(job)["backward/layer-0/mlp"] == 2 * 4096 / 2
    assert before(job, "forward/layer-0/mlp") == {("forward/layer-0/attention-sum", 0)}


def test_sequence_parallel_sum_is_reducescatter_and_allgather() -> None:
    job = small(tp=2, sequence_parallel=True)
    assert Counter(op.collective for op in job.collectives()) == {
        "allgather": 8,
        "reducescatter": 8,
    }
    assert {op.count for op in job.collectives()} == {32}
    assert before(job, "forward/layer-0/mlp-gather") == {("forward/layer-0/attention-scatter", 0)}


def test_gradients_of_weights_are_computed_while_others_are_on_their_way() -> None:
    job = small(tp=2, split_backward=True)
    assert before(job, "backward/layer-1/mlp-weights") == set()  # except for its predecessors
    assert before(job, "backward/layer-1/attention-inputs") == {
        ("backward/layer-1/mlp-gradients", 0)
    }
    every = took(job)
    assert every["backward/layer-1/attention-inputs"] == (8 * 4 * 64 + 2 * 512) / 2
    assert every["backward/layer-1/attention-weights"] == 8 * 4 * 64 / 2
    assert sum(every.values()) == sum(took(small(tp=2)).values())


@pytest.mark.parametrize(("recompute", "more"), [("none", 0), ("selective", 512), ("full", 6656)])
def test_recomputation_belongs_to_the_backward_pass(recompute: str, more: int) -> None:
    every = took(small(dp=2, recompute=recompute))
    back = sum(us for name, us in every.items() if name.startswith("backward/layer-0"))
    assert back == 2 * 6656 + more


def test_words_have_an_embedding_and_a_matrix_behind_the_layers() -> None:
    job = small(dp=2, vocabulary=10, bucket_mb=1e-6)
    assert collectives(job)["reduce/embedding"].count == collectives(job)["reduce/head"].count == 80
    assert took(job)["forward/head"] == 2 * 4 * 8 * 10
    assert took(job)["backward/head"] == 2 * 2 * 4 * 8 * 10
    assert took(job)["forward/embedding"] == 2 * 32 * 2  # read and written, in 16 bits
    shared = collectives(small(tp=2, vocabulary=10))
    assert shared["forward/embedding/sum"].collective == "allreduce"
    assert shared["backward/head/gradients"].count == 32


def test_stages_go_forward_and_back_in_turn() -> None:
    told = [
        "".join("fb"[one.backward] + str(one.microbatch) for one in one_forward_one_backward(*args))
        for args in [(0, 3, 4), (1, 3, 4), (2, 3, 4), (0, 3, 1)]
    ]
    assert told == ["f0f1f2b0f3b1b2b3", "f0f1b0f2b1f3b2b3", "f0b0f1b1f2b2f3b3", "f0b0"]
    assert one_forward_one_backward(0, 1, 1)[1] == PipelinePass(0, backward=True)


def test_send_between_stages_is_a_broadcast_among_pairs() -> None:
    job = small(pp=2, dp=2, microbatches=2, bucket_mb=1)
    assert [(role.name, role.ranks) for role in job.roles] == [
        ("stage-0", (0, 1)),
        ("stage-1", (2, 3)),
    ]
    every = collectives(job)
    there, back = every["activations-1/0-to-1"], every["gradients-0/1-to-0"]
    assert (there.collective, there.groups, there.root) == ("broadcast", ((0, 2), (1, 3)), 0)
    assert (back.groups, back.root, back.count) == (((2, 0), (3, 1)), 2, 32)
    assert every["reduce/layer-1"].groups == ((2, 3),)
    assert before(job, "activations-1/0-to-1") == {("forward-1/layer-0", 0)}
    assert before(job, "forward-1/layer-1") == {("activations-1/0-to-1", 0)}
    assert program(job, 1)[:5] == [
        *("+activations-0/0-to-1", "-activations-0/0-to-1"),
        *("+gradients-0/1-to-0", "+activations-1/0-to-1", "-activations-1/0-to-1"),
    ] or program(job, 1)[:3] == [
        *("+activations-0/0-to-1", "-activations-0/0-to-1", "+activations-1/0-to-1"),
    ]
    parts = collectives(small(tp=2, pp=2))
    assert parts["activations/0-to-1"].count == 32 // 2
    assert parts["activations/0-to-1/whole"].count == 32


def test_experts_are_sent_tokens_and_send_them_back() -> None:
    shape: dict[str, Any] = {**SMALL, **FAST, "dp": 4, "experts": 4, "top_k": 2, "capacity": 1.5}
    job = generate_moe(MoeJob(**shape, ep=2, moe_every=2, bucket_mb=1e-6))
    every = collectives(job)
    sent = [op for op in every.values() if op.collective == "alltoall"]
    assert [op.id for op in sent] == [
        *("forward/layer-1/dispatch", "forward/layer-1/combine"),
        *("backward/layer-1/combine", "backward/layer-1/dispatch"),
    ]
    assert {(op.count, op.groups) for op in sent} == {(32 * 3, ((0, 1), (2, 3)))}
    assert took(job)["forward/layer-1/experts"] == 16 * 3 * 4 * 64
    assert took(job)["forward/layer-1/attention"] == 2560
    assert took(job)["forward/layer-0"] == 6656
    own = every["reduce/layer-1/experts"]
    assert (own.groups, own.count) == (((0, 2), (1, 3)), 2 * 8 * 64)
    assert every["reduce/layer-1"].count == 4 * 64
    kept = collectives(generate_moe(MoeJob(**shape, ep=2, zero=3)))
    assert kept["gather-forward/layer-1/experts"].holds_bytes == 2 * 8 * 64 * 2


def test_experts_of_tensor_groups_get_each_a_part_of_the_sequence() -> None:
    job = generate_moe(MoeJob(**SMALL, **FAST, tp=2, dp=2, experts=4, ep=4, moe_every=1))
    every = collectives(job)
    assert every["forward/layer-0/dispatch"].count == 32 * 2 / 2
    assert every["forward/layer-0/dispatch"].groups == ((0, 1, 2, 3),)
    assert every["forward/layer-0/experts-gather"].groups == ((0, 1), (2, 3))
    assert every["backward/layer-0/attention-gather"].count == 32


def test_dlrm_exchanges_rows_gradients_and_the_next_batch() -> None:
    job = generate_dlrm(DlrmJob(**TABLES, **FAST))
    every = collectives(job)
    assert every["rows-forward"].count == every["rows-backward"].count == 4 * 6 * 8
    assert every["lengths"].size_bytes + every["indices"].size_bytes == 4 * 6 * 8 * (1 + 3)
    assert {name: op.count for name, op in every.items() if op.collective == "allreduce"} == {
        "reduce/top-1": 4,
        "reduce/top-0": 32,
        "reduce/bottom-0": 32,
    }
    assert took(job) == {
        "forward/lookup": 4 * 6 * 8 * (3 + 1) * 4,
        "forward/bottom-0": 2 * 4 * 32,
        "forward/interaction": 4e6,
        "forward/top-0": 2 * 4 * 32,
        "forward/top-1": 2 * 4 * 4,
        "backward/top-1": 2 * 2 * 4 * 4,
        "backward/top-0": 2 * 2 * 4 * 32,
        "backward/interaction": 8e6,
        "backward/bottom-0": 2 * 2 * 4 * 32,
        "backward/lookup": 4 * 6 * 8 * (3 + 1) * 4,
        "optimizer": 28 * 68,
    }
    assert before(job, "forward/lookup") == {("indices", 1)}
    assert before(job, "rows-forward") == {("forward/lookup", 0)}
    assert before(job, "forward/interaction") == {("rows-forward", 0)}
    assert before(job, "backward/lookup") == {("rows-backward", 0)}
    assert before(job, "indices") == {("lengths", 0)}
    assert program(job)[:3] == ["-indices'", "+lengths", "+rows-forward"]
    at_once = generate_dlrm(DlrmJob(**TABLES, data_prefetch=False))
    assert before(at_once, "forward/lookup") == {("indices", 0)}
    later = generate_dlrm(DlrmJob(**TABLES, overlap_next=True))
    assert before(later, "update/top-0") == {("reduce/top-0", 1), ("rows-forward", 0)} - {
        ("rows-forward", 0)
    }


def test_perceptrons_of_a_dlrm_may_be_gathered_layer_by_layer() -> None:
    job = generate_dlrm(DlrmJob(**TABLES, zero=3, prefetch=1))
    assert Counter(op.collective for op in job.collectives()) == {
        "alltoall": 4,
        "allgather": 6,
        "reducescatter": 3,
    }
    assert collectives(job)["gather-backward/top-1"].holds_bytes == 4 * 4
    assert before(job, "forward/top-0") == {("gather-forward/top-0", 0)}
    assert program(job)[3:6] == [
        *("+gather-forward/bottom-0", "+gather-forward/top-0", "-gather-forward/bottom-0"),
    ]


def test_convolutional_net_computes_by_the_pixel() -> None:
    job = generate_convolutional(
        ConvolutionalJob(
            **FAST, dp=2, depths=(1,), widths=(16,), picture=8, batch=3, classes=10, bucket_mb=1e-6
        )
    )
    block = (32 + 9 * 8 + 16) * 4 * 16
    assert took(job)["forward/stage-0-block-0"] == 2 * 3 * block * 2 * 2  # 8 pixels, halved twice
    assert took(job)["forward/stem"] == 2 * 3 * 27 * 32 * 4 * 4
    assert took(job)["backward/classifier"] == 2 * 2 * 3 * 160
    assert {op.id: op.count for op in job.collectives()} == {
        "reduce/classifier": 160,
        "reduce/stage-0-block-0": block,
        "reduce/stem": 27 * 32,
    }
