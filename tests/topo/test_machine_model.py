"""Machines as they are synthesised for: lanes of one speed, links in place of switches."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from io import StringIO
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rich.console import Console

from sccl.codegen.bundle import build_bundle
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.cost import Costs
from sccl.core.files.frontier_folders import frontiers_of_algorithms
from sccl.core.files.json_text import digest, parse, to_text
from sccl.core.files.shapes import TopologyWire
from sccl.core.files.topologies import load_topology, topology_from_wire, topology_to_wire
from sccl.core.ids import Edge
from sccl.core.topology import Budget, Link, Switch, Topology
from sccl.errors import FormatError, TopologyError
from sccl.topo import catalogue_names, resolve_topology
from sccl.topo.generators import generators
from sccl.topo.machine_model import machine_model
from sccl.topo.measures import measure_topology
from sccl.view.charts import frontier_lines, topology_chart
from sccl.view.text.plan_text import print_algorithm
from tests.kit.nightly import times
from tests.kit.strategies import topologies

SPEEDS = (5.0, 12.5, 25.0, 100.0, 0.1, 0.3, 12.1)


# --- speeds --------------------------------------------------------------------------------------


def speed(machine: Topology) -> Fraction:
    """Return the one speed of a machine's lanes."""
    (found,) = {Fraction(str(link.gb_per_s)) for link in machine.links}
    return found


@given(topologies(), st.data())
def test_model_has_the_same_rates(machine: Topology, data: st.DataObject) -> None:
    speeds = [data.draw(st.sampled_from(SPEEDS)) for _ in machine.links]
    links = tuple(replace(k, gb_per_s=g) for k, g in zip(machine.links, speeds, strict=True))
    stated = replace(machine, links=links)
    made = machine_model(stated).topology
    unit = speed(made)
    rate = {k.edge: k.lanes * Fraction(str(k.gb_per_s)) for k in stated.links}
    assert {k.edge: k.lanes * unit for k in made.links} == rate
    for before, after in zip(stated.budgets, made.budgets, strict=True):
        own = {Fraction(str(k.gb_per_s)) for k in stated.links if k.edge in before.edges}
        of_each = own.pop() if len(own) == 1 else Fraction(str(stated.gb_per_s))
        assert after.chunks_per_round * unit == before.chunks_per_round * of_each
    assert machine_model(made).topology == made  # done once
    assert machine_model(stated.reversed()).topology == made.reversed()
    wire = topology_to_wire(made)
    assert topology_from_wire(parse(to_text(wire), TopologyWire, "x"), "x") == made


def triangle(*speeds: float, **changes: object) -> Topology:
    ends = [(0, 1), (1, 2), (2, 0)]
    links = tuple(Link(u, v, 1, 1.0, g) for (u, v), g in zip(ends, speeds, strict=True))
    return replace(Topology("triangle", 3, links, 1.0, 25.0), **changes)  # type: ignore[arg-type]


def test_speeds_become_lanes_and_it_is_reported() -> None:
    made = machine_model(triangle(100, 25, 12.5))
    assert made.topology.lanes() == {(0, 1): 8, (1, 2): 2, (2, 0): 1}
    assert made.topology.gb_per_s == 12.5
    said = "lanes of 12.5 GB/s: a lane of 100 GB/s is 8, one of 25 GB/s is 2, one of 12.5 GB/s is 1"
    assert made.notes == (said,)
    assert made.topology.source == said


def test_speed_that_no_link_has_may_be_the_unit() -> None:
    assert sorted(machine_model(triangle(100, 12.5, 5)).topology.lanes().values()) == [2, 5, 40]
    assert sorted(machine_model(triangle(0.3, 0.1, 0.7)).topology.lanes().values()) == [1, 3, 7]


def test_budget_counts_chunks_of_its_links_or_of_the_machine() -> None:
    one = Budget("a", ((0, 1),), 3)
    two = Budget("b", ((0, 1), (1, 2)), 3)
    made = machine_model(triangle(100, 50, 50, budgets=(one, two)))
    assert speed(made.topology) == 25
    assert [b.chunks_per_round for b in made.topology.budgets] == [12, 3]
    assert made.notes[0].endswith("; a budget over links of different speed in chunks of 25 GB/s")


def test_speeds_without_a_small_ratio_are_rejected_in_a_sentence() -> None:
    says = r"link 2->0 has 12.5 GB/s, one of link 0->1 100.12345 GB/s.*round gb_per_s"
    with pytest.raises(TopologyError, match=says):
        machine_model(triangle(100.12345, 25, 12.5))


def test_machines_of_one_speed_are_their_own_models() -> None:
    for name in (*catalogue_names(), *(g.example for g in generators()), "switch:16"):
        machine = resolve_topology(name)
        if not machine.switches:  # machines with switches have separate tests
            assert machine_model(machine).topology is machine
            assert machine_model(machine).notes == ()


def test_files_without_the_new_fields_keep_their_digests() -> None:
    expected = {
        "z52": "5a6f445bdb4d",
        "dgx2": "dddeed1e8f0c",
        "ndv2x2": "bd10cb21957d",
        "switch:16": "395821b9a5b9",
        "torus:4x4": "54ac51ec2bd4",
    }
    found = {name: digest(topology_to_wire(resolve_topology(name)))[7:19] for name in expected}
    assert found == expected


def test_links_of_different_latency_are_costed_at_the_slowest_and_it_is_reported() -> None:
    costs = Costs.from_topology(resolve_topology("ndv2x2"))
    assert (costs.alpha_us, costs.slowest_link) == (1.7, True)
    assert "upper bounds" in costs.note
    assert not Costs.from_topology(resolve_topology("dgx1")).note
    assert not Costs.from_topology(resolve_topology("ndv2x2"), alpha_us=1.0).note


# --- switches ------------------------------------------------------------------------------------


def around(
    ranks: int, switches: list[dict[int, tuple[int, int]]], links: tuple[Link, ...] = ()
) -> Topology:
    """Return ranks at switches, by rank with the lanes to and from the switch, 0 for none."""
    found = [*links]
    for node, members in enumerate(switches, start=ranks):
        for rank, (up, down) in members.items():
            found += [Link(rank, node, up, 0.5, 25.0)] if up else []
            found += [Link(node, rank, down, 0.25, 25.0)] if down else []
    names = tuple(Switch(f"s{i}") for i in range(len(switches)))
    return Topology("box", ranks, tuple(found), 0.5, 25.0, switches=names)


def test_switch_is_links_with_budgets_per_rank() -> None:
    made = machine_model(around(8, [dict.fromkeys(range(8), (18, 18))]))
    assert made.topology.same_capacities(resolve_topology("switch:8x18"))
    assert {k.alpha_us for k in made.topology.links} == {0.75}
    assert made.notes == ("switch 's0' as 56 links between ranks with egress and ingress budgets",)


def test_planes_add_up() -> None:
    planes = [dict.fromkeys(range(8), (n, n)) for n in (2, 4, 6, 6)]
    assert machine_model(around(8, planes)).topology.same_capacities(
        resolve_topology("switch:8x18")
    )


def passes(machine: Topology, wanted: dict[Edge, int]) -> bool:
    """Return whether chunks between pairs of ranks can pass in a round: every way is tried."""
    lanes = machine.lanes()
    chunks = [edge for edge, count in wanted.items() for _ in range(count)]
    nodes = range(machine.ranks, machine.ranks + len(machine.switches))
    ways = [
        [((u, v),)] * ((u, v) in lanes)
        + [((u, s), (s, v)) for s in nodes if (u, s) in lanes and (s, v) in lanes]
        for u, v in chunks
    ]
    for choice in product(*ways):
        load: dict[Edge, int] = {}
        for way in choice:
            for edge in way:
                load[edge] = load.get(edge, 0) + 1
        within = all(n <= lanes[edge] for edge, n in load.items())
        if within and all(
            sum(load.get(e, 0) for e in b.edges) <= b.chunks_per_round for b in machine.budgets
        ):
            return True
    return False


widths = st.tuples(st.sampled_from([0, 1, 1, 2, 2]), st.sampled_from([0, 1, 1, 2, 2]))


@st.composite
def switched(draw: st.DrawFn) -> Topology:
    """Return three ranks at a switch or two, which may be planes, and perhaps a budget."""
    first = {r: draw(widths) for r in range(3)}
    assume(any(up for up, _ in first.values()) and any(down for _, down in first.values()))
    times = draw(st.sampled_from([0, 0, 1, 2]))
    planes = [
        first,
        *([{r: (a * times, b * times) for r, (a, b) in first.items()}] if times else []),
    ]
    machine = around(3, planes)
    over = draw(st.lists(st.sampled_from(sorted(machine.edges)), max_size=2, unique=True))
    likes = {e for e in machine.edges for f in over if _end(e, 3) == _end(f, 3)}
    budgets = (Budget("bus", tuple(likes), draw(st.integers(1, 2))),) if over else ()
    return replace(machine, budgets=budgets)


def _end(edge: Edge, ranks: int) -> tuple[int, bool]:
    """Return the rank that a link to or from a switch ends at, and whether it starts there."""
    return min(edge), edge[0] < ranks


@settings(max_examples=times(150), deadline=None)
@given(switched(), st.lists(st.sampled_from([*permutations(range(3), 2)]), min_size=1, max_size=5))
def test_switch_and_links_admit_the_same_rounds(machine: Topology, chunks: list[Edge]) -> None:
    try:
        made = machine_model(machine).topology
    except TopologyError:
        return  # refused, which the tests below are about
    wanted = {edge: chunks.count(edge) for edge in chunks}
    assert passes(machine, wanted) == passes(made, wanted)


def reachable(machine: Topology, chunks: int, steps: int) -> set[tuple[int, ...]]:
    """Return the rounds per step (up to 2 each) with which an allgather on a machine ends.

    It is an independent tiny model of machines with and without switches: each chunk arrives by one
    send, and all sets of sends are enumerated.
    """
    ranks = range(machine.ranks)
    everything = frozenset((r * chunks + c, r) for r in ranks for c in range(chunks))
    goal = len(ranks) * len(ranks) * chunks
    found = set()
    for rounds in product((1, 2), repeat=steps):
        states = {everything}
        for r in rounds:
            states = {after for state in states for after in _after(machine, state, r)}
        if any(len(state) == goal for state in states):
            found.add(rounds)
    return found


def _after(
    machine: Topology, held: frozenset[tuple[int, int]], rounds: int
) -> set[frozenset[tuple[int, int]]]:
    wide = replace(
        machine,
        links=tuple(replace(k, lanes=k.lanes * rounds) for k in machine.links),
        budgets=tuple(
            replace(b, chunks_per_round=b.chunks_per_round * rounds) for b in machine.budgets
        ),
    )
    chunks = sorted({c for c, _ in held})
    missing = [(c, r) for c in chunks for r in range(machine.ranks) if (c, r) not in held]
    options = [[None, *(u for u in range(machine.ranks) if (c, u) in held)] for c, _ in missing]
    found = set()
    for sources in product(*options):
        wanted: dict[Edge, int] = {}
        for (_, dst), src in zip(missing, sources, strict=True):
            if src is not None:
                wanted[src, dst] = wanted.get((src, dst), 0) + 1
        gained = {m for m, src in zip(missing, sources, strict=True) if src is not None}
        if passes(wide, wanted):
            found.add(held | gained)
    return found


@pytest.mark.parametrize(
    ("switches", "chunks", "steps"),
    [
        ([{0: (1, 1), 1: (1, 1), 2: (1, 1)}], 1, 1),
        ([{0: (1, 1), 1: (1, 1), 2: (1, 1)}], 1, 2),
        ([{0: (2, 1), 1: (1, 2), 2: (1, 2)}], 1, 2),
        ([{0: (1, 1), 1: (1, 1), 2: (1, 1)}] * 2, 1, 1),
        ([{0: (1, 1), 1: (1, 1)}, {1: (1, 1), 2: (1, 1)}], 1, 2),
        ([{0: (1, 2), 1: (2, 1)}], 2, 1),
    ],
)
def test_solvers_reach_what_a_tiny_model_of_switches_reaches(
    switches: list[dict[int, tuple[int, int]]], chunks: int, steps: int
) -> None:
    from sccl.core.answer import Sat
    from sccl.core.instance import Instance
    from sccl.synth.syncoll import solve

    ranks = 1 + max(r for members in switches for r in members)
    machine = around(ranks, switches)
    expected = {sum(rounds) for rounds in reachable(machine, chunks, steps)}
    made = machine_model(machine).topology
    collective = named_spec("allgather", ranks).at(chunks)
    found = {
        rounds
        for rounds in range(steps, 2 * steps + 1)
        if isinstance(solve.solve(Instance(made, collective, steps, rounds), "cadical"), Sat)
    }
    assert found == expected


def with_switch(switch: Switch) -> Topology:
    return replace(around(2, [{0: (1, 1), 1: (1, 1)}]), switches=(switch,))


@pytest.mark.parametrize(
    "switch",
    [Switch("s", copies=True), Switch("s", buffer_chunks=1), Switch("s", buffer_chunks=None),
     Switch("s", buffer_chunks=2, cut_through=False)],
)  # fmt: skip
def test_switch_that_copies_or_holds_is_rejected(switch: Switch) -> None:
    with pytest.raises(TopologyError, match="switch 's' copies or stores chunks"):
        machine_model(with_switch(switch))


@pytest.mark.parametrize(
    ("machine", "says"),
    [
        (around(3, [{0: (1, 1), 1: (1, 1)}], (Link(0, 1, 1, 1.0, 25.0),)),
         "reaches rank 1 through a link and through switch 's0'"),
        (around(3, [{0: (1, 1), 1: (1, 1)}, {0: (1, 1), 1: (2, 1)}]),
         "through switch 's0' and through switch 's1'"),
        (around(3, [{0: (1, 1)}, {1: (1, 1)}], (Link(3, 4, 1, 1.0, 25.0),)),
         "switch 's0' leads to switch 's1'"),
        (around(2, [{0: (1, 0), 1: (1, 0)}]), "join no two ranks"),
        (replace(around(2, [{0: (1, 1), 1: (1, 1)}]), budgets=(Budget("b", ((0, 2), (2, 1)), 1),)),
         "budget 'b': it counts a chunk into and out of one"),
        (replace(around(2, [{0: (1, 1), 1: (1, 1)}] * 2), budgets=(Budget("b", ((0, 2),), 1),)),
         "budget 'b': it limits some of several like switches"),
    ],
)  # fmt: skip
def test_switches_that_links_cannot_say_are_rejected(machine: Topology, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        machine_model(machine)


def test_budget_counts_lanes_of_the_speed_it_states() -> None:
    whole = resolve_topology("ring:4")
    bus = Budget("bus", ((0, 1), (1, 2)), 3, 2.5 * whole.gb_per_s)
    made = machine_model(replace(whole, budgets=(bus,))).topology
    (budget,) = made.budgets
    assert (speed(made), made.lanes()[0, 1]) == (Fraction(str(whole.gb_per_s)) / 2, 2)
    assert (budget.chunks_per_round, budget.gb_per_s) == (15, None)
    same = replace(whole, budgets=(replace(bus, gb_per_s=whole.gb_per_s),))
    assert machine_model(same).topology == same
    odd = replace(whole, budgets=(replace(bus, gb_per_s=1e-7),))
    with pytest.raises(TopologyError, match=r"one of link 0->1 .* GB/s|a lane of budget 'bus'"):
        machine_model(odd)


# --- files ---------------------------------------------------------------------------------------


def box(**changes: object) -> dict[str, object]:
    return {"name": "box", "ranks": 8, "alpha_us": 0.7, "gb_per_s": 25, **changes}


def loaded(tmp_path: Path, plain: dict[str, object]) -> Topology:
    path = tmp_path / "box.json"
    path.write_text(json.dumps(plain))
    return load_topology(path)


@pytest.mark.parametrize(
    "switch",
    [Switch("s"), Switch("s", copies=True), Switch("s", buffer_chunks=None),
     Switch("s", buffer_chunks=4, cut_through=False)],
)  # fmt: skip
def test_switches_are_kept_and_plain_ones_by_name(switch: Switch) -> None:
    machine = replace(with_switch(switch), budgets=(Budget("b", ((0, 2),), 1, 12.5),))
    text = to_text(topology_to_wire(machine))
    assert topology_from_wire(parse(text, TopologyWire, "there"), "there") == machine
    assert json.loads(text)["switches"][0] == "s" or not switch.is_plain
    silent = replace(with_switch(switch), budgets=(Budget("b", ((0, 2),), 1),))
    assert "gb_per_s" not in json.loads(to_text(topology_to_wire(silent)))["budgets"][0]


@pytest.mark.parametrize(
    ("plain", "says"),
    [
        ({"name": "s", "cut_through": False}, "stores each chunk"),
        ({"name": "s", "buffer_chunks": -1}, "buffer_chunks"),
        ({"name": "s", "buffer_chunks": 10**30}, "buffer_chunks"),
        ({"name": "s", "multicast": True}, "unknown field `multicast`"),
        ({"copies": True}, "`name`"),
    ],
)
def test_switches_that_contradict_themselves(
    plain: dict[str, object], says: str, tmp_path: Path
) -> None:
    links = [{"src": 0, "dst": 8, "both_ways": True}]
    with pytest.raises(FormatError, match=says):
        loaded(tmp_path, box(links=links, switches=[plain]))


def test_budget_of_no_speed_is_rejected(tmp_path: Path) -> None:
    bus = {"name": "bus", "edges": [[0, 1]], "chunks_per_round": 1, "gb_per_s": 0}
    with pytest.raises(FormatError, match="budget 'bus': gb_per_s is 0"):
        loaded(tmp_path, box(links=[{"src": 0, "dst": 1}], budgets=[bus]))


def test_egress_alone_is_a_box_around_a_switch(tmp_path: Path) -> None:
    machine = loaded(tmp_path, box(egress=18))
    assert machine.same_capacities(resolve_topology("switch:8x18"))
    m = measure_topology(machine)
    assert set(m.out_lanes) == set(m.in_lanes) == {18}
    assert topology_from_wire(topology_to_wire(machine), "x") == machine


def test_egress_and_ingress_next_to_links_are_budgets_of_each_rank(tmp_path: Path) -> None:
    links = [{"src": u, "dst": v, "lanes": 3, "both_ways": True} for u, v in ((0, 1), (0, 2))]
    machine = loaded(tmp_path, box(ranks=3, links=links, egress=4, ingress=2))
    m = measure_topology(machine)
    assert (m.out_lanes, m.in_lanes) == ((4, 2, 2), (2, 2, 2))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"egress": 0}, "'egress' and 'ingress' are chunks per round, expected at least 1, not 0"),
        ({"ingress": 3}, "has no links"),
        ({"egress": 1, "ranks": 60_000}, "expected 2 to 1024"),
        ({"egress": 1, "switches": ["s"], "links": [{"src": 0, "dst": 8}]}, "leave them out"),
        ({"links": [], "gbps": 3}, "did you mean `gb_per_s`?"),
        ({"links": [{"src": 0, "dst": 1, "lane": 1}]}, "did you mean `lanes`?"),
        ({"egres": 3}, "did you mean `egress`?"),
    ],
)
def test_bad_shorthands_and_misspelt_fields(
    changes: dict[str, object], says: str, tmp_path: Path
) -> None:
    with pytest.raises(FormatError) as caught:
        loaded(tmp_path, box(**changes))
    assert says in str(caught.value)


@given(topologies())
def test_lanes_of_a_rank_are_the_most_that_can_leave_it(machine: Topology) -> None:
    for rank, most in enumerate(measure_topology(machine).out_lanes):
        own = [k for k in machine.links if k.src == rank]
        best = 0
        for loads in product(*(range(k.lanes + 1) for k in own)):
            load = dict(zip((k.edge for k in own), loads, strict=True))
            if all(sum(load.get(e, 0) for e in b.edges) <= b.chunks_per_round
                   for b in machine.budgets):  # fmt: skip
                best = max(best, sum(loads))
        assert most == best


def algorithm_on(machine: Topology, chunks: int, rounds: int) -> Algorithm:
    """Return a broadcast between two ranks in one step."""
    sends = tuple(make_send(c, 0, 1, 0) for c in range(chunks))
    return Algorithm(machine, named_spec("broadcast", 2).at(chunks), (rounds,), sends)


def test_algorithms_for_lanes_of_different_speed_are_compared_by_time() -> None:
    fast, slow = (
        Topology("pair", 2, (Link(0, 1, 1, 1.0, g), Link(1, 0, 1, 1.0, g)), 1.0, g)
        for g in (100.0, 25.0)
    )
    slower = algorithm_on(slow, 2, 2)  # R/C = 1 at 25 GB/s
    faster = algorithm_on(replace(fast, links=fast.links[:1]), 1, 2)  # R/C = 2 at 100 GB/s
    for several in ([slower, faster], [faster, slower]):
        made = build_bundle(several, serial=True, protocols=[("e", 0)])
        (entry,) = made.entries
        used = {entry.algorithms[s.index].algorithm.topology.gb_per_s for s in entry.switches}
        assert used == {100.0}
    drawn = frontier_lines(frontiers_of_algorithms([slower, faster]))
    assert [(one.gb_per_s, len(one.points)) for one in drawn] == [(25.0, 1), (100.0, 1)]


def test_unequal_lanes_are_marked_in_the_output() -> None:
    machine = triangle(100, 25, 12.5)
    assert not machine.has_uniform_lanes
    assert machine_model(machine).topology.has_uniform_lanes
    subtitle = topology_chart(machine).to_dict()["title"]["subtitle"]
    assert "lanes are not equally fast: 12.5 to 100 GB/s; widths count lanes" in subtitle
    console = Console(file=StringIO(), width=200)
    moved = tuple(make_send(0, u, v, u) for u, v in ((0, 1), (1, 2)))
    print_algorithm(
        console, Algorithm(machine, named_spec("broadcast", 3).at(1), (1, 1), moved), intact=True
    )
    assert "its links differ in speed" in console.file.getvalue()  # type: ignore[attr-defined]
