"""Certificates of times: by brute force, against schedules, forged and damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.collectives import Spec, custom_spec, dual_of, is_allreduce, named_spec
from sccl.collectives import resolve_collective as collective_of
from sccl.core.files.claims import CLAIMS, Claim, TimePricesWire, TimeWire
from sccl.core.files.shapes import CustomCollectiveWire
from sccl.core.ids import Edge
from sccl.core.schedule import Schedule
from sccl.errors import InputError
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.prove.check.case import read_case
from sccl.prove.check.certificate import check_case, check_folder
from sccl.prove.check.slot_trees import served_cost
from sccl.prove.check.time_bounds import cut_time_bound, group_time_bound, price_time_bound
from sccl.prove.check.time_claims import claimed_bound
from sccl.prove.check.work import TooMuchError, Work
from sccl.synth.common.claims import write_claims
from sccl.synth.packing.by_time.time_certificate import price_claim
from sccl.topo import resolve_topology
from tests.kit import timed
from tests.kit.certificates import free
from tests.kit.commands import sccl
from tests.kit.nightly import seed, times
from tests.kit.strategies import topologies


def spec_of(schedule: Schedule) -> Spec:
    c = schedule.collective
    return Spec(
        c.name, c.ranks, c.chunks, c.num_chunks, c.pre, c.post, combining=c.combining, root=c.root
    )


def took(schedule: Schedule) -> tuple[int, Fraction]:
    """Return the bytes of a rank's buffer, at least, and the microseconds."""
    sizes = schedule.chunk_bytes
    least = sizes if isinstance(sizes, int) else min(sizes)
    us = Fraction(schedule.finish * schedule.tick_ps, 10**6)
    return schedule.collective.chunks * least, us


# --- no schedule that is right is faster ---------------------------------------------------------


@st.composite
def in_groups(draw: st.DrawFn, ranks: int) -> Spec:
    """Draw an allreduce in groups of one size or several, perhaps with ranks outside."""
    order = draw(st.permutations(range(ranks)))
    size = draw(st.integers(2, ranks))
    groups = [order[:size]] + ([order[size:]] if ranks - size > 1 else [])
    text = "/".join(",".join(map(str, sorted(group))) for group in groups)
    return collective_of(f"allreduce@{text}", ranks)


@given(timed.right() | timed.right(of=in_groups), st.data())
@settings(max_examples=times(150, by_day=75), deadline=None)
def test_no_schedule_is_faster_than_cuts_and_groups_say(
    schedule: Schedule, data: st.DataObject
) -> None:
    """For all sets, over unequal links, buses and switches of every kind."""
    machine, spec = schedule.topology, spec_of(schedule)
    size, us = took(schedule)
    nodes = range(machine.ranks + len(machine.switches))
    some = st.sets(st.sampled_from(nodes))
    sides = (data.draw(some), data.draw(some), data.draw(some))
    told = Fraction(data.draw(st.integers(1, size)))
    try:
        floor = cut_time_bound(machine, spec.at(spec.unit), told, sides, free)
    except ValueError:
        floor = None
    assert floor is None or us >= floor.us(size)
    if is_allreduce(spec):
        of = [data.draw(st.integers(0, 1)) for _ in nodes]
        groups = [[node for node in nodes if of[node] == side] for side in (0, 1)]
        try:
            floor = group_time_bound(machine, spec.at(spec.unit), told, groups, free)
        except ValueError:
            return
        assert us >= floor.us(size)


@given(timed.right(), st.data())
@settings(max_examples=times(150, by_day=40), deadline=None)
def test_no_schedule_is_faster_than_prices_say(schedule: Schedule, data: st.DataObject) -> None:
    """For all prices, slot borders (one of which may grow), and goals."""
    machine, spec = schedule.topology, spec_of(schedule)
    assume(not machine.switches and not spec.combining)
    size, us = took(schedule)
    part = st.integers(1, 12).map(lambda twelfths: us * twelfths / 12)
    borders = [Fraction(0), *sorted(data.draw(st.sets(part, min_size=1, max_size=4)))]
    keys = [c.key for c in machine.constraints()]
    slots = len(borders) - 1
    prices = [
        (data.draw(st.sampled_from(keys)), data.draw(st.integers(0, slots - 1)), Fraction(price))
        for price in data.draw(st.lists(st.integers(0, 3), max_size=12))
    ]
    collective = spec.at(spec.unit)
    what = (machine, collective, collective.chunks, borders, prices)
    goals = data.draw(st.none() | st.sets(st.sampled_from(range(machine.ranks)), min_size=1))
    for middle in (None, *range(slots)):
        try:
            floor = price_time_bound(*what, middle, free, goals)
        except ValueError:
            continue
        assert us >= floor.us(size)


@given(timed.right() | timed.right(of=in_groups), st.integers(1, 100))
@settings(max_examples=times(60), deadline=None)
def test_cuts_prove_as_much_as_the_bound_that_found_them(schedule: Schedule, size: int) -> None:
    """It proves no more than the printed bound. Larger sizes take at least the last one's time."""
    machine, spec = schedule.topology, spec_of(schedule)
    bound = completion_time_bound(machine, spec)
    for one in bound.cuts:
        if isinstance(one.cut, tuple):
            floor = group_time_bound(machine, spec.at(spec.unit), Fraction(size), one.cut, free)
        else:
            sides = (one.cut.left, one.cut.sources, one.cut.goals)
            floor = cut_time_bound(machine, spec.at(spec.unit), Fraction(size), sides, free)
        assert one.us(size) <= floor.us(size) <= bound.us(size)
        assert floor.us(7 * size) <= bound.us(7 * size)


# --- the cheapest timed trees through slots -------------------------------------------------------


def by_brute_force(
    costs: list[dict[Edge, int]],
    follows: list[dict[Edge, int | None]],
    ranks: int,
    holders: set[int],
    wanted: set[int],
) -> int | None:
    """Return the cost of the cheapest sends that bring a chunk to each rank at most once."""
    sends = [(slot, edge) for slot, of_slot in enumerate(costs) for edge in sorted(of_slot)]
    ways: list[list[tuple[int, Edge] | None]] = [
        [None, *((slot, edge) for slot, edge in sends if edge[1] == rank)]
        if rank not in holders
        else [None]
        for rank in range(ranks)
    ]
    best: int | None = None
    for chosen in product(*ways):
        there: dict[int, int] = dict.fromkeys(holders, 0)
        left = [one for one in chosen if one is not None]
        cost = sum(costs[slot][edge] for slot, edge in left)
        again = True
        while again:
            again = False
            for slot, edge in list(left):
                then = follows[slot][edge]
                if then is not None and there.get(edge[0], len(costs)) <= slot:
                    there[edge[1]] = then
                    left.remove((slot, edge))
                    again = True
        if not left and wanted <= there.keys() and (best is None or cost < best):
            best = cost
    return best


@st.composite
def in_slots(
    draw: st.DrawFn,
) -> tuple[int, list[dict[Edge, int]], list[dict[Edge, int | None]]]:
    machine = draw(topologies(max_ranks=3))
    slots = draw(st.integers(1, 3))
    cost = st.sampled_from([0, 0, 1, 2, 5])
    costs = [{edge: draw(cost) for edge in sorted(machine.edges)} for _ in range(slots)]
    follows: list[dict[Edge, int | None]] = [
        {edge: draw(st.sampled_from([None, *range(slot, slots)])) for edge in sorted(of_slot)}
        for slot, of_slot in enumerate(costs)
    ]
    return machine.ranks, costs, follows


@settings(max_examples=times(120), deadline=None)
@given(in_slots(), st.data())
def test_cheapest_trees_are_those_of_brute_force(
    given_: tuple[int, list[dict[Edge, int]], list[dict[Edge, int | None]]], data: st.DataObject
) -> None:
    ranks, costs, follows = given_
    some = st.sets(st.sampled_from(range(ranks)), min_size=1)
    holders, wanted = data.draw(some), data.draw(some)
    wire = CustomCollectiveWire(
        name="mine",
        ranks=ranks,
        pre=tuple((0, rank) for rank in sorted(holders)),
        post=tuple((0, rank) for rank in sorted(wanted)),
    )
    goals = data.draw(st.none() | some)
    served_ = wanted if goals is None else wanted & goals
    expected = by_brute_force(costs, follows, ranks, holders, served_)
    if wanted <= holders:
        return
    spec = custom_spec(wire, "here")
    if expected is None:
        with pytest.raises(ValueError, match="cannot reach"):
            served_cost(costs, follows, spec.at(1), ranks, free, goals)
    else:
        assert served_cost(costs, follows, spec.at(1), ranks, free, goals) == expected


def test_too_many_sets_are_too_much() -> None:
    work = Work()
    work.begin()
    machine, spec = resolve_topology("torus:4x4"), named_spec("allgather", 16)
    prices = [(c.key, 0, Fraction(1)) for c in machine.constraints()]
    with pytest.raises(TooMuchError):
        price_time_bound(
            machine, spec.at(1), 1, [Fraction(0), Fraction(99)], prices, None, work.spend
        )


def _only(claims: list[Claim], _: Path) -> list[Claim]:
    return claims


def test_trees_to_few_ranks_prove_what_is_claimed(tmp_path: Path) -> None:
    """Four chassis: prices of links between them, of trees to a rank of each, and of fewer."""
    machine, spec = resolve_topology("ndv2x4"), named_spec("reduce", 32)
    claim = price_claim(machine, dual_of(spec), 64_000)
    assert claim is not None
    assert claim.goals == (13, 21, 29)
    assert float(Fraction(claim.at_least_us)) == pytest.approx(10.52)
    for goals, state in ((claim.goals, "ok"), ((13, 21), "failed"), ((), "failed")):
        told: list[Claim] = [msgspec.structs.replace(claim, goals=goals)]
        folder = tmp_path / str(len(goals))
        write_claims(folder, machine, spec, partial(_only, told))
        (verdict,) = check_folder(folder)
        assert verdict.state == state
        assert ("to 3 ranks" in verdict.detail) == (state == "ok")


# --- whole certificates --------------------------------------------------------------------------


MADE = (
    ("dgx1", "allgather", "1KB..16KB"),
    ("dgx1", "alltoall", "8KB"),
    ("dgx1", "gather", "16KB"),
    ("dgx1", "allreduce", "1MB"),
    ("dgx1", "allreduce@0-3/4-7", "64KB"),
    ("ring:4", "reducescatter", "4KB..64KB"),
    ("teccl-ndv2x2", "allgather", "62500"),
    ("teccl-ndv2x4", "alltoall", "1MB"),
    ("dgx2:2", "allgather", "2000"),
    pytest.param(("ndv2x4", "reduce", "64KB"), id="ndv2x4 reduce", marks=pytest.mark.nightly),
)
"""Machines with and without switches: cuts, groups, prices (also of trees to few ranks), late data,
in both directions, and groups of ranks.
"""


def _name(made_: tuple[str, str, str]) -> str:
    return " ".join(made_[:2])


@pytest.fixture(scope="module", params=MADE, ids=_name)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a certificate."""
    topo, collective, size = request.param
    folder = tmp_path_factory.mktemp("times") / "proofs"
    told = ("--collective", collective, "--topo", topo, "--size", size, "--gap", "0.5")
    code, _, err = sccl("synth", "fastest", *told, "--certify", folder)
    assert code in {0, 3}, err
    assert "check it with" in " ".join(err.split())
    return folder


def test_all_claims_hold(made: Path) -> None:
    verdicts = list(check_folder(made))
    assert {v.state for v in verdicts} == {"ok"}, verdicts
    assert any("for all plans with any number" in v.claim for v in verdicts)


def test_time_bound_certificate_proves_the_printed_bound(tmp_path: Path) -> None:
    """By prices, too, as at 4 KB and 16 KB of a DGX-1 cuts say less."""
    asked = ("synth", "fastest", "--collective", "allgather", "--topo", "dgx1")
    code, out, _ = sccl(*asked, "--size", "4KB..16KB", "--certify", tmp_path / "proofs", "--json")
    assert code == 0
    claims = read_case(tmp_path / "proofs").claims
    assert any(isinstance(claim, TimePricesWire) for claim in claims)
    floors = [claimed_bound(claim) for claim in claims if isinstance(claim, TimeWire)]
    for point in json.loads(out)["points"]:
        proved = max(float(floor.us(point["size_bytes"])) for floor in floors)
        assert proved == pytest.approx(point["bound_us"], rel=1e-6)
    code, out, _ = sccl("certificate", "verify", tmp_path / "proofs")
    assert (code, "NOT" in out) == (0, False)
    assert "all plans with any number and sizes of chunks" in " ".join(out.split())


def _kept(made: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((made / CLAIMS).read_text())
    return found


def _with(made: Path, folder: Path, content: dict[str, Any]) -> Path:
    """Return a folder with other claims, and the same files."""
    folder.mkdir(exist_ok=True)
    for file in made.glob("*-*.json"):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / CLAIMS).write_text(json.dumps(content))
    return folder


def test_claim_of_more_fails(made: Path, tmp_path: Path) -> None:
    whole = _kept(made)
    for i, claim in enumerate(whole["claims"]):
        for name, factor in (
            ("at_least_us", Fraction(1001, 1000)),
            ("us_per_byte", Fraction(1001, 1000)),
            ("from_bytes", Fraction(9, 10)),
            ("finish_us", Fraction(999, 1000)),
        ):
            if Fraction(claim.get(name, "0")) == 0:
                continue
            other = claim | {name: str(Fraction(claim[name]) * factor)}
            forged = whole | {"claims": [*whole["claims"][:i], other, *whole["claims"][i + 1 :]]}
            verdicts = list(check_folder(_with(made, tmp_path / "forged", forged)))
            assert verdicts[i].state == "failed", (name, claim)


def test_claim_on_a_missing_part_fails(made: Path, tmp_path: Path) -> None:
    """Prices without borders that ascend, sets that nothing leaves, schedules of other sizes."""
    whole = _kept(made)
    changes: dict[str, list[dict[str, Any]]] = {
        "time-cut": [{"left": []}, {"sources": [10**9]}, {"goals": []}],
        "time-groups": [{"groups": []}, {"groups": [[0], [0, 1]]}],
        "time-prices": [
            {"borders": ["0", "1", "1"]},
            {"borders": ["1", "2"]},
            {"machine": 7},
            {"prices": [["no such link", 0, "1"]]},
            {"prices": []},
            {"middle": 99},
        ],
        "time-late": [
            {"inside": []},
            {"inside": [0]},
            {"inside": [0, 99]},
            {"sources": []},
            {"apart": "0"},
            {"apart": "999"},
            {"machine": 7},
        ],
        "schedule": [{"size_bytes": 10**9}, {"file": "nothing.json"}],
        "time-point": [{"size_bytes": 3}, {"finish_us": "1/1000"}],
    }
    for i, claim in enumerate(whole["claims"]):
        for change in changes.get(claim["claim"], []):
            claims = [*whole["claims"][:i], claim | change, *whole["claims"][i + 1 :]]
            folder = _with(made, tmp_path / "forged", whole | {"claims": claims})
            assert list(check_folder(folder))[i].state == "failed", change


def test_steps_are_not_claimed_of_switches(tmp_path: Path) -> None:
    told = ("--collective", "alltoall", "--topo", "teccl-ndv2x4", "--size", "1MB", "--gap", "1")
    assert sccl("synth", "fastest", *told, "--certify", tmp_path / "proofs")[0] == 0
    whole = _kept(tmp_path / "proofs")
    whole["claims"].append({"claim": "steps", "at_least": 1})
    (tmp_path / "proofs" / CLAIMS).write_text(json.dumps(whole))
    with pytest.raises(InputError, match="only time claims are supported"):
        read_case(tmp_path / "proofs")


def test_other_speeds_are_reported(tmp_path: Path) -> None:
    """A machine that only looks like the catalogue's is not called that."""
    told = ("--collective", "allgather", "--topo", "ring:4", "--size", "64KB", "--gap", "1")
    assert sccl("synth", "fastest", *told, "--certify", tmp_path / "proofs")[0] == 0
    assert "as the generator's" in sccl("certificate", "verify", tmp_path / "proofs")[1]
    whole = _kept(tmp_path / "proofs")
    for link in whole["topology"]["links"]:
        link["gb_per_s"] = 99.0
    (tmp_path / "proofs" / CLAIMS).write_text(json.dumps(whole))
    assert "alphas or speeds NOT" in sccl("certificate", "verify", tmp_path / "proofs")[1]


_NUMBERS = (-1, 0, 1, 2, 7, 10**12, 10**30, "0", "1", "3/2", "1/99999999", "9" * 4000, "x", None)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of everything in a value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def test_damaged_certificates_are_never_believed(made: Path, tmp_path: Path) -> None:
    """No change of claims that passes the check exceeds the time of a schedule."""
    whole, rng = _kept(made), random.Random(seed(made.parent.name))  # noqa: S311 - by day the same
    case = read_case(made)
    shown = {
        claim["size_bytes"]: Fraction(claim["finish_us"])
        for claim in whole["claims"]
        if claim["claim"] == "schedule"
    }
    for _ in range(times(25)):
        damaged = json.loads(json.dumps(whole))
        for _ in range(rng.randint(1, 2)):
            place, key = rng.choice(list(_places(damaged["claims"])))
            place[key] = rng.choice(_NUMBERS)
        try:
            changed = read_case(_with(made, tmp_path / "damaged", damaged))
        except InputError:
            continue
        for claim, verdict in zip(changed.claims, check_case(changed), strict=True):
            if verdict.state == "ok" and isinstance(claim, TimeWire):
                floor = claimed_bound(claim)
                assert all(floor.us(size) <= us for size, us in shown.items()), claim
        assert changed.topology == case.topology
