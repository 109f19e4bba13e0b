"""Allgather on products of lines: dimension by dimension, both bounds met on squares and cubes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from sccl.collectives import named
from sccl.core.answer import Sat
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Budget
from sccl.judge import steps, violations
from sccl.prove.bounds import lower_bounds
from sccl.synth import direct
from sccl.synth.direct.lines import lines_of, served
from sccl.synth.direct.reach import BREADTH_FIRST, BY_DIMENSIONS
from sccl.topo import resolve
from sccl.topo.symmetry.expand import expand
from sccl.topo.symmetry.groups import groups

SQUARES = [f"mesh:{n}x{n}" for n in range(3, 13)]
CUBES = ["mesh:3x3x3", "mesh:4x4x4", "mesh:5x5x5", "mesh:3x3x3x3", "mesh:4x4x4x4"]


@pytest.mark.parametrize("text", [*SQUARES, *CUBES])
def test_squares_and_cubes_meet_both_bounds(text: str) -> None:
    machine = resolve(text)
    spec = named("allgather", machine.ranks)
    bounds, known = lower_bounds(machine, spec), direct.attained(machine, spec.at(1))
    assert known is not None
    assert (known.by, known.steps, known.bandwidth) == (
        BY_DIMENSIONS,
        bounds.steps,
        bounds.bandwidth,
    )
    made = direct.constructed(machine, spec.at(1), bounds.steps)
    assert made is not None
    assert made.bandwidth_cost == bounds.bandwidth
    assert violations(made) == []
    assert isinstance(made, SymmetricAlgorithm) == (lines_of(machine).sides[0] % 2 == 0)  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["mesh:4x4", "mesh:5x5", "mesh:6x4x2", "mesh:3x4"])
@pytest.mark.parametrize("times", [1, 3])
def test_every_send_is_right_by_the_plain_judge(text: str, times: int) -> None:
    machine = resolve(text)
    lines = served(machine)
    assert lines is not None
    c = lines.pieces * times
    asked = Instance(
        machine, named("allgather", machine.ranks).at(c), lines.steps, int(lines.cost * c)
    )
    answer = direct.answer(asked, groups(machine, asked.collective, "auto"))
    assert isinstance(answer, Sat)
    made = answer.algorithm
    assert made.rounds == int(lines.cost * c)
    assert steps.violations(expand(made)) == []
    assert violations(made) == []


@pytest.mark.parametrize(
    ("text", "by", "cost"),
    [
        ("mesh:12x14", BY_DIMENSIONS, Fraction(169, 2)),
        ("mesh:4x8", BREADTH_FIRST, Fraction(197, 12)),
    ],
)
def test_of_rectangles_the_better_one_is_known(text: str, by: str, cost: Fraction) -> None:
    machine = resolve(text)
    known = direct.attained(machine, named("allgather", machine.ranks).at(1))
    assert known is not None
    assert (known.by, known.bandwidth) == (by, cost)
    made = direct.constructed(machine, named("allgather", machine.ranks).at(1), known.steps)
    assert made is not None
    assert made.bandwidth_cost == cost


def test_wider_links_take_more_pieces_at_the_same_time() -> None:
    mesh = resolve("mesh:4x4")
    wide = replace(mesh, links=tuple(replace(link, lanes=3) for link in mesh.links))
    made = direct.constructed(wide, named("allgather", 16).at(1), 6)
    assert made is not None
    assert (made.collective.chunks, made.rounds) == (6, 15)
    assert violations(made) == []


def test_other_machines_are_none() -> None:
    mesh = resolve("mesh:4x4")
    first, *others = mesh.links
    assert lines_of(mesh) is not None
    assert lines_of(replace(mesh, links=(replace(first, lanes=2), *others))) is None
    assert lines_of(replace(mesh, budgets=(Budget("bus", (first.edge,), 1),))) is None
    for text in ("torus:4x4", "line:5", "hypercube:3", "product:dgx1_x_line:3", "dgx1"):
        assert lines_of(resolve(text)) is None, text


def test_what_it_cannot_do_is_left_to_others() -> None:
    machine = resolve("mesh:5x5")
    spec = named("allgather", 25)
    known = groups(machine, spec.at(1), "auto")
    odd = direct.answer(Instance(machine, spec.at(1), 8, 17), known)
    assert isinstance(odd, Sat)
    assert odd.algorithm.collective.chunks == 1
    assert direct.answer(Instance(machine, spec.at(2), 8, 23), known) is None
