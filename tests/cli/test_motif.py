"""``sccl train motif``: tables of recipes' results, and invalid recipes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app


def sccl(*words: str) -> tuple[int, str]:
    """Run the command in this process and return the exit code and its output."""
    done = CliRunner().invoke(app, ["train", "motif", *words])
    return done.exit_code, " ".join((done.stdout + done.stderr).split())


def test_motifs_are_listed_with_what_they_wait_for() -> None:
    code, text = sccl("allreduce", "--recipe", "levels(4).seg(2)", "--ranks", "16")
    assert code == 0
    assert "4 x 4 ranks" in text
    assert "levels(4).seg(2) splits allreduce among 16 ranks into 6 motifs" in text


def test_groups_of_other_sizes_are_told_one_by_one() -> None:
    code, text = sccl("allreduce", "--recipe", "levels(3+5)", "--ranks", "8")
    assert code == 0
    assert "3 + 5 ranks" in text
    code, made = printed("alltoall", "--recipe", "levels(3+5)", "--ranks", "8", "--json")
    assert all(len(one["group_ranks"]) == one["groups"] for one in made["motifs"])
    assert {tuple(one["group_ranks"]) for one in made["motifs"]} >= {(3, 5)}
    assert all(max(one["group_ranks"]) == one["ranks"] for one in made["motifs"])


HEAD = ("schema", "kind", "sccl", "inputs", "digest")


def printed(*words: str) -> tuple[int, Any]:
    """Run the command and return the exit code and its document."""
    done = CliRunner().invoke(app, ["train", "motif", *words])
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize("collective", ["allreduce", "alltoall", "broadcast", "gather"])
def test_bytes_are_those_of_a_rank_of_any_collective(collective: str) -> None:
    """A motif of all ranks has all elements, halves have half, parts of a pattern their part."""
    size = ("--size", "1MiB", "--json")
    code, told = printed(collective, *size)
    (whole,) = told["motifs"]
    assert (code, whole["rank_bytes"], told["size_bytes"]) == (0, 2**20, 2**20)
    halves = printed(collective, "--recipe", "seg(2)", *size)[1]["motifs"]
    assert [one["rank_bytes"] for one in halves] == [2**19, 2**19]
    assert "1 MiB" in sccl(collective, "--recipe", "whole", "--size", "1MiB")[1]


def test_bytes_of_parts_of_a_pattern_are_those_that_a_rank_gives() -> None:
    """With 8 ranks: two thirds of 3 offsets each and a last one of 2. With all: 7 blocks of 8."""
    asked = ("alltoall", "--ranks", "8", "--size", "1MiB", "--json", "--recipe")
    parts = printed(*asked, "spline(3)")[1]["motifs"]
    assert [one["rank_bytes"] for one in parts] == [3 * 2**17, 3 * 2**17, 2 * 2**17]
    assert sum(one["bytes"] for one in parts) == 7 * 2**20
    asked = ("allreduce", "--ranks", "16", "--size", "1MiB", "--json", "--recipe")
    phases = printed(*asked, "levels(4)")[1]["motifs"]
    assert [one["rank_bytes"] for one in phases] == [2**20, 2**18, 2**20]


def test_split_has_a_digest_of_what_it_is_and_not_of_who_printed_it() -> None:
    asked = ("allreduce", "--recipe", "ring", "--json")
    told = printed(*asked)[1]
    content = {k: v for k, v in told.items() if k not in HEAD}
    plain = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    assert told["digest"] == f"sha256:{hashlib.sha256(plain).hexdigest()}"
    for other in (("--item-bytes", "2"), ("--ranks", "4"), ("--size", "2MiB")):
        assert printed(*asked, *other)[1]["digest"] != told["digest"]


def test_lanes_show_their_channels() -> None:
    code, text = sccl("broadcast", "--recipe", "lanes(a:2, b:1)", "--root", "3")
    assert (code, "Channel" in text) == (0, True)


def test_without_a_recipe_the_rules_are_listed() -> None:
    code, text = sccl("alltoall")
    assert code == 0
    assert "spline(parts)" in text
    assert "tree" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["allreduce", "--recipe", "ring", "--ranks", "1"], "ranks is 1, expected 2 to 4096"),
        (["allreduce", "--recipe", "sag"], "sag applies to broadcast, reduce, not to allreduce"),
        (["allreduce", "--recipe", "ring", "--size", "6"], "a multiple of the 4 of an element"),
        (["allreduce", "--recipe", "ring", "--root", "1"], "root is 1, but allreduce has none"),
    ],
)
def test_motif_rejects_invalid_input(words: list[str], message: str) -> None:
    code, text = sccl(*words)
    assert (code, message in text) == (2, True)
