"""Claims on large machines, checked by translations, and rejection of forged ones."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.answer import Sat
from sccl.core.ids import Rank, Step
from sccl.core.instance import Instance, SweepRange
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Budget, Topology
from sccl.judge import steps
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.prove.check.certificate import check_folder
from sccl.prove.check.constraint_prices import price_bound
from sccl.prove.check.step_counts import farthest_chunk
from sccl.prove.check.translations import check_translated, check_translations, is_translated
from sccl.solvers.effort import Effort
from sccl.synth import constructions
from sccl.synth.allreduce.certify import certify_frontier
from sccl.synth.allreduce.pareto_search import find_frontier
from sccl.synth.common.problem import CollectiveProblem
from sccl.synth.common.settings import Settings
from sccl.synth.constructions import abelian_allgather, abelian_alltoall
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.topo.symmetry.group_choice import candidate_groups, translation_groups
from tests.kit.cayley import cayley_machines, graph_of
from tests.kit.certificates import free
from tests.kit.nightly import times


def found_for(machine: Topology, collective: str) -> SymmetricAlgorithm:
    """Return the frontier at the diameter, which needs no search."""
    graph, unit = graph_of(machine), named_spec(collective, machine.ranks).unit
    far = int(graph.distances().max())
    load = (
        abelian_alltoall.rounds_per_chunk(graph, 1)
        if unit > 1
        else sum(abelian_allgather.step_costs(graph) or ())
    )
    rounds = (ceil((load or 0) * unit / far) + 1) * far
    question = named_spec(collective, machine.ranks).at(unit)
    found = constructions.answer(
        Instance(machine, question, far, rounds), candidate_groups(machine, question, "auto")
    )
    assert isinstance(found, Sat)
    assert isinstance(found.algorithm, SymmetricAlgorithm)
    return found.algorithm


@settings(max_examples=times(80, by_day=40), deadline=None)
@given(cayley_machines(), st.sampled_from(["allgather", "alltoall"]), st.randoms())
def test_algorithms_are_checked_as_if_written_out(
    machine: Topology, collective: str, rng: random.Random
) -> None:
    good = found_for(machine, collective)
    assert is_translated(good)
    check_translated(good, free)
    sends = list(good.sends)
    i = rng.randrange(len(sends))
    match rng.choice(["drop", "step", "src", "dst", "rounds"]):
        case "drop":
            del sends[i]
        case "step":
            sends[i] = replace(sends[i], step=Step(rng.randrange(good.steps)))
        case "src":
            sends[i] = replace(sends[i], src=Rank(rng.randrange(machine.ranks)))
        case "dst":
            sends[i] = replace(sends[i], dst=Rank(rng.randrange(machine.ranks)))
    rounds = [max(1, r - rng.choice([0, 1, r])) for r in good.rounds_per_step]
    bad = replace(
        good,
        sends=tuple(sends),
        rounds_per_step=tuple(rounds),
        num_sends=len(sends) * machine.ranks,
    )
    try:
        check_translated(bad, free)
        accepted = True
    except ValueError:
        accepted = False
    assert accepted == (not steps.violations(expand_algorithm(bad)))


@settings(max_examples=times(60), deadline=None)
@given(cayley_machines(), st.data())
def test_translations_are_no_other_permutations(machine: Topology, data: st.DataObject) -> None:
    """Forged ones are refused, or they are translations, too."""
    (group,) = translation_groups(machine, named_spec("allgather", machine.ranks).at(1))
    images = [symmetry.ranks for symmetry in group.generators]
    check_translations(machine, images, free)
    for collective in ("allgather", "alltoall"):
        spec = named_spec(collective, machine.ranks)
        question = spec.at(spec.unit)
        assert (
            farthest_chunk(machine, question, free, images)[0]
            == farthest_chunk(machine, question, free)[0]
        )
    question = named_spec("alltoall", machine.ranks).at(machine.ranks)
    prices = [(link.edge, Fraction(1)) for link in machine.links]
    some = price_bound(machine, question, prices, (), free, images)
    assert some == price_bound(machine, question, prices, (), free)
    first = [(machine.links[0].edge, Fraction(3)), *prices[1:]]  # not the same for all images
    some = price_bound(machine, question, first, (), free, images)
    assert some == price_bound(machine, question, first, (), free)
    image = data.draw(st.permutations(range(machine.ranks)))
    lanes = machine.lanes()
    moved = {(image[u], image[v]): n for (u, v), n in lanes.items()}
    if moved != lanes:
        with pytest.raises(ValueError, match="maps link"):
            check_translations(machine, [*images, image], free)


def test_translations_must_be_a_regular_abelian_group() -> None:
    ring = resolve_topology("ring:4")
    turn = (1, 2, 3, 0)
    for images, says in (
        (((0, 0, 1, 2),), "not a permutation"),
        (((2, 3, 0, 1),), "map rank 0 to 2 of 4 ranks"),
        ((turn, (0, 3, 2, 1)), "does not commute"),
    ):
        with pytest.raises(ValueError, match=says):
            check_translations(ring, images, free)
    shared = replace(ring, budgets=(Budget("bus", tuple(sorted(ring.edges)), 1),))
    with pytest.raises(ValueError, match="budgets"):
        check_translations(shared, (turn,), free)


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_certificates_of_large_machines(collective: str, tmp_path: Path) -> None:
    """With 256 ranks all claims are checked, and every forged one is rejected."""
    machine = resolve_topology("torus:16x16")
    spec = named_spec(collective, machine.ranks)
    subject = CollectiveProblem(machine, spec, ())
    options = Settings("cpsat", Effort(60.0), no_store=True)
    frontier = find_frontier(machine, spec, SweepRange(), options)
    assert frontier.points[0].cost == lower_bounds(machine, spec).bandwidth
    certify_frontier(subject, frontier, options, tmp_path)
    assert {v.state for v in check_folder(tmp_path)} == {"ok"}
    claims = tmp_path / "claims.json"
    whole = json.loads(claims.read_text())
    assert len(whole["symmetries"]) == 2

    def states(**changed: Any) -> list[str]:
        claims.write_text(json.dumps({**whole, **changed}))
        return [v.state for v in check_folder(tmp_path)]

    forged = [list(image) for image in whole["symmetries"]]
    forged[0][0], forged[0][1] = forged[0][1], forged[0][0]
    assert states(symmetries=forged)[0] == "failed"
    assert states(symmetries=forged[1:])[0] == "failed"
    claims.write_text(json.dumps(whole))
    (path,) = (p for p in tmp_path.glob("*.json") if p.name != "claims.json")
    algorithm = json.loads(path.read_text())
    del algorithm["sends"][5]
    path.write_text(json.dumps(algorithm))
    assert "failed" in [v.state for v in check_folder(tmp_path)]
