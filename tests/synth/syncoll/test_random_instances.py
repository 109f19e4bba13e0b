"""On random machines and collectives: solvers agree, answers pass the judge, bounds hold."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, dual_of
from sccl.core.answer import Answer, Sat, verdict
from sccl.core.instance import Instance, SweepRange
from sccl.core.topology import Topology
from sccl.judge import violations
from sccl.prove.bounds.bandwidth_proof import check_proof
from sccl.prove.bounds.lower_bounds import bandwidth_bound, lower_bounds
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.synth.syncoll import solve
from sccl.synth.syncoll.sweep import sweep
from sccl.transform import build_question, solve_question
from tests.kit.nightly import times
from tests.kit.strategies import diameter, specs, topologies


@st.composite
def questions(draw: st.DrawFn) -> tuple[Topology, Spec, int, int, int]:
    topology = draw(topologies())
    spec = draw(specs(topology.ranks))
    dual = dual_of(spec)
    steps = draw(st.integers(1, diameter(topology) + 1))
    rounds = steps + draw(st.integers(0, 2))
    chunks = dual.spec.unit * dual.chunk_factor * draw(st.integers(1, 2))
    return topology, spec, chunks, steps * dual.phases, rounds * dual.phases


def _ask(work: Callable[[Instance, solve.Effort], Answer], instance: Instance) -> Answer:
    return work(instance, solve.Effort(120))


@settings(max_examples=times(60, by_day=30))
@given(questions())
def test_solvers_agree_and_the_judge_accepts(
    asked: tuple[Topology, Spec, int, int, int],
) -> None:
    topology, spec, chunks, steps, rounds = asked
    question = build_question(topology, spec, chunks, steps, rounds)
    assume(question.collective.num_chunks <= 24)
    verdicts = {}
    from sccl.synth.syncoll import solve_cadical, solve_cpsat, solve_z3

    in_this_process = {  # without their child processes: far faster
        "cpsat": solve_cpsat.answer,
        "cadical": solve_cadical.answer_in_process,
        "z3": solve_z3.answer_in_process,
    }
    for solver, work in in_this_process.items():
        answer = solve_question(question, partial(_ask, work))
        verdicts[solver] = verdict(answer)
        if isinstance(answer, Sat):
            assert violations(answer.algorithm) == []
            assert answer.algorithm.topology == topology
    assert len(set(verdicts.values())) == 1, verdicts
    assert "unknown" not in verdicts.values()


@settings(max_examples=times(60))
@given(questions())
def test_nothing_beats_the_bounds(asked: tuple[Topology, Spec, int, int, int]) -> None:
    topology, spec, chunks, steps, rounds = asked
    dual = dual_of(spec)
    bounds = lower_bounds(topology, spec)
    unit = dual.spec.at(dual.spec.unit)
    certified = max(
        check_proof(phase.topology, unit, bandwidth_bound(phase.topology, unit))
        for phase in dual.phases_on(topology)
    )
    assert dual.bandwidth(certified / unit.chunks) == bounds.bandwidth
    answer = solve_question(build_question(topology, spec, chunks, steps, rounds), solve.solve)
    if isinstance(answer, Sat):
        assert answer.algorithm.steps >= bounds.steps
        assert answer.algorithm.bandwidth_cost >= bounds.bandwidth


@settings(max_examples=times(15))
@given(st.data())
def test_the_sweep_finds_what_the_papers_procedure_finds(data: st.DataObject) -> None:
    """Against Algorithm 1 as printed: ascending R/C, one candidate at a time."""
    topology = data.draw(topologies(max_ranks=3))
    spec = data.draw(specs(topology.ranks))
    dual = dual_of(spec)
    k, last = 1, (diameter(topology) + 1) * dual.phases
    covered = SweepRange(k=k, max_steps=last, max_chunks=6)
    frontier = sweep(
        topology, spec, solve.solve, solver="cpsat", covered=covered, limits=PackingLimits
    )
    bounds = frontier.bounds
    assert bounds is not None
    unit = dual.spec.unit * dual.chunk_factor
    expected: list[tuple[int, Fraction]] = []
    for steps in range(bounds.steps, last + 1, dual.phases):
        dual_steps = steps // dual.phases
        tried = sorted(
            (Fraction(r * dual.phases, c), c, r * dual.phases)
            for r in range(dual_steps, dual_steps + k + 1)
            for c in range(unit, 7, unit)
            if Fraction(r * dual.phases, c) >= bounds.bandwidth
        )
        for cost, chunks, rounds in tried:
            answer = solve_question(
                build_question(topology, spec, chunks, steps, rounds), solve.solve
            )
            if isinstance(answer, Sat):
                if not expected or cost < expected[-1][1]:
                    expected.append((steps, cost))
                break
        if expected and expected[-1][1] == bounds.bandwidth:
            break
    assert [(p.candidate.steps, p.candidate.cost) for p in frontier.points] == expected
    assert all(p.is_proved for p in frontier.points)


@pytest.mark.parametrize("solver", solve.names())
def test_one_way_links(solver: str) -> None:
    """A one-way ring: combining collectives go the long way round, on the reversed machine."""
    from sccl.core.topology import Link

    ring = Topology(
        name="one-way",
        ranks=3,
        links=tuple(Link(i, (i + 1) % 3, 1, 1.0, 1.0) for i in range(3)),
        alpha_us=1.0,
        gb_per_s=1.0,
    )
    from sccl.collectives import named_spec

    for name, chunks, steps in (("reduce", 1, 2), ("reducescatter", 3, 2), ("allreduce", 3, 4)):
        question = build_question(ring, named_spec(name, 3), chunks, steps, steps)
        answer = solve_question(question, lambda i: solve.solve(i, solver))
        assert isinstance(answer, Sat), name
        assert answer.algorithm.topology == ring
        assert all((s.dst - s.src) % 3 == 1 for s in answer.algorithm.sends)
