"""The checker: its arithmetic against brute force, its imports, and misleading claims."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import dual_of, named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.claims import CLAIMS, LimitPointWire
from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.formats.files.plans import write_plan
from sccl.prove.bounds.bandwidth_proof import check_proof
from sccl.prove.bounds.lower_bounds import bandwidth_bound, farthest_pair, lower_bounds
from sccl.prove.check import certificate as checker
from sccl.prove.check.allreduce import is_member
from sccl.prove.check.case import read_case
from sccl.prove.check.certificate import Verdict, check_case, check_folder
from sccl.prove.check.constraint_prices import price_bound, rank_bits, step_price_bound
from sccl.prove.check.coverage import Coverage, PhaseExclusions
from sccl.prove.check.messages import class_texts
from sccl.prove.check.orbit_expansion import expand_symmetric
from sccl.prove.check.step_counts import farthest_chunk, min_tree_steps
from sccl.prove.check.timed_trees import (
    StepCosts,
    cheapest_paths,
    cheapest_tree,
    cheapest_tree_pair,
)
from sccl.prove.check.work import TooMuchError, Work
from sccl.synth.common.claims import bound_claims, limit_claims
from sccl.synth.packing.by_steps.allreduce_trees import tree_bounds
from sccl.synth.packing.by_steps.limits_by_steps import step_limit
from sccl.synth.packing.by_steps.solve import make_pricer, solve_packing
from sccl.synth.packing.problem import (
    build_allreduce_problem,
    build_packing_problem,
)
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from tests.kit.certificates import composed_allreduce, free
from tests.kit.nightly import times
from tests.kit.paths import PUBLISHED
from tests.kit.strategies import specs, topologies

# --- the cheapest timed trees --------------------------------------------------------------------


def by_brute_force(costs: StepCosts, ranks: int, holders: int, wanted: int) -> int | None:
    """Return a cheapest timed tree's cost by all ways for ranks to get the chunk, or not."""
    never = len(costs)
    best: int | None = None
    choices = [[-1] if holders >> r & 1 else range(never + 1) for r in range(ranks)]
    for arrives in product(*choices):
        if any(wanted >> r & 1 and arrives[r] == never for r in range(ranks)):
            continue
        total: int | None = 0
        for rank, step in enumerate(arrives):
            if 0 <= step < never:
                ways = [
                    cost for (u, v), cost in costs[step].items() if v == rank and arrives[u] < step
                ]
                total = total + min(ways) if ways and total is not None else None
        if total is not None and (best is None or total < best):
            best = total
    return best


def back(costs: StepCosts) -> StepCosts:
    return [{(v, u): cost for (u, v), cost in of_step.items()} for of_step in reversed(costs)]


@st.composite
def priced(draw: st.DrawFn, max_ranks: int, max_steps: int) -> tuple[Topology, StepCosts]:
    machine = draw(topologies(max_ranks=max_ranks))
    cost = st.sampled_from([0, 0, 1, 2, 5, 9])
    steps = draw(st.integers(1, max_steps))
    return machine, [{edge: draw(cost) for edge in sorted(machine.edges)} for _ in range(steps)]


@settings(max_examples=times(150))
@given(priced(max_ranks=4, max_steps=4), st.data())
def test_cheapest_trees_are_those_of_brute_force(
    given_: tuple[Topology, StepCosts], data: st.DataObject
) -> None:
    machine, costs = given_
    some = st.integers(1, 2**machine.ranks - 1)
    holders, wanted = data.draw(some), data.draw(some)
    expected = by_brute_force(costs, machine.ranks, holders, wanted)
    assert cheapest_tree(costs, machine.ranks, holders, wanted, free) == expected
    if (wanted & ~holders).bit_count() == 1:
        target = (wanted & ~holders).bit_length() - 1
        assert cheapest_paths(costs, machine.ranks, holders, free)[target] == expected


@settings(max_examples=times(60))
@given(priced(max_ranks=3, max_steps=5), st.integers(1, 7))
def test_cheapest_trees_up_and_down_are_those_of_brute_force(
    given_: tuple[Topology, StepCosts], some: int
) -> None:
    machine, costs = given_
    wanted = some & (1 << machine.ranks) - 1 or 1  # others pass chunks on
    found = []
    for root, turn in product(range(machine.ranks), range(len(costs) + 1)):
        up = by_brute_force(back(costs[:turn]), machine.ranks, 1 << root, wanted)
        down = by_brute_force(costs[turn:], machine.ranks, 1 << root, wanted)
        if up is not None and down is not None:
            found.append(up + down)
    pairs = [(u, v) for u, v in machine.edges if u < v and (v, u) in machine.edges]
    for (u, v), turn in product(pairs, range(len(costs))):
        both = 1 << u | 1 << v
        up = by_brute_force(back(costs[:turn]), machine.ranks, both, wanted)
        down = by_brute_force(costs[turn + 1 :], machine.ranks, both, wanted)
        if up is not None and down is not None:
            found.append(up + costs[turn][u, v] + costs[turn][v, u] + down)
    assert cheapest_tree_pair(costs, machine.ranks, wanted, free) == min(found, default=None)


@settings(max_examples=times(60), deadline=None)
@given(priced(max_ranks=6, max_steps=6), st.data())
def test_cheapest_trees_are_those_that_make_limits(
    given_: tuple[Topology, StepCosts], data: st.DataObject
) -> None:
    machine, costs = given_
    spec = dual_of(data.draw(specs(machine.ranks))).spec
    collective = spec.at(spec.unit)
    steps = len(costs)
    assume(steps >= farthest_pair(machine, collective).steps)
    problem = build_packing_problem(machine, collective, steps, symmetric=False)
    prices = np.array([[c[e] for c in costs] for e in problem.edges], np.int64)
    for commodity in problem.commodities:
        theirs = make_pricer(problem, commodity).exact(prices)[0]
        held, wanted = rank_bits(commodity.holders), rank_bits(commodity.wanted)
        assert cheapest_tree(costs, machine.ranks, held, wanted, free) == theirs
    if steps >= tree_bounds(machine, named_spec("allreduce", machine.ranks)).steps:
        both = build_allreduce_problem(
            machine, named_spec("allreduce", machine.ranks).at(machine.ranks), steps
        )
        theirs = make_pricer(both, both.commodities[0]).exact(prices)[0]
        assert cheapest_tree_pair(costs, machine.ranks, (1 << machine.ranks) - 1, free) == theirs


@pytest.mark.parametrize(
    ("machine", "collective", "steps"),
    [("dgx1", "broadcast", 5), ("torus:3x3", "allgather", 3), ("ndv2x2", "allgather", 5)],
)
def test_limits_are_proved_by_their_prices(machine: str, collective: str, steps: int) -> None:
    topology = resolve_topology(machine)
    spec = dual_of(named_spec(collective, topology.ranks)).spec
    found = solve_packing(build_packing_problem(topology, spec.at(spec.unit), steps))
    assert step_price_bound(topology, spec.at(spec.unit), steps, found.prices, free) == found.lower


@settings(max_examples=times(60), deadline=None)
@given(topologies(max_ranks=5), st.data())
def test_bounds_are_those_of_others(machine: Topology, data: st.DataObject) -> None:
    spec = dual_of(data.draw(specs(machine.ranks))).spec
    collective = spec.at(spec.unit)
    steps, chunk, rank = farthest_chunk(machine, collective, free)
    pair = farthest_pair(machine, collective)
    assert steps == pair.steps
    assert rank in collective.destinations(chunk)
    assert (
        min_tree_steps(machine, named_spec("allreduce", machine.ranks).at(machine.ranks), free)
        == tree_bounds(machine, named_spec("allreduce", machine.ranks)).steps
    )
    found = bandwidth_bound(machine, collective)
    cuts = [(cut.ranks, cut.weight) for cut in found.cuts]
    mine = price_bound(machine, collective, found.prices, cuts, free)
    assert mine * collective.chunks == found.value == check_proof(machine, collective, found)


def test_work_limit_is_reported() -> None:
    work = Work()
    work.begin()
    with pytest.raises(TooMuchError, match="work limit"):
        work.spend(10**12)


def test_symmetric_algorithms_are_written_out_alike() -> None:
    ring = resolve_topology("ring:4")
    collective = named_spec("allgather", 4).at(2)
    turn = Symmetry((1, 2, 3, 0), chunk_shift=1, period=2)
    mirror = Symmetry((0, 3, 2, 1), chunk_shift=1, period=2)
    sends = expand_sends(((0, 0, 0, 1), (1, 0, 1, 2), (2, 0, 2, 3)))
    algorithm = SymmetricAlgorithm(ring, collective, (1, 1, 1), (turn, mirror), sends, 24)
    assert expand_symmetric(algorithm, free) == expand_algorithm(algorithm)
    with pytest.raises(ValueError, match="has more"):
        expand_symmetric(SymmetricAlgorithm(ring, collective, (1, 1, 1), (turn,), sends, 3), free)


def expand_sends(rows: tuple[tuple[int, int, int, int], ...]) -> tuple[Any, ...]:
    return tuple(make_send(chunk, src, dst, step) for step, chunk, src, dst in rows)


# --- imports -------------------------------------------------------------------------------------

_SOLVERS = ["ortools", "flint", "numpy", "igraph", "pysat", "pysmt", "z3", "networkx", "scipy"]
_PROVERS = ["sccl.synth.packing.by_steps", "sccl.synth.syncoll.sweep", "sccl.prove.bounds"]
_LIBRARY = [*_PROVERS, "sccl.synth", "sccl.solvers", "sccl.transform", "sccl.topo.symmetry"]


def loaded_by(program: str) -> set[str]:
    show = "import json, sys\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{show}"], capture_output=True, text=True, check=True
    )
    names = json.loads(done.stdout.splitlines()[-1])
    return {".".join(name.split(".")[:n]) for name in names for n in (1, 2, 3)}


def test_checker_loads_no_solver_and_no_prover() -> None:
    """Cuts and lengths, steps, trees, compositions, prices, and formulas."""
    kinds = ["dgx1-allgather", "dgx1-alltoall", "dgx1-broadcast", "limits/dgx1-allreduce"]
    folders = [str(PUBLISHED / kind) for kind in (*kinds, "inlet-4-reduce")]
    program = (
        "from pathlib import Path\nfrom sccl.prove.check.certificate import check_folder\n"
        f"verdicts = [v for f in {folders} for v in check_folder(Path(f))]\n"
        "assert {v.state for v in verdicts} == {'ok'}\n"
        "assert any('lemma' in v.detail for v in verdicts)\n"
    )
    assert loaded_by(program).isdisjoint([*_SOLVERS, *_LIBRARY])


def test_verb_loads_no_solver_and_no_prover() -> None:
    program = (
        "from sccl.cli.main import app\n"
        f"app(['verify-certificate', {str(PUBLISHED / 'dgx1-allgather')!r}], "
        "standalone_mode=False)\n"
    )
    assert loaded_by(program).isdisjoint([*_SOLVERS, *_PROVERS])


# --- certificates that say more than is true -----------------------------------------------------


@pytest.fixture
def change(tmp_path: Path) -> Callable[..., list[Verdict]]:
    """Return a function that checks a published certificate after a change."""

    def changed(
        kind: str, edit: Callable[[dict[str, Any]], object], *, files: bool = True
    ) -> list[Verdict]:
        for path in (PUBLISHED / kind).iterdir():
            if files or path.name == CLAIMS:
                (tmp_path / path.name).write_bytes(path.read_bytes())
        content = json.loads((tmp_path / CLAIMS).read_text())
        edit(content)
        (tmp_path / CLAIMS).write_text(json.dumps(content))
        return list(check_folder(tmp_path))

    return changed


def optimal(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in content["claims"] if c["claim"] == "pareto")
    return found


def test_claims_say_their_whole_class(change: Callable[..., list[Verdict]]) -> None:
    def narrow(content: dict[str, Any]) -> None:
        optimal(content)["max_chunks"] = 2

    words = [v.claim for v in change("dgx1-allgather", narrow)]
    assert "C=2 S=2 R=3 is Pareto-optimal among algorithms with R <= S + 5 and C up to 2" in words
    assert "C=6 S=3 R=7 is Pareto-optimal among algorithms with R <= S + 5 and any C" in words
    halves = "compositions of a reducescatter and an allgather of equal steps and rounds"
    trees = (
        "tree allreduces (each chunk is reduced up a tree to one or two root ranks, then broadcast)"
    )
    case = read_case(PUBLISHED / "limits" / "dgx1-allreduce")
    any_halves = halves.replace("equal", "any")
    every = "all allreduces (each send carries contributions to one chunk)"
    whole = (halves, trees, any_halves, every)
    assert class_texts(case) == [f"{one}, for every k and C" for one in whole]
    words = [v.claim for v in check_case(case)]
    assert f"R/C >= 3/8 with S=4 for {halves}, for every k and C" in words
    assert f"R/C >= 1/3 with S=4 for {trees}, for every k and C" in words
    assert "S >= 4 for compositions of a reducescatter and an allgather" in words


@pytest.mark.parametrize(
    ("kind", "field", "value", "detail"),
    [
        ("dgx1-allgather", "max_chunks", -1, "C up to -1, expected 2 or more"),
        ("dgx1-allgather", "max_chunks", 0, "C up to 0, expected 2 or more"),
        ("dgx1-allgather", "max_chunks", 1, "C up to 1, expected 2 or more"),
        ("dgx1-allreduce", "max_chunks", 17, "expected 16 or more, a multiple of 8"),
        ("dgx1-allgather", "k", 10**12, "k is 1000000000000, expected up to 100000"),
        ("dgx1-allgather", "k", 0, "it is not in the class"),
        ("dgx1-allgather", "halves", "any", "its class do not have"),
    ],
)
def test_ranges_that_make_no_sense_are_rejected(
    kind: str, field: str, value: object, detail: str, change: Callable[..., list[Verdict]]
) -> None:
    verdicts = change(kind, lambda content: optimal(content).update({field: value}))
    failed = [v.detail for v in verdicts if v.state == "failed"]
    assert len(failed) == 1
    assert detail in failed[0]


def test_large_k_ends(change: Callable[..., list[Verdict]]) -> None:
    verdicts = change("dgx1-allgather", lambda content: optimal(content).update(k=100_000))
    assert {v.state for v in verdicts} == {"ok"}  # by the limits, which hold for every k


@pytest.mark.parametrize(
    ("solvers", "detail"),
    [
        (["alice", "bob"], "expected one of cadical, cpsat, z3"),
        (["cpsat", "alice"], "expected one of cadical, cpsat, z3"),
        (["cpsat", "cpsat"], "expected two different ones"),
    ],
)
def test_only_solvers_have_a_word(
    solvers: list[str], detail: str, change: Callable[..., list[Verdict]]
) -> None:
    def claim(content: dict[str, Any]) -> None:
        unsat = {"claim": "unsat", "chunks": 8, "steps": 2, "rounds": 3, "machine": 0}
        content["claims"].append({**unsat, "searched": solvers})

    assert detail in change("dgx1-allgather", claim)[-1].detail


def test_unchecked_claim_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expensive limit is no failure, but its consequences are no proof."""

    def too_much(*_: object) -> str:
        raise TooMuchError("the check exceeds this checker's work limit")

    monkeypatch.setattr(checker, "_check_limit", too_much)
    folder = PUBLISHED / "dgx1-allgather"
    states = {v.claim.split(",")[0]: v.state for v in check_folder(folder)}
    assert states["R/C >= 3/2 with S=2"] == "unchecked"
    first = "C=2 S=2 R=3 is Pareto-optimal among algorithms with R <= S + 5 and any C"
    assert states[first] == "unchecked"
    assert states["R/C >= 7/6"] == "ok"
    done = CliRunner().invoke(app, ["certificate", "verify", str(folder)])
    assert done.exit_code == 3
    assert "some of which were not checked" in done.stdout


def test_work_is_counted_for_the_whole_certificate() -> None:
    work = Work(total=30)
    for left in (20, 10, 0):
        work.begin()
        work.spend(10)
        assert work.remaining == left
    work.begin()
    with pytest.raises(TooMuchError):
        work.spend(1)


def test_word_is_told_as_one(change: Callable[..., list[Verdict]], tmp_path: Path) -> None:
    def claim(content: dict[str, Any]) -> None:
        unsat = {"claim": "unsat", "chunks": 8, "steps": 2, "rounds": 3, "machine": 0}
        content["claims"].append({**unsat, "searched": ["cpsat", "cadical"]})
        content["claims"].append({**unsat, "searched": ["z3", "cadical"], "chunks": 7})

    verdicts = change("dgx1-allgather", claim)
    assert [v.state for v in verdicts[-2:]] == ["searched", "searched"]
    assert "the certificate states that cadical and cpsat refuted it" in verdicts[-2].detail
    assert CliRunner().invoke(app, ["certificate", "verify", str(tmp_path)]).exit_code == 3


def test_question_is_what_its_name_says(change: Callable[..., list[Verdict]]) -> None:
    def gather(content: dict[str, Any]) -> None:
        content["collective"]["post"] = {"relation": "root", "root": 0}

    def four(content: dict[str, Any]) -> None:
        content["collective"].update(chunks=4, num_chunks=32)

    def custom(content: dict[str, Any]) -> None:
        four(content)
        content["collective"]["name"] = "mine"

    def ragged(content: dict[str, Any]) -> None:
        content["collective"].update(name="mine", num_chunks=7)

    with pytest.raises(FormatError, match="called allgather, but has other chunks, pre or post"):
        change("dgx1-allgather", gather)
    for edit in (four, custom):
        with pytest.raises(FormatError, match="it has 4 chunks, expected 1"):
            change("dgx1-allgather", edit)
    with pytest.raises(FormatError, match="more chunks would change the demand"):
        change("dgx1-allgather", ragged)


def test_machines_and_collectives_are_reported(tmp_path: Path) -> None:
    def lines(**changes: Any) -> list[str]:
        content = json.loads((PUBLISHED / "dgx1-allgather" / CLAIMS).read_text())
        content["topology"].update(changes)
        (tmp_path / CLAIMS).write_text(json.dumps(content))
        return read_case(tmp_path).description_lines()

    machine, collective = lines()
    assert machine.startswith("machine     dgx1: 8 ranks, 32 links, 48 lanes; links and budgets as")
    assert "sha256:" in machine
    assert collective == "collective  allgather: as sccl defines it"
    assert "custom: sccl knows no machine of this name" in lines(name="mine")[0]
    assert "custom: NOT the catalogue's machine of this name" in lines(name="z52")[0]
    assert "custom: NOT the generator's machine of this name" in lines(name="ring:8")[0]
    for large in ("full:9999999", "circulant:9999999:1,2,3", "switch:8x18"):  # made in no time
        assert "custom: NOT the generator's machine of this name" in lines(name=large)[0]
    links = json.loads((PUBLISHED / "dgx1-allgather" / CLAIMS).read_text())["topology"]["links"]
    links[0]["gb_per_s"] = 5.0
    assert "links differ in speed: in a round each lane carries one chunk" in lines(links=links)[0]
    forged = lines(name="x\nok        C=1 S=1 R=1 is Pareto-optimal")[0]
    assert "\n" not in forged


def test_algorithms_are_looked_at_as_by_check(tmp_path: Path) -> None:
    for path in (PUBLISHED / "dgx1-allgather").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    file = next(tmp_path.glob("allgather*.json"))
    content = json.loads(file.read_text())
    content["sends"].append([0, 0, 0, 99, 0])
    file.write_text(json.dumps(content))
    assert any("does not exist" in v.detail for v in check_folder(tmp_path))
    content["sends"].pop()
    content["scope"] = "anything"
    file.write_text(json.dumps(content))
    verdicts = list(check_folder(tmp_path))
    assert {v.state for v in verdicts} == {"ok"}
    assert any("its file was edited after sccl wrote it" in v.detail for v in verdicts)
    wide = [{**link, "lanes": 9} for link in content["topology"]["links"]]
    for part, other in (("topology", {"links": wide}), ("collective", {"name": "mine"})):
        file.write_text(json.dumps({**content, part: {**content[part], **other}}))
        assert any(f"is for another {part}" in v.detail for v in check_folder(tmp_path))


def test_prices_that_leave_just_enough_room_refute_nothing(
    change: Callable[..., list[Verdict]],
) -> None:
    """(2, 2, 3) is an algorithm, and at its limit."""

    def claim(content: dict[str, Any]) -> None:
        limit = next(c for c in content["claims"] if c["claim"] == "limit" and c["steps"] == 2)
        prices = [[name, step, str(Fraction(price) / 3)] for name, step, price in limit["prices"]]
        vectors = [{"rounds": rounds, "prices": prices} for rounds in ([1, 2], [2, 1])]
        shape = {"chunks": 2, "steps": 2, "rounds": 3, "machine": 0}
        content["claims"].append({"claim": "unsat", **shape, "vectors": vectors})

    last = change("dgx1-allgather", claim)[-1]
    assert (last.state, "do not exclude an algorithm" in last.detail) == ("failed", True)


def test_words_say_what_refuted(change: Callable[..., list[Verdict]]) -> None:
    verdicts = change("dgx1-broadcast", lambda _: None)
    assert any(v.detail == "15 round vectors refuted: 15 by prices" for v in verdicts)


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / CLAIMS)
    with pytest.raises(InputError, match="not a regular file"):
        list(check_folder(tmp_path))


# --- allreduces of two halves --------------------------------------------------------------------


def with_halves(folder: Path, *points: dict[str, Any], without: str = "") -> list[Verdict]:
    """Check the published limits of allreduce on dgx1 with an algorithm and claims added."""
    for path in (PUBLISHED / "limits" / "dgx1-allreduce").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    write_plan(folder / "composed.json", composed_allreduce())
    content = json.loads((folder / CLAIMS).read_text())
    content["claims"] = [c for c in content["claims"] if c["claim"] not in {"limit-point", without}]
    shape = {"chunks": 48, "steps": 5, "rounds": 16}
    content["claims"].append({"claim": "algorithm", **shape, "file": "composed.json"})
    content["claims"] += points
    (folder / CLAIMS).write_text(json.dumps(content))
    return list(check_folder(folder))[-len(points) :]


def point(chunks: int, steps: int, rounds: int, **more: Any) -> dict[str, Any]:
    shape = {"chunks": chunks, "steps": steps, "rounds": rounds}
    return {"claim": "limit-point", "halves": "any", **shape, **more}


def test_unequal_halves_are_optimal_by_the_limits_of_each(tmp_path: Path) -> None:
    points = [point(16, 4, 6), point(48, 5, 16), point(48, 6, 14)]
    verdicts = with_halves(tmp_path, *points)
    assert {v.state for v in verdicts} == {"ok"}
    assert verdicts[1].claim == (
        "C=48 S=5 R=16 is Pareto-optimal among compositions of a reducescatter and an allgather of "
        "any steps and rounds, for every k and C"
    )
    (without,) = with_halves(tmp_path, points[1], without="limit")
    assert "no claim proves R/C >= 1/3 for 5 steps" in without.detail


@pytest.mark.parametrize(("of_class", "first"), [({"halves": "any"}, 6), ({"trees": True}, 5)])
def test_point_of_a_step_more_is_not_optimal(of_class: dict[str, Any], first: int) -> None:
    """The one before it has the same R/C."""
    case, work = read_case(PUBLISHED / "limits" / "dgx1-allreduce"), Work()
    covered = Coverage.from_claims(case.claims, case.spec, case.phases)
    work.begin()

    def check_point(steps: int) -> None:
        claim = LimitPointWire(chunks=48, steps=steps, rounds=14, **of_class)
        checker._check_limit_point(case, claim, covered, work)

    check_point(first)
    with pytest.raises(ValueError, match=f"no claim proves R/C > 7/24 for {first} steps"):
        check_point(first + 1)


def test_unequal_halves_are_optimal_for_some_k(tmp_path: Path) -> None:
    pareto = {"claim": "pareto", "max_chunks": None}
    (found,) = with_halves(tmp_path, point(48, 5, 16, k=8, **pareto))
    assert found.state == "ok"
    assert found.claim.endswith(
        "of any steps and rounds with R <= S + 8 in each of the two and any C"
    )
    (small,) = with_halves(tmp_path, point(48, 5, 16, k=6, **pareto))
    assert "not of the claimed class" in small.detail  # its reducescatter has 9 rounds in 2 steps


@pytest.mark.parametrize(
    "wrong",
    [
        point(48, 5, 16, halves="equal"),  # its halves are not
        point(48, 5, 14),  # by trees
        point(24, 4, 8),
    ],
)
def test_algorithm_is_best_of_a_class_that_it_is_in(wrong: dict[str, Any], tmp_path: Path) -> None:
    (verdict,) = with_halves(tmp_path, wrong)
    assert verdict.state == "failed"
    assert "not of the claimed class" in verdict.detail


@settings(max_examples=times(15, by_day=8), deadline=None)
@given(topologies(max_ranks=4))
def test_halves_are_bounded_as_each_alone(machine: Topology) -> None:
    """On one-way links too, where a reducescatter and an allgather have limits of their own."""
    ranks = machine.ranks
    spec = named_spec("allreduce", ranks)
    bounds = lower_bounds(machine, spec)
    claims = list(bound_claims(machine, spec))
    each: list[dict[int, Fraction]] = [{}, {}]
    alone = [named_spec("reducescatter", ranks), named_spec("allgather", ranks)]
    steps = [lower_bounds(machine, half).steps for half in alone]
    last = max(steps) + 1
    for half, known, per_chunk in zip(alone, each, (1, ranks), strict=True):
        known_bounds = lower_bounds(machine, half)
        for s in range(known_bounds.steps, last + 1):
            known[s] = step_limit(machine, half, s, known_bounds).limit.lower / per_chunk
        known[last + 1] = known_bounds.bandwidth / per_chunk
    for s in range(bounds.steps // 2, last + 1):
        claims += limit_claims(step_limit(machine, spec, 2 * s, bounds).limit, spec)
    covered = Coverage.from_claims(claims, spec, dual_of(spec).phases_on(machine))
    assert covered.lower_bound(sum(steps) - 1, equal=False) is None
    for total in range(sum(steps), 2 * last + 1):
        sums = [a + each[1][total - s] for s, a in each[0].items() if total - s in each[1]]
        found = covered.lower_bound(total, equal=False)
        assert found is not None
        assert found <= min(sums)
        if total <= last + min(steps):  # no half can have more steps than have a limit here
            assert found == min(sums)


def test_refuted_shape_rules_out_what_would_become_it() -> None:
    """By an empty step, which takes a round, and by fewer chunks."""
    ruled_out = PhaseExclusions(refuted=((4, 3, 5),)).rules_out
    assert all(ruled_out(*shape) for shape in ((4, 3, 5), (4, 3, 4), (6, 3, 5), (4, 2, 4)))
    assert not any(ruled_out(*shape) for shape in ((3, 3, 5), (4, 3, 6), (4, 2, 5), (4, 4, 5)))


def test_classes_but_of_allreduce_take_no_work() -> None:
    """For the largest algorithms it would take most of the time."""

    def refuse(_: int) -> None:
        raise TooMuchError

    algorithm, _ = load_algorithm(PUBLISHED / "dgx1-allgather/allgather-dgx1-c6-s3.json")
    assert isinstance(algorithm, Algorithm)
    claim = LimitPointWire(chunks=6, steps=3, rounds=7)
    assert is_member(algorithm, claim, named_spec("allgather", 8), refuse)
    with pytest.raises(TooMuchError):
        is_member(
            composed_allreduce(),
            LimitPointWire(chunks=48, steps=5, rounds=16, halves="any"),
            named_spec("allreduce", 8),
            refuse,
        )
