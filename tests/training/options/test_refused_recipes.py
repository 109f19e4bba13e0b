"""Recipes of which a collective has no option, and why."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest

from sccl.core.topology import Link, Topology
from sccl.errors import ParameterError
from sccl.training.fabric_names import resolve_fabric
from sccl.training.options.candidate_options import (
    explain_omissions,
    non_dominated,
    select_candidates,
)
from sccl.training.options.option_catalog import find_options
from sccl.training.options.option_enumeration import OptionEnumerator, OptionSettings
from sccl.training.types.fabric import Channel, Fabric
from tests.kit.workloads import calling, comm

_NODES = ((0, 1, 2, 3), (4, 5, 6, 7))


def machine(name: str, pairs: Iterable[tuple[int, int]]) -> Topology:
    """Return two nodes of four ranks, with links both ways between some."""
    links = (Link(a, b, 1, 1.0, 10.0) for pair in pairs for a, b in (pair, pair[::-1]))
    return Topology(name, 8, links=tuple(links), alpha_us=1.0, gb_per_s=10.0, chassis=_NODES)


ROWS = machine("rows", (pair for node in _NODES for pair in combinations(node, 2)))
RAILS = machine("rails", zip(*_NODES, strict=True))
"""Neither joins all ranks, but within rows and then along rails all are reached."""

HGX = resolve_fabric("hgx2x4")
MB = 10**6
CUT = "levels(8).seg(8)"


def refused(name: str, size: int, **asked: object) -> dict[str, str]:
    """Return why recipes of a collective of 16 ranks are refused."""
    job = calling(16, comm("op", name, range(16), size // 4 // 16 * 16))
    settings = OptionSettings(**asked)  # type: ignore[arg-type]
    return {one.recipe: one.why for one in find_options(job, HGX, settings).refused["op"]}


@pytest.mark.parametrize(
    ("name", "size", "asked", "recipe", "says"),
    [
        ("allreduce", MB, {"recipes": ("whole", "spline(2)")}, "spline(2)", "not to all"),
        ("allreduce", MB, {"recipes": ("whole", CUT), "max_motifs": 4}, CUT, "it makes 24"),
        (
            "allreduce",
            MB,
            {"recipes": ("whole", "tree(4)"), "bitwise": True},
            "tree(4)",
            "its order of",
        ),
        ("allreduce", 4096, {}, "seg(8)", "us into 8, and launching each takes"),
        ("allgather", 24 * 2**20, {}, "sources(2)", "another option is as fast"),
        ("allgather", 64 * MB, {"max_options": 2}, None, "only 2 options are kept"),
    ],
)
def test_refused_recipe_has_a_reason(
    name: str, size: int, asked: dict[str, object], recipe: str | None, says: str
) -> None:
    told = refused(name, size, **asked)
    if recipe is not None:
        told = {recipe: told[recipe]}
    assert any(says in why for why in told.values()), told


def test_oversized_collective_goes_in_parts() -> None:
    job = calling(8, comm("op", "allreduce", range(8), 2**20))
    found = find_options(job, Fabric("grid", (Channel("a", ROWS), Channel("b", RAILS))))
    assert {one.recipe for one in found.by_collective["op"]} >= {"levels(4)"}
    assert {motif.channel for one in found.by_collective["op"] for motif in one.motifs} == {
        "a",
        "b",
    }
    told = {one.recipe: one.why for one in found.refused["op"]}
    assert "no path leads from rank 0" in told["whole"]


def test_why_each_recipe_is_rejected_is_told_where_there_is_none() -> None:
    job = calling(8, comm("op", "allreduce", range(8), 2**20))
    with pytest.raises(ParameterError, match="has no option") as error:
        find_options(job, Fabric("rows", (Channel("a", ROWS),)))
    for recipe in ("whole: ", "ring: ", "levels(4): ", "seg(2): "):
        assert recipe in str(error.value)


def test_each_recipe_that_was_made_has_an_option_or_a_reason() -> None:
    finder = OptionEnumerator(HGX, OptionSettings())
    reasons = set[str]()
    for name in ("allreduce", "alltoall", "allgather", "broadcast"):
        every = finder.enumerate_options(comm(name, name, range(32), 32 * MB))
        alive = non_dominated(every)
        for most in (2, 12, 99):
            found = select_candidates(alive, most)
            why = explain_omissions(every, alive, found)
            taken = {one.recipe for one in found}
            assert {one.recipe for one in every} == taken | why.keys()
            assert not taken & why.keys()
            reasons |= {" ".join(text.split()[:2]) for text in why.values()}
    assert reasons >= {"only 2", "only 12", "it takes"}
