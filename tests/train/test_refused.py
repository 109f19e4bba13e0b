"""Recipes of which a collective has no option, and why."""

from __future__ import annotations

import pytest

from sccl.topo import fabric_of
from sccl.train.finding import OptionFinder, OptionSettings
from sccl.train.offers import kept, left_out, unbeaten
from sccl.train.options import options_of
from tests.kit.workloads import calling, comm

HGX = fabric_of("hgx2x4")
MB = 10**6
CUT = "levels(8).seg(8)"


def refused(name: str, size: int, **asked: object) -> dict[str, str]:
    """Return why recipes of a collective of 16 ranks are refused."""
    job = calling(16, comm("op", name, range(16), size // 4 // 16 * 16))
    settings = OptionSettings(**asked)  # type: ignore[arg-type]
    return {one.recipe: one.why for one in options_of(job, HGX, settings).refused["op"]}


@pytest.mark.parametrize(
    ("name", "size", "asked", "recipe", "says"),
    [
        ("allreduce", MB, {"recipes": ("whole", "spline(2)")}, "spline(2)", "and not of all"),
        ("allreduce", MB, {"recipes": ("whole", CUT), "max_motifs": 4}, CUT, "it makes 24"),
        ("allreduce", MB, {"recipes": ("whole", "tree(4)"), "bitwise": True}, "tree(4)", "another"),
        ("allreduce", 4096, {}, "seg(8)", "us into 8, and launching each takes"),
        ("allgather", 24 * 2**20, {}, "sources(2)", "another option is as fast"),
        ("allgather", 64 * MB, {"most": 2}, None, "2 other options are kept, and no more"),
    ],
)
def test_it_is_said_why(
    name: str, size: int, asked: dict[str, object], recipe: str | None, says: str
) -> None:
    told = refused(name, size, **asked)
    if recipe is not None:
        told = {recipe: told[recipe]}
    assert any(says in why for why in told.values()), told


def test_each_recipe_that_was_made_has_an_option_or_a_reason() -> None:
    finder = OptionFinder(HGX, OptionSettings())
    reasons = set[str]()
    for name in ("allreduce", "alltoall", "allgather", "broadcast"):
        every = finder.found(comm(name, name, range(32), 32 * MB))
        alive = unbeaten(every)
        for most in (2, 12, 99):
            found = kept(alive, most)
            why = left_out(every, alive, found)
            taken = {one.recipe for one in found}
            assert {one.recipe for one in every} == taken | why.keys()
            assert not taken & why.keys()
            reasons |= {text.split()[0] for text in why.values()}
    assert reasons >= {"2", "12", "it"}
