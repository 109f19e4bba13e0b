"""Ranks and links by number and label, in Python and on the command line, on uneven machines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import sccl
from sccl.core.algorithm import Algorithm
from sccl.core.cost import SLOWEST_LINK_NOTE
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.json_text import to_text
from sccl.core.files.topologies import load_topology, topology_to_wire
from sccl.core.ids import Edge
from sccl.core.topology import Link, Topology
from sccl.errors import InputError, ParameterError, UnknownNameError
from sccl.judge import violations
from sccl.topo import resolve_topology
from sccl.topo.degrade import add_links, remove_parts
from sccl.topo.machine_model import machine_model
from sccl.topo.node_names import parse_added_lanes, parse_links, parse_rank
from tests.kit.commands import sccl as run

LABELS = ("GPU0", "GPU1", "a-b", "b", "a", "GPU 5", "b:1", "twice", "twice")


@pytest.fixture
def labelled() -> Topology:
    return replace(resolve_topology("full:9"), labels=LABELS)


@pytest.mark.parametrize(
    ("text", "whole", "lanes"),
    [
        ("0-4", {(0, 4), (4, 0)}, {}),
        ("0>4", {(0, 4)}, {}),
        ("0->4", {(0, 4)}, {}),
        ("GPU0-GPU1", {(0, 1), (1, 0)}, {}),
        ("GPU0>8", {(0, 8)}, {}),
        ("0-3:1", set(), {(0, 3): 1, (3, 0): 1}),
        ("GPU0>GPU 5:1", set(), {(0, 5): 1}),
        ("a-b>GPU0", {(2, 0)}, {}),
        ("GPU0-b:1", None, {}),  # ambiguous: rank b:1, or lane 1 of the link to b
        ("a-b-b", {(2, 3), (3, 2)}, {}),
    ],
)
def test_links_by_number_and_label(
    labelled: Topology, text: str, whole: set[tuple[int, int]] | None, lanes: dict[Edge, int]
) -> None:
    if whole is None:
        with pytest.raises(ParameterError, match="can be read as 0 to 6 or 0 to 3"):
            parse_links(labelled, [text])
        return
    found = parse_links(labelled, [text])
    assert set(found.complete_links) == whole
    assert found.lanes == lanes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu0", "unknown rank 'gpu0': did you mean 'GPU0'"),
        ("", "unknown rank ''"),
        ("[red]", "unknown rank '[red]'"),
        ("twice", "calls 2 nodes 'twice', 7 and 8 among them: give the number"),
        ("\x1b[2J", "unknown rank '\\x1b[2J'"),
    ],
)
def test_labels_that_mean_no_rank_or_several(labelled: Topology, text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_rank(labelled, text)
    assert says in str(caught.value)
    for link in (f"{text}>0", f"0-{text}:1"):
        with pytest.raises(InputError):
            parse_links(labelled, [link])


def test_number_is_never_a_label() -> None:
    degraded = remove_parts(resolve_topology("dgx1"), ranks=[3])  # the label of rank 3 is 4
    assert parse_rank(degraded, "3") == 3
    with pytest.raises(ParameterError, match=r"no rank 7, expected 0 to 6; the one .* is rank 6"):
        parse_rank(degraded, "7")


def test_lane_of_a_link_is_taken_out_and_the_last_takes_the_link() -> None:
    dgx1 = resolve_topology("dgx1")
    fewer = remove_parts(dgx1, lanes={(0, 3): 1, (3, 0): 1})
    assert (fewer.lanes()[0, 3], fewer.lanes()[3, 0], len(fewer.links)) == (1, 1, 32)
    assert fewer.name == "dgx1-without-0to3x1-3to0x1"
    assert "1 lane of link 0->3" in fewer.source
    assert remove_parts(dgx1, lanes={(0, 3): 2}) == remove_parts(dgx1, links=[(0, 3)])
    assert fewer.labels == ()  # all ranks keep their numbers
    assert add_links(fewer, {(0, 3): 1, (3, 0): 1}).same_capacities(dgx1)
    assert add_links(dgx1, {(0, 3): 1, (3, 0): 2}).name == "dgx1-with-0to3-3to0x2"
    bad = {3: "3 lanes to take out, expected 1 to 2", 0: "0 lanes to take out"}
    for lanes, says in bad.items():
        with pytest.raises(ParameterError, match=says):
            remove_parts(dgx1, lanes={(0, 3): lanes})
    with pytest.raises(ParameterError, match="no such link"):
        remove_parts(dgx1, lanes={(0, 7): 1})


def test_costs_of_links_stay_when_parts_go_or_come_or_turn() -> None:
    machine = uneven()
    kept = {k.edge: (k.alpha_us, k.gb_per_s) for k in machine.links}
    back = {k.edge[::-1]: (k.alpha_us, k.gb_per_s) for k in machine.reversed().links}
    assert back == kept
    fewer = remove_parts(machine, ranks=[3])
    assert all((k.alpha_us, k.gb_per_s) == kept[k.edge] for k in fewer.links)
    more = add_links(machine, {(0, 1): 1, (0, 2): 1})
    cost = {k.edge: (k.lanes, k.alpha_us, k.gb_per_s) for k in more.links}
    assert (cost[0, 1], cost[0, 2]) == ((2, 1.0, 100.0), (1, 1.0, 25.0))
    twice = machine_model(remove_parts(machine_model(machine).topology, ranks=[3])).topology
    assert twice.lanes() == remove_parts(machine_model(machine).topology, ranks=[3]).lanes()


def uneven() -> Topology:
    """Return four ranks in a ring whose links differ in speed and latency."""
    ends = {(0, 1): 100.0, (1, 2): 25.0, (2, 3): 100.0, (3, 0): 50.0}
    links = [
        Link(*edge, 1, 3.0 if g == 50 else 1.0, g)
        for (u, v), g in ends.items()
        for edge in ((u, v), (v, u))
    ]
    return Topology("uneven", 4, tuple(links), 1.0, 25.0, labels=("a", "b", "c", "d"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "uneven.json"
    path.write_text(to_text(topology_to_wire(uneven())))
    return path


SAID = "uneven: lanes of 25 GB/s: a lane of 100 GB/s is 4, one of 50 GB/s is 2, one of 25 GB/s is 1"


def test_every_verb_that_asks_says_what_a_machine_is_modelled_as(
    file: Path, tmp_path: Path
) -> None:
    size = ("--chunks", "1", "--steps", "2", "--rounds", "2")
    ask = ("--collective", "broadcast", "--topo", file, "--root", "c")
    for verb in (("bounds",), ("solve", *size, "-o", tmp_path / "found.json"), ("smt2", *size)):
        code, _, err = run(verb[0], *ask, *verb[1:])
        assert (code, SAID in err) == (0, True)
    found, intact = load_algorithm(tmp_path / "found.json")
    assert (intact, found.topology, found.collective.root) == (
        True,
        machine_model(uneven()).topology,
        2,
    )
    assert isinstance(found, Algorithm)
    assert not violations(found)
    assert run("check", tmp_path / "found.json")[0] == 0


def test_times_of_links_that_differ_say_that_they_are_bounds(file: Path, tmp_path: Path) -> None:
    sweep = ("pareto", "--collective", "broadcast", "--topo", file, "--k", "1", "--no-store")
    picture, kept = tmp_path / "p.svg", tmp_path / "kept"
    code, out, err = run(*sweep, "--plot", picture, "--output", kept)
    assert code == 0, err
    assert SAID in err
    assert SLOWEST_LINK_NOTE in out
    assert "alpha 3 us per step, 25 GB/s per lane" in out
    assert "upper" in picture.read_text()
    plain = json.loads(next(kept.glob("*-frontier.json")).read_text())
    assert (plain["slowest_link"], plain["alpha_us"], plain["gb_per_s"]) == (True, 3.0, 25.0)
    assert run("explore", kept, "-o", tmp_path / "page.html")[0] == 0
    assert SLOWEST_LINK_NOTE in (tmp_path / "page.html").read_text().replace("\\u0027", "'")
    assert run("plot", kept, "--what", "time", "-o", tmp_path / "t.svg")[0] == 0
    assert "estimate" in (tmp_path / "t.svg").read_text()
    assert SLOWEST_LINK_NOTE not in run(*sweep, "--alpha-us", "1")[1]
    dgx1 = run("bound", "--collective", "allgather", "--topo", "dgx1")
    assert dgx1[2] == ""


def test_limits_and_certificates_are_of_the_same_model(file: Path, tmp_path: Path) -> None:
    proofs = tmp_path / "proofs"
    code, out, _ = run("pareto", "--collective", "allgather", "--topo", file, "--limit",
                       "--max-steps", "2", "--certify", proofs)  # fmt: skip
    assert code == 0
    assert SLOWEST_LINK_NOTE in out
    assert run("certificate", "verify", proofs)[0] == 0
    bounds = json.loads(run("bound", "--collective", "allgather", "--topo", file, "--json")[1])
    assert sccl.bounds("allgather", sccl.Topology(machine_model(uneven()).topology)).bandwidth == (
        sccl.bounds(
            "allgather", sccl.Topology(machine_model(uneven()).topology.reversed())
        ).bandwidth
    )
    assert bounds["bandwidth"] == "2/3"  # 2 chunks into {0, 1} or {1, 2}, over 3 lanes of 25 GB/s


def test_single_cut_is_told_by_what_crosses_it() -> None:
    ends = {(0, 1): 20, (1, 2): 5, (2, 3): 20, (3, 0): 1}
    found = sccl.bounds("allgather", sccl.Topology.of("tri", ends))
    assert str(found.bandwidth) == "1/3"
    assert "2 chunks must enter ranks {0, 1}, at most 6 per round" in found.reasons[1]


def test_bounds_and_pareto_mean_the_same_by_a_switch(tmp_path: Path) -> None:
    ends = [{"src": r, "dst": 4, "lanes": 2, "both_ways": True} for r in range(4)]
    machine = {"name": "box", "ranks": 4, "alpha_us": 1, "gb_per_s": 25, "switches": ["[b]"]}
    (tmp_path / "box.json").write_text(json.dumps({**machine, "links": ends}))
    ask = ("--collective", "allgather", "--topo", tmp_path / "box.json")
    found = json.loads(run("bound", *ask, "--json")[1])
    assert (found["steps"], found["bandwidth"]) == (1, "3/2")
    code, out, err = run("pareto", *ask, "--no-store")
    assert (code, "Complete for every k" in out) == (0, True)
    assert "box: switch '[b]' as 12 links between ranks with egress and ingress budgets" in err
    shown = run("topo", "show", tmp_path / "box.json")[1]
    assert "solved as: switch '[b]' as 12 links" in shown


def test_topo_show_prints_the_costs_of_links_that_differ(file: Path) -> None:
    out = run("topo", "show", file)[1]
    assert "alpha 3 us, 50 GB/s per lane: 0->3, 3->0" in out
    assert "alpha 1 us, 100 GB/s per lane: all others" in out
    assert "solved as: lanes of 25 GB/s" in out
    out = run("topo", "show", "dgx-h100")[1]
    assert "lanes out of each rank: 18, 18, 18, 18, 18, 18, 18, 18" in out
    assert "links differ" not in out


def test_topo_without_and_with_take_lanes_and_labels(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "changed.json"
    assert run("topo", "edit", "dgx1", "--remove-link", "0-3:1", "-o", path)[0] == 0
    assert load_topology(path).lanes()[0, 3] == 1
    assert (
        run("topo", "edit", file, "--remove-rank", "d", "--remove-link", "a>b", "-o", path)[0] == 0
    )
    assert load_topology(path).edges == {(1, 0), (1, 2), (2, 1)}
    assert (
        run("topo", "edit", "dgx1", "--add-link", "0-3:2", "--add-link", "0>5", "-o", path)[0] == 0
    )
    lanes = load_topology(path).lanes()
    assert (lanes[0, 3], lanes[3, 0], lanes[0, 5], (5, 0) in lanes) == (4, 4, 1, False)


def test_python_takes_the_same_names() -> None:
    machine = sccl.Topology(uneven())
    assert machine.without(links=["a-b"]).value == machine.without(links=[(0, 1)]).value
    assert machine.without(links=[("a", "b")]).value == machine.without(links=["0-1"]).value
    dgx1 = sccl.topology("dgx1")
    assert dgx1.without(links=[(0, 3, 1)]).value == dgx1.without(links=["0-3:1"]).value
    assert machine.without(ranks=["d"]).value == machine.without(ranks=[3]).value
    assert machine.with_link("a", "c").value == machine.with_link(0, 2).value
    assert parse_added_lanes(machine.value, ["a-c:2"]) == {(0, 2): 2, (2, 0): 2}
    with pytest.warns(UserWarning, match="lanes of 25 GB/s"):
        assert sccl.bounds("broadcast", machine, root="b").steps == 2
    with pytest.raises(UnknownNameError, match="unknown rank 'e'"):
        sccl.bounds("broadcast", machine, root="e")
    for links in ([(0, 3, 0)], [(0, 3, "x")], [(0,)], [(0, 3, True)]):
        with pytest.raises(InputError):
            dgx1.without(links=links)  # type: ignore[arg-type]
