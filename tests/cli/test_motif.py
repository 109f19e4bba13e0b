"""``sccl motif``: tables of what recipes make, and what they cannot be."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app


def sccl(*words: str) -> tuple[int, str]:
    """Run the command in this process; return the exit code and all that it prints."""
    done = CliRunner().invoke(app, ["motif", *words])
    return done.exit_code, " ".join((done.stdout + done.stderr).split())


def test_motifs_are_listed_with_what_they_wait_for() -> None:
    code, text = sccl("allreduce", "--recipe", "levels(4).seg(2)", "--ranks", "16")
    assert code == 0
    assert "4 x 4 ranks" in text
    assert "6 motifs do what levels(4).seg(2) of allreduce among 16 ranks is to do" in text


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
        (["allsum"], "did you mean"),
        (["allreduce", "--recipe", "ring", "--ranks", "1"], "ranks is 1, expected 2 to 4096"),
        (["allreduce", "--recipe", "sag"], "sag is of broadcast, reduce, and not of allreduce"),
        (["allreduce", "--recipe", "ring", "--size", "6"], "a multiple of the 4 of an element"),
        (["allreduce", "--recipe", "ring", "--root", "1"], "root is 1, but allreduce has none"),
    ],
)
def test_what_is_refused(words: list[str], message: str) -> None:
    code, text = sccl(*words)
    assert (code, message in text) == (2, True)
