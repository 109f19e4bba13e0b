"""Claims against each other, and against the collectives that their rules hold for."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.claims import (
    CLAIMS,
    AlgorithmClaimWire,
    AllreduceBoundWire,
    BandwidthWire,
    Claim,
    LimitClaimWire,
    ScheduleClaimWire,
    StepsWire,
    TimeCutWire,
    TimePointWire,
    UnsatWire,
)
from sccl.core.topology import Budget, Topology
from sccl.formats.files.plans import write_plan
from sccl.prove.check.case import Case, read_case
from sccl.prove.check.certificate import check_case, check_folder
from sccl.prove.check.contradictions import find_contradiction
from sccl.prove.check.rules import RULES, rule_name
from sccl.synth.common.claims import write_claims
from sccl.topo import resolve_topology
from tests.kit.certificates import free
from tests.kit.commands import sccl
from tests.kit.paths import PUBLISHED

CUT = {"claim": "bandwidth", "at_least": "1", "machine": 0}


# --- claims that cannot be true together ---------------------------------------------------------


def scheduled(size: int, us: str) -> ScheduleClaimWire:
    return ScheduleClaimWire(size_bytes=size, finish_us=us, file="a.json")


def cut(size: int, us: str, more: str) -> TimeCutWire:
    return TimeCutWire(
        from_bytes=str(size),
        at_least_us=us,
        us_per_byte=more,
        left=(0,),
        sources=(0,),
        goals=(1,),
    )


def near(size: int, us: str) -> TimePointWire:
    return TimePointWire(size_bytes=size, finish_us="99", at_least_us=us)


@pytest.fixture(scope="module")
def gathered() -> Case:
    """Return a published certificate of an allgather, which has one phase."""
    return read_case(PUBLISHED / "dgx1-allgather")


@pytest.mark.parametrize(
    ("bound", "plan", "collide"),
    [
        (cut(100, "8", "1/10"), scheduled(100, "8"), False),
        (cut(100, "8", "1/10"), scheduled(100, "79999999/10000000"), True),
        (cut(100, "8", "1/10"), scheduled(120, "10"), False),
        (cut(100, "8", "1/10"), scheduled(121, "10"), True),
        (cut(100, "8", "1/10"), scheduled(99, "1"), False),
        (near(100, "8"), scheduled(100, "8"), False),
        (near(100, "8"), scheduled(100, "7"), True),
        (near(100, "8"), scheduled(500, "7"), True),  # a plan for more bytes serves fewer
        (near(100, "8"), scheduled(99, "7"), False),
    ],
)
def test_schedule_contradicts_a_bound_that_it_is_below(
    bound: Claim, plan: Claim, collide: bool, gathered: Case
) -> None:
    for first, second in ((bound, plan), (plan, bound)):
        found = find_contradiction(gathered, second, [first], {}, free)
        assert found == (first if collide else None)


def algorithm(chunks: int, steps: int, rounds: int) -> AlgorithmClaimWire:
    return AlgorithmClaimWire(chunks=chunks, steps=steps, rounds=rounds, file="a.json")


def limit(steps: int, at_least: str) -> LimitClaimWire:
    return LimitClaimWire(steps=steps, at_least=at_least, machine=0, prices=())


def unsat(chunks: int, steps: int, rounds: int) -> UnsatWire:
    return UnsatWire(chunks=chunks, steps=steps, rounds=rounds, machine=0)


@pytest.mark.parametrize(
    ("bound", "collide"),
    [
        (StepsWire(at_least=2), False),
        (StepsWire(at_least=3), True),
        (limit(2, "3/2"), False),
        (limit(2, "2"), True),
        (limit(3, "8/5"), True),  # a bound for more steps holds for fewer
        (limit(1, "9"), False),
        (unsat(2, 2, 3), True),
        (unsat(1, 2, 3), True),  # with more chunks it is impossible, too
        (unsat(3, 2, 3), False),
        (unsat(2, 3, 4), True),  # a step that does nothing makes one of it
        (unsat(2, 3, 3), False),
    ],
)
def test_algorithm_contradicts_a_bound_that_it_is_below(
    bound: Claim, collide: bool, gathered: Case
) -> None:
    plan = algorithm(2, 2, 3)
    for first, second in ((bound, plan), (plan, bound)):
        found = find_contradiction(gathered, second, [first], {}, free)
        assert found == (first if collide else None)


def test_allreduce_contradicts_bounds_of_its_own_class_alone() -> None:
    case = read_case(PUBLISHED / "limits" / "dgx1-allreduce")
    verdicts = list(check_case(case))
    assert {verdict.state for verdict in verdicts} == {"ok"}
    plans = [c for c in case.claims if isinstance(c, AlgorithmClaimWire)]
    (tree,) = [c for c in plans if (c.chunks, c.steps) == (8, 3)]
    (halves,) = [c for c in plans if (c.chunks, c.steps) == (16, 4)]
    trees = LimitClaimWire(steps=3, at_least="9", machine=0, prices=(), trees=True)
    composed = StepsWire(at_least=6)
    every = AllreduceBoundWire(steps=4, at_least="9")
    known: dict[tuple[int, int, int], list[Any]] = {}
    for claim in (tree, halves):
        made, _ = load_algorithm(case.folder / claim.file)
        known[claim.chunks, claim.steps, claim.rounds] = [made]
    collisions = {
        (number, name)
        for number, claim in enumerate((tree, halves))
        for name, bound in (("trees", trees), ("composed", composed), ("every", every))
        if find_contradiction(case, bound, [claim], known, free)
    }
    assert collisions == {(0, "trees"), (0, "every"), (1, "composed"), (1, "every")}


def test_certificate_that_contradicts_itself_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule that proves too much is not detected itself, but by the schedule next to it."""
    asked = ("synth", "fastest", "--collective", "allgather", "--topo", "ring:3", "--size", "3KB")
    assert sccl(*asked, "--gap", "1", "--certify", tmp_path / "made")[0] == 0
    content = json.loads((tmp_path / "made" / CLAIMS).read_text())
    for claim in content["claims"]:
        if claim["claim"].startswith("time-"):
            claim["at_least_us"] = "9999"
    (tmp_path / "made" / CLAIMS).write_text(json.dumps(content))
    monkeypatch.setattr(
        "sccl.prove.check.certificate.check_time_bound", lambda *_: "a rule that is false"
    )
    code, out, _ = sccl("certificate", "verify", tmp_path / "made")
    said = " ".join(out.split())
    assert code == 1
    assert "it contradicts the claim above, 'lower bound: 9999 us" in said
    assert "one of them is false" in said


# --- the collectives and machines of each rule ---------------------------------------------------


def test_each_kind_of_claim_has_its_rule() -> None:
    kinds = {kind.__struct_config__.tag for kind in get_args(Claim)}
    assert {rule.partition(" ")[0] for rule in RULES} == kinds


def rule_names(folder: Path) -> set[str]:
    return {rule_name(claim) for claim in read_case(folder).claims}


def test_classes_of_allreduce_have_rules_of_their_own() -> None:
    assert rule_names(PUBLISHED / "limits" / "dgx1-allreduce") >= {
        "limit",
        "limit by trees",
        "limit-point",
        "limit-point by trees",
        "limit-point of every class",
        "every",
    }


def pairs(name: str, ranks: int, chunks: list[list[int]], **more: Any) -> dict[str, Any]:
    relation = {
        "relation": "pairs",
        "period": len(chunks),
        "pairs": [[c, r] for c, held in enumerate(chunks) for r in held],
    }
    count = {"name": name, "ranks": ranks, "chunks": 1, "num_chunks": len(chunks)}
    return count | {"pre": relation, "post": relation} | more


def certificate(
    folder: Path, machine: str, collective: dict[str, Any], *claims: dict[str, Any]
) -> Path:
    """Write a certificate of a custom collective on a machine of sccl's."""
    topology = resolve_topology(machine)
    spec = named_spec("allgather", topology.ranks)
    write_claims(folder, topology, spec, lambda _: [StepsWire(at_least=1)])
    content = json.loads((folder / CLAIMS).read_text())
    content |= {"collective": collective, "claims": list(claims)}
    (folder / CLAIMS).write_text(json.dumps(content))
    return folder


STEPS = {"claim": "steps", "at_least": 1}
LIMIT = {"claim": "limit", "steps": 2, "at_least": "1", "machine": 0, "prices": []}
POINT = {"claim": "limit-point", "chunks": 1, "steps": 4, "rounds": 4, "halves": "any"}
NONE = {"claim": "unsat", "chunks": 1, "steps": 2, "rounds": 2, "machine": 0}
WORD = NONE | {"searched": ["cpsat", "z3"]}


@pytest.mark.parametrize(
    ("groups", "state"),
    [
        ([[0, 1, 2, 3]], "failed"),
        ([[0, 1], [2, 3]], "failed"),
        ([[0, 1], [0, 1], [2, 3]], "failed"),
        ([[0, 1, 2], [0, 1, 2]], "failed"),
        ([[0, 1], [0, 1], [2, 3], [2, 3]], "ok"),
    ],
)
def test_compositions_are_claimed_of_groups_with_as_many_chunks_for_each_rank(
    groups: list[list[int]], state: str, tmp_path: Path
) -> None:
    """With other owners than those of the dual a composition may be better than is claimed."""
    shared = pairs("mine", 4, groups, combining=True)
    bandwidth = CUT | {"at_least": "0", "prices": [["link 0->1", "1"]], "cuts": []}
    verdicts = list(
        check_folder(certificate(tmp_path / "made", "full:4", shared, STEPS, bandwidth))
    )
    assert [v.state for v in verdicts] == [state] * 2
    assert all(("owns equally many chunks" in v.detail) == (state == "failed") for v in verdicts)
    others = list(
        check_folder(certificate(tmp_path / "others", "full:4", shared, LIMIT, WORD, POINT))
    )
    assert all(("owns equally many chunks" in v.detail) == (state == "failed") for v in others)


def test_allreduce_of_few_chunks_is_claimed_of_every_class(tmp_path: Path) -> None:
    """An allreduce of one chunk over rank 1, which is better than any over rank 0."""
    shared = pairs("mine", 3, [[0, 1, 2]], combining=True)
    sends = {
        "claim": "every",
        "steps": None,
        "at_least": "1",
        "prices": [[f"link {u}->{v}", 0, "1"] for u, v in ((0, 1), (1, 0), (1, 2), (2, 1))],
        "groups": [[0], [1], [2]],
    }
    plan = {"claim": "algorithm", "chunks": 1, "steps": 2, "rounds": 2, "file": "over-1.json"}
    steps = STEPS | {"at_least": 4}
    folder = certificate(tmp_path / "made", "line:3", shared, steps, sends, plan)
    case = read_case(folder)
    made = Algorithm(
        case.topology,
        case.spec.at(1),
        (1, 1),
        (
            make_send(0, 0, 1, 0, reduce=True),
            make_send(0, 2, 1, 0, reduce=True),
            make_send(0, 1, 0, 1),
            make_send(0, 1, 2, 1),
        ),
    )
    write_plan(folder / "over-1.json", made)
    assert [v.state for v in check_case(case)] == ["failed", "ok", "ok"]


def test_steps_and_rounds_are_not_claimed_of_counts(tmp_path: Path) -> None:
    one = pairs("mine", 4, [[0]], counts=[5])
    one["post"] = {"relation": "pairs", "period": 1, "pairs": [[0, 1]]}
    cuts = [[[1], "1"]]
    bandwidth = CUT | {"at_least": "5", "prices": [["link 0->1", "1"]], "cuts": cuts}
    claims = (bandwidth, LIMIT, STEPS, WORD)
    verdicts = list(check_folder(certificate(tmp_path / "made", "full:4", one, *claims)))
    assert [v.state for v in verdicts] == ["failed"] * 4
    assert all("chunks of one size" in v.detail for v in verdicts)


def test_bytes_of_counts_prove_times(tmp_path: Path) -> None:
    """The R/C bound on bytes is a lemma of a time bound and then not called R/C."""
    one = pairs("mine", 4, [[0]], counts=[5])
    one["post"] = {"relation": "pairs", "period": 1, "pairs": [[0, 1]]}
    machine = resolve_topology("full:4")
    priced = [[f"link {u}->1", "1"] for u in (0, 2, 3)]
    bandwidth = CUT | {"at_least": "5/3", "prices": priced, "cuts": [[[1], "1"]]}
    (speed,) = {Fraction(str(k.gb_per_s)) * 1000 for k in machine.links}
    each = Fraction(5, 3) / speed
    alpha = min(Fraction(str(k.alpha_us)) for k in machine.links)
    time = {
        "claim": "time-bandwidth",
        "from_bytes": "1000",
        "at_least_us": str(alpha + 1000 * each),
        "us_per_byte": str(each),
    }
    verdicts = list(check_folder(certificate(tmp_path / "made", "full:4", one, bandwidth, time)))
    assert [v.state for v in verdicts] == ["ok", "ok"]
    assert "R/C" not in verdicts[0].claim
    assert "5/3 times the bytes of an element" in verdicts[0].claim


def test_rounds_are_not_claimed_where_a_budget_states_another_speed(tmp_path: Path) -> None:
    machine = resolve_topology("ring:4")
    speed = machine.links[0].gb_per_s
    verdicts = {}
    mixed = (replace(machine.links[0], gb_per_s=2 * speed), *machine.links[1:])
    for name, links, own in (
        ("same", machine.links, speed),
        ("half", machine.links, speed / 2),
        ("mixed", mixed, 2 * speed),
        ("mixed and half", mixed, speed / 2),
    ):
        budget = Budget("bus", ((0, 1), (1, 2)), 1, own)
        shared = Topology("shared", 4, links, machine.alpha_us, speed, budgets=(budget,))
        claims: list[Claim] = [StepsWire(at_least=2), limit_of(shared)]
        write_claims(tmp_path / name, shared, named_spec("allgather", 4), partial(_all, claims))
        verdicts[name] = list(check_folder(tmp_path / name))
    for name in ("same", "mixed"):
        assert [v.state for v in verdicts[name]] == ["ok", "ok"]
        rounds = read_case(tmp_path / name).as_json()["machine"]["rounds"]
        assert ("each lane carries one chunk" in rounds) == (name == "mixed")
    for name in ("half", "mixed and half"):
        assert [v.state for v in verdicts[name]] == ["ok", "failed"]
        assert "budget 'bus' has another bandwidth per lane" in verdicts[name][1].detail


def test_claims_on_rounds_do_not_depend_on_the_speed_of_links(tmp_path: Path) -> None:
    """They are about chunks of a round, of which a link carries one for each lane."""
    published = PUBLISHED / "dgx1-allgather"
    shutil.copytree(published, tmp_path / "mixed")
    file = tmp_path / "mixed" / CLAIMS
    content = json.loads(file.read_text())
    for number, link in enumerate(content["topology"]["links"]):
        link["gb_per_s"] = 1.0 + number
    file.write_text(json.dumps(content))
    plain, mixed = (
        [(v.claim, v.state, v.detail) for v in check_folder(folder)]
        for folder in (published, tmp_path / "mixed")
    )
    assert mixed == plain
    assert {state for _, state, _ in plain} == {"ok"}


def _all(claims: list[Claim], _: Path) -> list[Claim]:
    return claims


def limit_of(machine: Topology) -> Claim:
    """Return the R/C bound by the data that enter rank 1."""
    into = [link for link in machine.links if link.dst == 1]
    names = {c.key: c.name for c in machine.constraints()}
    return BandwidthWire(
        at_least=str(Fraction(3, len(into))),
        machine=0,
        prices=tuple((names[link.edge], "1") for link in into),
        cuts=(((1,), "1"),),
    )
