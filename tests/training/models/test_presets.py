"""Workloads of models: presets, widths, ranks, and parameters that are refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sccl.errors import InputError
from sccl.training.models import (
    FAMILIES,
    PRESETS,
    DlrmJob,
    generate_dlrm,
    generate_workload,
    parse_widths,
)
from sccl.training.models.parallelism import RankLayout, widths_text
from sccl.training.types.workload_ops import Dependency
from tests.kit.jobs import TABLES

# Presets and errors.


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_made_and_say_what_they_assume(name: str) -> None:
    preset = PRESETS[name]
    made = generate_workload(preset.family, {}, name).workload
    assert made.name == name
    assert preset.about in made.source
    assert name.startswith("moe") or "Assumed" in made.source


@pytest.mark.parametrize(
    ("name", "mflops", "layers", "mean"),
    [("A1", 89, 26, 914), ("A2", 638, 20, 3375), ("A3", 784, 26, 3210), ("A4", 60, 43, 682)],
)
def test_perceptrons_of_presets_are_those_of_the_paper(
    name: str, mflops: int, layers: int, mean: int
) -> None:
    job = DlrmJob(**PRESETS[name].parameters)  # type: ignore[arg-type]
    own = [*job.bottom[1:], *job.top[1:]]
    assert len(own) == layers
    assert sum(own) / layers == pytest.approx(mean, rel=0.001)
    products = 2 * sum(width**2 for width in own) / 1e6
    assert products + job.interaction_mflops == pytest.approx(mflops, abs=0.001)
    assert job.interaction_mflops < 0.04 * mflops
    assert job.ranks == 128


def test_measured_job_has_its_collectives() -> None:
    for tflops in (156, 600, 1500):
        made = generate_workload("moe", {}, f"moe-{tflops}").workload
        verbs = Counter(op.collective for op in made.collectives())
        assert verbs == {"allgather": 80, "alltoall": 80, "reducescatter": 40}
        assert made.ranks == 32
        us = sum(op.duration_us for op in made.computation() if op.id != "optimizer")
        assert us == pytest.approx(900_000 * 156 / tflops, rel=0.01)
    large = generate_workload("moe", {}, "moe-512").workload
    assert (large.ranks, len(list(large.collectives()))) == (512, 1248)
    assert {len(op.beside) + 1 for op in large.collectives()} == {1, 8, 64}


ASKED = {"layers": 2, "hidden": 8, "heads": 2, "sequence": 4}


@pytest.mark.parametrize(
    ("family", "asked", "says"),
    [
        ("cnn", {}, "unknown family 'cnn': the families are transformer, moe, dlrm"),
        (
            "transformer",
            {},
            "layers is missing, and transformer has no default for it: gi",
        ),
        ("transformer", {**ASKED, "tables": 3}, "tables is no parameter of family transformer"),
        ("transformer", {**ASKED, "tp": 4}, "heads is 2, which is no multiple of tp, 4: change on"),
        ("transformer", {**ASKED, "heads": 3}, "hidden is 8, which is no multiple of heads, 3"),
        ("transformer", {**ASKED, "kv_heads": 3}, "heads is 2, which is no multiple of kv-heads, "),
        ("transformer", {**ASKED, "kv_heads": 4}, "heads is 2, which is no multiple of kv-heads, "),
        ("transformer", {**ASKED, "kv_heads": 0}, "kv-heads is 0, expected 1 to"),
        (
            "transformer",
            {**ASKED, "tp": 2, "kv_heads": 1},
            "kv-heads is 1, which is no multiple of",
        ),
        ("transformer", {**ASKED, "tp": 2, "mlp_width": 9}, "mlp-width is 9, which is no multiple"),
        ("transformer", {**ASKED, "mlp_width": -1}, "mlp-width is -1, expected 1 to"),
        ("transformer", {**ASKED, "tied_embeddings": True}, "vocabulary is 0: give --vocabulary"),
        (
            "transformer",
            {**ASKED, "vocabulary": 8, "pp": 2, "tied_embeddings": True},
            "tied-embeddings is for models of a single stage, and pp is 2",
        ),
        ("dlrm", {**TABLES, "kv_heads": 2}, "kv-heads is no parameter of family dlrm"),
        ("transformer", {**ASKED, "pp": 4}, "layers is 2, which is no multiple of pp, 4"),
        ("transformer", {**ASKED, "tp": 2, "ranks": 5}, r"ranks is 5, which is not tp \* pp \* dp"),
        ("transformer", {**ASKED, "dp": 2, "ranks": 4}, r"= 1 \* 1 \* 2: change one of them"),
        ("transformer", {**ASKED, "tp": 0, "ranks": 4}, r"ranks is 4, which is not"),
        ("transformer", ASKED, "these parameters need no collectives: give several ranks"),
        ("transformer", {**ASKED, "dp": 0}, "dp is 0, expected 1 to"),
        ("transformer", {**ASKED, "dp": 2**21}, "2097152 ranks, expected at most"),
        ("transformer", {**ASKED, "layers": 2**40}, "there are 1099511627776 layers, of all mic"),
        ("transformer", {**ASKED, "dp": 2, "zero": 4}, "zero is 4, expected 0 to 3"),
        (
            "transformer",
            {**ASKED, "dp": 2, "dtype": "int7"},
            "dtype is 'int7', expected one of",
        ),
        (
            "transformer",
            {**ASKED, "dp": 2, "efficiency": 1.5},
            "efficiency is 1.5, expected a",
        ),
        (
            "transformer",
            {**ASKED, "dp": 2, "tflops": 0.0},
            "tflops is 0, expected a number ab",
        ),
        (
            "transformer",
            {**ASKED, "recompute": "some"},
            "recompute is 'some', expected one of",
        ),
        ("transformer", {**ASKED, "sequence_parallel": True}, "and tp is 1: give --tp"),
        ("transformer", {**ASKED, "zero": 3, "overlap_next": True}, "leave one of the two out"),
        ("moe", {**ASKED, "dp": 4, "experts": 4, "ep": 3}, "experts is 4, which is no multiple of"),
        ("moe", {**ASKED, "dp": 2, "experts": 4, "ep": 4}, r"tp \* dp is 2, which is no multiple"),
        ("moe", {**ASKED, "dp": 2, "experts": 1}, "top-k is 2 and a layer has 1 experts"),
        ("dlrm", {**TABLES, "tables": 1}, "1 tables are fewer than 2 ranks, expected at least one"),
        ("dlrm", {**TABLES, "top": (3,)}, "top has 1 widths, expected two or more, as in 512/256"),
        ("dlrm", {**TABLES, "ranks": 1}, "ranks is 1, expected 2 to"),
        ("dlrm", {**TABLES, "zero": 1}, "zero is 1, expected 0 or 3 of a dlrm"),
        (
            "convolutional",
            {"depths": (1,), "widths": (1, 2)},
            "depths has 1 stages and widths",
        ),
        ("convolutional", {"depths": (1,), "widths": (8,), "tp": 2}, "tp is 2, expected 1 for"),
    ],
)
def test_bad_parameters_are_a_sentence(family: str, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        generate_workload(family, asked)
    assert "\n" not in str(error.value)


def test_presets_are_of_a_family_and_may_be_changed() -> None:
    with pytest.raises(InputError, match="preset A2 belongs to family dlrm, expected moe"):
        generate_workload("moe", {}, "A2")
    with pytest.raises(InputError, match="unknown preset 'A7': did you mean"):
        generate_workload("dlrm", {}, "A7")
    made = generate_workload("transformer", {"ranks": 16, "tp": 2}, "A5")
    assert made.workload.ranks == 16
    assert made.workload.source.endswith("Changed: ranks, tp")
    with pytest.raises(InputError, match="more than 16777216 ranks together: give fewer layers"):
        generate_workload("moe", {"dp": 2**17}, "moe-156")


def test_widths_are_given_with_how_often() -> None:
    assert parse_widths("512x3/64", "top") == (512, 512, 512, 64)
    assert widths_text((512, 512, 512, 64)) == "512x3/64"
    for text in ("", "a", "3x", "1x9999/1x9999", "-1"):
        with pytest.raises(InputError, match=f"top is '{text}', expected up to 10000 numbers"):
            parse_widths(text, "top")


def test_every_rank_is_in_one_group_of_each_kind() -> None:
    layout = RankLayout(tp=2, dp=6, pp=2, ep=4)
    sizes = [(6, 2), (2, 6), (3, 4), (4, 3)]
    for stage in range(2):
        kinds = [
            layout.tensors(stage),
            layout.replicas(stage),
            layout.experts(stage),
            layout.expert_replicas(stage),
        ]
        assert [(len(groups), len(groups[0])) for groups in kinds] == sizes
        for groups in kinds:
            assert sorted(rank for group in groups for rank in group) == list(
                layout.stage_ranks(stage)
            )
    assert layout.tensors(1)[0] == (12, 13)
    assert layout.replicas(0)[1] == (1, 3, 5, 7, 9, 11)


def test_families_are_those_of_the_door() -> None:
    assert {preset.family for preset in PRESETS.values()} == set(FAMILIES)
    assert Dependency("indices", "forward/lookup", 1) in generate_dlrm(DlrmJob(**TABLES)).deps
