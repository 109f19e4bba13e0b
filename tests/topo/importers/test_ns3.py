"""Topologies of ns-3: machines written and read back, SimAI's first line, invalid files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.topology import Topology
from sccl.errors import InputError
from sccl.topo import resolve_topology
from sccl.topo.importers import Hints, load_importer

NS3 = load_importer("ns3")


def written(machine: Topology, shift: int) -> str:
    """Format a machine with symmetric links, with rotated node numbers.

    Lanes are separate links.
    """
    nodes = machine.ranks + len(machine.switches)
    name = [(node + shift) % nodes for node in range(nodes)]
    links = [
        f"{name[k.src]} {name[k.dst]} {k.gb_per_s * 8:g}Gbps {k.alpha_us / 1000:.9f}ms 0"
        for k in machine.links
        for _ in range(k.lanes)
        if k.src < k.dst
    ]
    switches = " ".join(map(str, name[machine.ranks :]))
    return "\n".join([f"{nodes} {len(machine.switches)} {len(links)}", switches, *links, ""])


@given(
    st.sampled_from(["dgx1", "fattree:4", "rail:2x3x2:2", "switch2d:2x3", "ring:5", "star:4"]),
    st.integers(0, 3),
)
def test_machines_are_read_back(name: str, shift: int) -> None:
    machine = resolve_topology(name)
    found = NS3.read(written(machine, shift), Hints("m")).topology
    nodes = machine.ranks + len(machine.switches)
    at = {(node + shift) % nodes: node for node in range(nodes)}
    switch = {i for i in range(nodes) if at[i] >= machine.ranks}
    ranks = [i for i in range(nodes) if i not in switch]
    own = [at[i] for i in (*ranks, *((i + shift) % nodes for i in range(machine.ranks, nodes)))]
    links = {(own[k.src], own[k.dst]): (k.lanes, k.gb_per_s, k.alpha_us) for k in found.links}
    assert links == {k.edge: (k.lanes, k.gb_per_s, k.alpha_us) for k in machine.links}
    assert [found.label(i) for i in range(found.ranks)] == list(map(str, ranks))


def test_switches_may_be_any_nodes_and_stand_on_any_lines() -> None:
    text = (
        "5 2 4 // nodes, switches, links\n0\n3\n0 1 8Gbps 1us 0\n0 2 8Gbps 1us\n\n"
        "3 4 1GBps 2000ns 0.1\n0 3 80000Mbps 1e3ns 0\n"
    )
    machine = NS3.read(text, Hints("m")).topology
    assert [s.name for s in machine.switches] == ["node 0", "node 3"]
    assert machine.labels == ("1", "2", "4")
    assert {k.edge: (k.gb_per_s, k.alpha_us) for k in machine.links} == {
        (0, 3): (1, 1), (3, 0): (1, 1), (1, 3): (1, 1), (3, 1): (1, 1),
        (4, 2): (1, 2), (2, 4): (1, 2), (3, 4): (10, 1), (4, 3): (10, 1),
    }  # fmt: skip
    assert any("error rate" in line for line in NS3.read(text, Hints("m")).assumed)


def test_simai_says_servers_too() -> None:
    text = "9 2 2 1 8 H100 8\n4 5 6\n" + "".join(
        f"{gpu} {4 + gpu // 2} 2880Gbps 0.000025ms 0\n{gpu} 6 400Gbps 0.0005ms 0\n"
        for gpu in range(4)
    )
    text = text.replace("9 2 2 1 8", "7 2 2 1 8")
    found = NS3.read(text, Hints("m"))
    assert found.topology.chassis == ((0, 1), (2, 3))
    assert {link.gb_per_s for link in found.topology.links} == {360.0, 50.0}
    assert "GPUs are H100, 2 a server" in found.understood
    assert not any("questioned" in line for line in found.assumed)
    fast = NS3.read(text.replace("2880Gbps", "7200Gbps"), Hints("m"))
    assert (
        "questioned: a link of rank 0 carries 900 GB/s, and all NVLinks of a GPU h100 450"
        in fast.assumed
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nFirst line: nodes, switches, links\n...\n", "2 lines from line 7 on: line 1 counts"),
        ("0 1 8Gbps 1us 0\n", "1 line from line 6 on, 1 of which look like links: line 1"),
        ("\n \n// nothing\n", ""),
    ],
)
def test_text_after_the_links_is_left_out_and_counted(text: str, said: str) -> None:
    found = NS3.read(GOOD + text, Hints("m"))
    assert found.topology == NS3.read(GOOD, Hints("m")).topology
    assert (
        (f"not used: {said}" in "\n".join(found.understood))
        if said
        else (found == NS3.read(GOOD, Hints("m")))
    )


GOOD = "4 1 3\n3\n0 3 8Gbps 1us 0\n1 3 8Gbps 1us 0\n2 3 8Gbps 1us 0\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("4 1 3", "4 1", "line 1: expected the numbers of nodes"),
        ("4 1 3", "4 1 4", "3 links are there, expected 4"),
        ("4 1 3", "4 3 3", "line 1: 3 of 4 nodes are switches"),
        ("4 1 3", "999999 1 3", "line 1: 999999 nodes"),
        ("\n3\n", "\n4\n", "line 2: switch '4', expected a node from 0 to 3"),
        ("\n3\n", "\n3 3\n", "line 2: expected 1 different"),
        ("0 3 8", "0 4 8", "line 3: node '4'"),
        ("0 3 8", "3 3 8", "line 3: a link from node 3 to itself"),
        ("0 3 8Gbps", "0 3 8Gigs", "line 3: '8Gigs', expected a rate"),
        ("0 3 8Gbps", "0 3 0Gbps", "line 3: a rate of 0"),
        ("0 3 8Gbps 1us", "0 3 8Gbps 1parsec", "line 3: '1parsec', expected a latency"),
        ("2 3 8Gbps 1us", "1 3 8Gbps 2us", "line 5: nodes 1 and 3 are joined twice"),
        ("0 3 8Gbps 1us 0", "0 3 8Gbps", "line 3: expected source, destination"),
        (GOOD, "", "nothing is written"),
        (GOOD, "2 0 0\n", "no links"),
    ],
)
def test_invalid_file_is_reported(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=message):
        NS3.read(GOOD.replace(old, new), Hints("m"))
