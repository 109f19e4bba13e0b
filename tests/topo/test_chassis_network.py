"""Joined copies of machines: against generators of the same machines, and rates of NICs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.topology import Link, Switch, Topology
from sccl.errors import FormatError, InputError, ParameterError
from sccl.formats.files.machines import ImportedMachine, join_by_network, read_machine
from sccl.topo import resolve_topology
from sccl.topo.chassis_network import JoinKind, NetworkCards, join_chassis
from sccl.topo.machine_model import expand_switches
from sccl.topo.measures import measure_topology
from tests.kit.commands import sccl
from tests.kit.strategies import topologies


def star(ranks: int) -> Topology:
    """Return ranks around a switch at 450 GB/s, as those of a node of ``rail``."""
    pairs = [(rank, ranks) for rank in range(ranks)]
    links = [Link(*ends, 1, 0.7, 450.0) for a, b in pairs for ends in ((a, b), (b, a))]
    return Topology("node", ranks, tuple(links), 0.7, 450.0, switches=(Switch("sw"),))


@pytest.mark.parametrize(("gpus", "nodes"), [(8, 4), (4, 2), (3, 5)])
def test_rails_are_those_of_the_generator(gpus: int, nodes: int) -> None:
    expected = resolve_topology(f"rail:{gpus}x{nodes}")
    cards = NetworkCards(tuple((gpu,) for gpu in range(gpus)), 50.0, 1.4)
    machine = join_chassis(star(gpus), nodes, "rails", cards)
    assert machine.links == expected.links
    assert machine.chassis == expected.chassis
    assert len(machine.switches) == len(expected.switches)


def test_full_is_a_switch_without_ways_back_into_the_chassis() -> None:
    cards = NetworkCards(((0,), (1,)), 12.5, 2.0)
    full = join_chassis(resolve_topology("ring:2"), 3, "full", cards)
    lone = Topology("lone", 6, tuple(
        Link(*ends, 1, 1.0, 12.5) for rank in range(6) for ends in ((rank, 6), (6, rank))
    ), 1.0, 12.5, switches=(Switch("s"),))  # fmt: skip
    switched, _ = expand_switches(lone)
    between = {k.edge for k in switched.links if k.src // 2 != k.dst // 2}
    assert {k.edge for k in full.links if k.gb_per_s == 12.5} == between
    assert {k.alpha_us for k in full.links if k.gb_per_s == 12.5} == {2.0}
    limits = {frozenset(b.edges): b.chunks_per_round for b in switched.budgets}
    assert {frozenset(b.edges): b.chunks_per_round for b in full.budgets} == {
        edges & between: chunks for edges, chunks in limits.items()
    }


@given(topologies(), st.integers(2, 4), st.sampled_from(["switch", "rails", "full"]), st.data())
def test_copies_are_as_they_were_and_all_reach_all(
    machine: Topology, chassis: int, joining: JoinKind, data: st.DataObject
) -> None:
    ranks = data.draw(st.lists(st.integers(0, machine.ranks - 1), unique=True, min_size=1))
    cut = data.draw(st.integers(1, len(ranks)))
    users = tuple(tuple(part) for part in (ranks[:cut], ranks[cut:]) if part)
    many = join_chassis(machine, chassis, joining, NetworkCards(users, 5.0, 2.0))
    n = machine.ranks
    assert many.ranks == chassis * n
    for copy in range(chassis):
        own = {
            (k.src - copy * n, k.dst - copy * n): k.lanes
            for k in many.links
            if k.src // n == k.dst // n == copy and max(k.edge) < many.ranks
        }
        assert own == machine.lanes()
    if joining != "rails" or len(users) == 1:
        assert measure_topology(many).unreachable is None
    for copy in range(chassis):  # no more than its NICs leaves a chassis
        out = {
            k.edge: k.lanes
            for k in many.links
            if k.src // n == copy
            and k.src < many.ranks
            and k.dst not in range(copy * n, copy * n + n)
        }
        at_once = sum(out.values())
        for budget in many.budgets:
            if budget.name.endswith(", out") and set(budget.edges) <= out.keys():
                at_once -= sum(out[e] for e in budget.edges) - budget.chunks_per_round
        assert at_once == len(users)


def test_alike_nics_add_up() -> None:
    cards = NetworkCards(((0, 1), (0, 1), (2,)), 10.0, 1.0)
    many = join_chassis(resolve_topology("full:3"), 2, "switch", cards)
    assert {many.lanes()[rank, 6] for rank in (0, 1, 3, 4)} == {2}
    assert many.lanes()[2, 6] == 1
    assert {b.chunks_per_round for b in many.budgets} == {2}
    assert len(many.budgets) == 4


@pytest.mark.parametrize(
    ("chassis", "users", "message"),
    [
        (1, ((0,),), "the number of nodes is 1"),
        (2, ((3,),), r"NIC 0 serves GPUs \[3\]"),
        (2, ((),), r"NIC 0 serves GPUs \[\]"),
        (2, ((0, 0),), r"NIC 0 serves GPUs \[0, 0\]"),
        (2, ((0, 1), (1, 2)), "GPU 1 shares several NICs"),
        (10**6, ((0,),), "links, the most that is written"),
    ],
)
def test_invalid_joins_are_rejected(
    chassis: int, users: tuple[tuple[int, ...], ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        join_chassis(resolve_topology("ring:3"), chassis, "switch", NetworkCards(users, 1.0, 1.0))


PROFILE = {
    "name": "m",
    "gpus_per_node": 4,
    "alpha": 1,
    "node_betas_list": [10],
    "nics_per_node": 2,
    "remote_alpha": 3,
    "remote_beta": 100,
}


def imported(folder: Path, network: dict[str, object], **profile: object) -> ImportedMachine:
    (folder / "m.json").write_text(json.dumps({**PROFILE, **profile}))
    (folder / "ib.json").write_text(json.dumps(network))
    return join_by_network(
        read_machine(folder / "m.json", "auto", None, None, None), 2, folder / "ib.json"
    )


def test_machines_file_says_what_the_fabric_does_not(tmp_path: Path) -> None:
    machine = imported(tmp_path, {"joining": "switch"}).imported.topology
    up = [k for k in machine.links if k.dst == 8]
    assert {(k.gb_per_s, k.alpha_us) for k in up} == {(10.0, 1.5)}
    assert len(machine.budgets) == 2 * (8 + 4)  # GPUs in their chassis, and NICs
    told = {"joining": "rails", "gb_per_s": 20, "alpha_us": 1, "nics": [[3]]}
    machine = imported(tmp_path, told).imported.topology
    assert {k.edge: (k.gb_per_s, k.alpha_us) for k in machine.links if 8 in k.edge} == {
        (3, 8): (20, 0.5), (8, 3): (20, 0.5), (7, 8): (20, 0.5), (8, 7): (20, 0.5)
    }  # fmt: skip


@pytest.mark.parametrize(("nics", "rails"), [(1, 1), (2, 2), (4, 4), (8, 8)])
def test_gpus_are_shared_out_to_so_many_nics(tmp_path: Path, nics: int, rails: int) -> None:
    read = imported(tmp_path, {"joining": "rails", "nics": nics})
    assert len(read.imported.topology.switches) == rails
    up = [k for k in read.imported.topology.links if k.dst >= 8]
    assert len(up) == 2 * max(4, nics)


def test_without_nics_there_is_one_for_each_gpu(tmp_path: Path) -> None:
    network = {"joining": "rails", "gb_per_s": 1, "alpha_us": 1}
    read = imported(tmp_path, network, nics_per_node=0)
    assert len(read.imported.topology.switches) == 4
    assert any("one NIC per GPU" in line for line in read.imported.assumed)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"joining": "rails"}, "give 'gb_per_s', which the machine's file does not have"),
        ({"joining": "rails", "gb_per_s": 1}, "give 'alpha_us'"),
        ({"joining": "ring"}, "joining"),
        ({"joining": "rails", "gb_per_s": 0, "alpha_us": 1}, "gb_per_s is 0"),
        ({"joining": "rails", "gb_per_s": 1, "alpha_us": 1, "nics": 3}, "3 NICs for 4 GPUs"),
        ({"joining": "rails", "gb_per_s": 1, "alpha_us": 1, "nic": 3}, "did you mean `nics`"),
        ({"ranks": 2, "alpha_us": 1, "gb_per_s": 1}, "it holds a topology"),
    ],
)
def test_unknown_fabric_is_rejected(
    tmp_path: Path, network: dict[str, object], message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        imported(tmp_path, network, nics_per_node=0)


def test_chassis_and_fabric_belong_together(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(PROFILE))
    read = read_machine(tmp_path / "m.json", "auto", None, None, None)
    assert join_by_network(read, None, None) == read
    with pytest.raises(ParameterError, match="belong together"):
        join_by_network(read, 2, None)
    for option in ("--nodes", "--chassis"):  # the second is the older name
        code, _, err = sccl("topo", "import", tmp_path / "m.json", option, "2")
        assert code == 2
        assert "belong together" in err
