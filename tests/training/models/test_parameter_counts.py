"""Test workloads of transformers against published numbers of parameters.

The workloads leave out norms, biases, learned positions and routers. Each test adds these exactly.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sccl.training.models import (
    MoeJob,
    TransformerJob,
    generate_moe,
    generate_transformer,
    generate_workload,
)
from sccl.training.models.parallelism import OPTIMIZER_BYTES
from sccl.training.types.workload import Workload
from tests.kit.jobs import FAST, SMALL

LLAMA: dict[str, Any] = {"gated_mlp": True, "vocabulary": 32_000, "hidden": 4096, "heads": 32}
MODELS: dict[str, tuple[dict[str, Any], int]] = {
    "Llama-2-7B": ({**LLAMA, "layers": 32, "mlp_width": 11_008}, 6_738_415_616),
    "Llama-2-70B": (
        {**LLAMA, "layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "mlp_width": 28_672},
        68_976_648_192,
    ),
    "Llama-3-8B": (
        {**LLAMA, "layers": 32, "kv_heads": 8, "mlp_width": 14_336, "vocabulary": 128_256},
        8_030_261_248,
    ),
}
MIXTRAL: dict[str, Any] = {
    **LLAMA,
    "layers": 32,
    "kv_heads": 8,
    "mlp_width": 14_336,
    "experts": 8,
    "moe_every": 1,
}
GPT2: dict[str, Any] = {
    "layers": 12,
    "hidden": 768,
    "heads": 12,
    "vocabulary": 50_257,
    "tied_embeddings": True,
}


def count_elements(workload: Workload, prefix: str) -> int:
    return sum(
        op.count * len(op.groups) for op in workload.collectives() if op.id.startswith(prefix)
    )


def count_rms_norms(shape: dict[str, Any]) -> int:
    """Return the weights of two norms in each layer and of one behind the layers."""
    return int((2 * shape["layers"] + 1) * shape["hidden"])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("spread", [{}, {"tp": 8}, {"tp": 2, "pp": 4}])
def test_llama_gradients_match_the_published_parameters(name: str, spread: dict[str, Any]) -> None:
    shape, published = MODELS[name]
    workload = generate_transformer(TransformerJob(**shape, **spread, dp=2))
    gradients = count_elements(workload, "reduce/")
    assert gradients + count_rms_norms(shape) == published


@pytest.mark.parametrize("name", MODELS)
def test_llama_zero3_gathers_all_parameters_twice(name: str) -> None:
    shape, published = MODELS[name]
    workload = generate_transformer(TransformerJob(**shape, dp=8, zero=3))
    wanted = published - count_rms_norms(shape)
    assert count_elements(workload, "reduce/") == wanted
    assert count_elements(workload, "gather-") == 2 * wanted


def test_mixtral_gradients_match_the_published_parameters() -> None:
    workload = generate_moe(MoeJob(**MIXTRAL, dp=2))
    router = 32 * 4096 * 8
    gradients = count_elements(workload, "reduce/")
    assert gradients + router + count_rms_norms(MIXTRAL) == 46_702_792_704


@pytest.mark.parametrize("tp", [1, 2])
def test_gpt2_gradients_match_the_published_parameters(tp: int) -> None:
    # The vocabulary has to be even for two ranks: a word more is a row more.
    words = 50_257 + 50_257 % tp
    workload = generate_transformer(TransformerJob(**{**GPT2, "vocabulary": words}, tp=tp, dp=2))
    positions = 1024 * 768
    biases = 12 * (3 + 1 + 4 + 1) * 768
    norms = (2 * 12 + 1) * 2 * 768
    padding = (words - 50_257) * 768
    gradients = count_elements(workload, "reduce/")
    assert gradients - padding + positions + biases + norms == 124_439_808


def test_tensor_parallel_sums_do_not_depend_on_weights() -> None:
    shape = {**SMALL, "tp": 2, "sequence": 8}
    plain = generate_transformer(TransformerJob(**shape))
    other = generate_transformer(
        TransformerJob(**shape, kv_heads=2, mlp_width=28, gated_mlp=True),
    )
    sums = [(op.id, op.count) for op in plain.collectives()]
    assert [(op.id, op.count) for op in other.collectives()] == sums
    assert {count for _, count in sums} == {8 * 8}


def test_operations_follow_the_matrices() -> None:
    # h = 8, 2 heads of 4: query and output 64 each, key and value 32 each, and 3 matrices of 8 * 6.
    job = TransformerJob(**SMALL, **FAST, tp=1, dp=2, kv_heads=1, mlp_width=6, gated_mlp=True)
    durations = {op.id: op.duration_us for op in generate_transformer(job).computation()}
    assert durations["forward/layer-0"] == 2 * 4 * (192 + 144) + 512
    assert durations["optimizer"] == OPTIMIZER_BYTES * 2 * (192 + 144)


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize("bucket_mb", [1e-6, 1.0])
def test_tied_embeddings_are_reduced_and_updated_once(zero: int, bucket_mb: float) -> None:
    shape = {**SMALL, **FAST, "dp": 2, "vocabulary": 10, "zero": zero, "bucket_mb": bucket_mb}
    untied = generate_transformer(TransformerJob(**shape))
    tied = generate_transformer(TransformerJob(**shape, tied_embeddings=True))
    counts = [count_elements(workload, "reduce/") for workload in (untied, tied)]
    assert counts == [2 * 768 + 2 * 80, 2 * 768 + 80]
    durations = [
        {op.id: op.duration_us for op in workload.computation()} for workload in (untied, tied)
    ]
    shards = 2 if zero else 1
    assert durations[0].pop("optimizer") == OPTIMIZER_BYTES * (2 * 768 + 2 * 80) / shards
    assert durations[1].pop("optimizer") == OPTIMIZER_BYTES * (2 * 768 + 80) / shards
    assert durations[0] == durations[1]
    gathers = Counter(op.id for op in tied.collectives() if op.id.startswith("gather-"))
    heads = {"gather-forward/head": 1, "gather-backward/head": 1} if zero == 3 else {}
    assert {name: times for name, times in gathers.items() if name.endswith("head")} == heads


def test_source_lists_model_variants_only_if_given() -> None:
    asked = {**SMALL, "dp": 2, "vocabulary": 8}
    plain = generate_workload("transformer", asked)
    assert "kv-heads" not in plain.workload.source
    assert "tied-embeddings" not in plain.job.list_parameters()
    varied = generate_workload("transformer", {**asked, "kv_heads": 1, "tied_embeddings": True})
    assert "kv-heads 1, tied-embeddings yes" in varied.workload.source
    assert varied.job.list_parameters()["kv-heads"] == 1
