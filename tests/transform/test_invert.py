"""Inversion and composition: each result is verified, and uninvertible algorithms are rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sccl.collectives import named_spec
from sccl.core.algorithm import make_send
from sccl.core.answer import Sat
from sccl.core.topology import Link, Topology
from sccl.errors import CollectiveError, JudgeError, NotInvertibleError, ParameterError
from sccl.judge import violations
from sccl.synth.syncoll import solve
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import build_question, compose, invert, prune, solve_question
from tests.kit.solver_cases import Case, solved


def test_gather_and_scatter_are_inverses() -> None:
    gather = solved(Case("dgx1", "gather", 2, 2, 3, True, "", root=3))
    scatter = invert(gather, named_spec("scatter", 8, 3).at(16))
    assert violations(scatter) == []
    assert not any(s.reduce for s in scatter.sends)
    assert invert(scatter, gather.collective) == prune(gather)


def test_broadcast_becomes_reduce() -> None:
    broadcast = solved(Case("dgx1", "broadcast", 2, 2, 2, True, "", root=5))
    reduce = invert(broadcast, named_spec("reduce", 8, 5).at(2))
    assert all(s.reduce for s in reduce.sends)
    assert len(reduce.sends) == len(broadcast.sends)
    assert reduce.rounds_per_step == broadcast.rounds_per_step[::-1]


def test_alltoall_is_its_own_inverse_with_chunks_transposed() -> None:
    alltoall = solved(Case("full:4", "alltoall", 4, 1, 1, True, ""))
    from sccl.core.collective import SCATTERED, TRANSPOSE

    turned = replace(alltoall.collective, name="turned", pre=TRANSPOSE, post=SCATTERED)
    assert violations(invert(alltoall, turned)) == []


def test_one_way_links_are_turned_and_turned_back() -> None:
    ring = Topology("r", 3, tuple(Link(i, (i + 1) % 3, 1, 1.0, 1.0) for i in range(3)), 1.0, 1.0)
    question = build_question(ring, named_spec("reduce", 3, 0), 1, 2, 2)
    assert question.instances[0].topology == ring.reversed()
    answer = solve_question(question, solve.solve)
    assert isinstance(answer, Sat)
    assert answer.algorithm.topology == ring
    allreduce = build_question(ring, named_spec("allreduce", 3), 3, 4, 4)
    assert [i.topology for i in allreduce.instances] == [ring.reversed(), ring]


def test_relays_without_a_contribution() -> None:
    """A custom reduction over the two ends of a line: the middle only passes on."""
    from sccl.collectives import custom_spec
    from sccl.core.files.shapes import CustomCollectiveWire

    wire = CustomCollectiveWire(
        name="ends", ranks=4, pre=((0, 0), (0, 3)), post=((0, 1),), combining=True
    )
    question = build_question(resolve_topology("line:4"), custom_spec(wire, "x"), 1, 2, 2)
    answer = solve_question(question, solve.solve)
    assert isinstance(answer, Sat)
    assert violations(answer.algorithm) == []
    assert len(answer.algorithm.sends) == 3


def test_prune_drops_what_nobody_needs() -> None:
    gather = solved(Case("ring:4", "gather", 1, 2, 3, True, "", root=0))
    wasteful = replace(
        gather,
        rounds_per_step=(5, 5),
        sends=(*gather.sends, make_send(0, 0, 1, 0), make_send(0, 1, 2, 1)),
    )
    assert violations(wasteful) == []
    assert prune(wasteful).sends == prune(gather).sends


def test_uninvertible_algorithms_are_rejected() -> None:
    allgather = solved(Case("ring:4", "allgather", 1, 2, 2, True, ""))
    with pytest.raises(NotInvertibleError, match="does not reduce"):
        invert(allgather, named_spec("gather", 4).at(1))
    from sccl.collectives import custom_spec
    from sccl.core.files.shapes import CustomCollectiveWire

    two = CustomCollectiveWire(name="two", ranks=4, pre=((0, 0), (0, 1)), post=((0, 2),))
    question = build_question(resolve_topology("ring:4"), custom_spec(two, "x"), 1, 1, 1)
    answer = solve_question(question, solve.solve)
    assert isinstance(answer, Sat)
    with pytest.raises(NotInvertibleError, match="starts on 2 ranks"):
        invert(expand_algorithm(answer.algorithm), named_spec("reduce", 4).at(1))


def test_compositions_are_verified() -> None:
    gather = solved(Case("full:3", "allgather", 1, 1, 1, True, ""))
    scatter = solved(Case("full:3", "reducescatter", 3, 1, 1, True, ""))
    allreduce = named_spec("allreduce", 3).at(3)
    assert violations(compose(scatter, gather, allreduce)) == []
    with pytest.raises(JudgeError):
        compose(gather, scatter, allreduce)
    other = solved(Case("ring:4", "allgather", 1, 2, 2, True, ""))
    with pytest.raises(ParameterError, match="different topologies"):
        compose(scatter, other, allreduce)
    finer = solved(Case("full:3", "allgather", 2, 1, 2, True, ""))
    with pytest.raises(ParameterError, match="chunks"):
        compose(scatter, finer, allreduce)


def test_claims_do_not_travel() -> None:
    gather = replace(
        solved(Case("full:3", "allgather", 1, 1, 1, True, "")), proved=("pareto",), scope="x"
    )
    scatter = invert(gather, named_spec("reducescatter", 3).at(3))
    both = compose(scatter, gather, named_spec("allreduce", 3).at(3))
    assert (scatter.proved, scatter.scope, both.proved, both.scope) == ((), "", (), "")


def test_names_and_costs_do_not_make_a_machine_one_way() -> None:
    links = tuple(replace(k, alpha_us=1.0 + k.src) for k in resolve_topology("ring:3").links)
    uneven = replace(resolve_topology("ring:3"), links=links)
    assert len(build_question(uneven, named_spec("allreduce", 3), 3, 2, 2).instances) == 1


def test_questions_refuse_what_makes_no_sense() -> None:
    machine = resolve_topology("ring:4")
    with pytest.raises(ParameterError, match="even number"):
        build_question(machine, named_spec("allreduce", 4), 4, 3, 4)
    with pytest.raises(ParameterError, match="at least 3 rounds"):
        build_question(machine, named_spec("allgather", 4), 1, 3, 2)
    with pytest.raises(ParameterError, match="steps is 0"):
        build_question(machine, named_spec("allgather", 4), 1, 0, 2)
    with pytest.raises(CollectiveError, match="is for 5 ranks"):
        build_question(machine, named_spec("allgather", 5), 1, 2, 2)
