"""The clock compared with ASTRA-sim's: input files and parsed output."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from benchmarks.__main__ import app
from benchmarks.astra import Case, rounded_down, ties
from benchmarks.astra_cases import KB, priced, separate_arrivals, storing
from benchmarks.astra_traces import Network, folder
from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.formats.chakra import Node, encode_trace
from sccl.sim import Messages, simulate
from sccl.topo import resolve_topology
from sccl.training.files.chakra_records import NodeKind
from tests.kit import astra_reference
from tests.kit.messages import ring_allgather

numbers = st.integers(0, 2**31 - 1)
attributes: st.SearchStrategy[dict[str, int | bool | str]] = st.dictionaries(
    st.sampled_from(["comm_size", "comm_src", "comm_dst", "comm_tag"]), numbers
)
nodes = st.builds(
    Node,
    number=st.integers(0, 2**63),
    kind=st.sampled_from(NodeKind),
    after=st.lists(st.integers(0, 2**63), max_size=5).map(tuple),
    micros=st.integers(0, 2**40),
    attributes=attributes,
)


@given(st.lists(nodes, max_size=6))
def test_written_files_read_back(written: list[Node]) -> None:
    expected = [
        (n.number, n.kind, n.after, n.micros, {"is_cpu_op": 0, **n.attributes}) for n in written
    ]
    assert astra_reference.nodes(encode_trace(written)) == expected


def test_bytes_of_a_trace() -> None:
    node = Node(300, NodeKind.SEND, (1, 200), 5, {"comm_size": 150, "comm_tag": 7})
    assert encode_trace([node]).hex(" ") == (
        "07 0a 05 30 2e 30 2e 34 "  # 7 bytes: version "0.0.4"
        "44 08 ac 02 12 08 73 65 6e 64 20 33 30 30 18 05 "  # id 300, name "send 300", type 5
        "2a 03 01 c8 01 38 05 "  # data_deps 1 and 200, duration_micros 5
        "52 0e 0a 09 69 73 5f 63 70 75 5f 6f 70 d8 01 00 "  # is_cpu_op, a truth value
        "52 0e 0a 09 63 6f 6d 6d 5f 73 69 7a 65 48 96 01 "  # comm_size, of 64 bits
        "52 0c 0a 08 63 6f 6d 6d 5f 74 61 67 38 07"  # comm_tag, of 32
    )


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Return who writes a program like ASTRA-sim, whose output passes through a shell command."""

    def written(then: str = "cat") -> Path:
        path = tmp_path / "like-astra"
        path.write_text(
            f'#!/bin/sh\n"{sys.executable}" "{astra_reference.__file__}" "$@" | {then}\n'
        )
        path.chmod(0o755)
        return path

    return written


def astra(binary: Path, *words: str, verb: str = "astra") -> Result:
    return CliRunner().invoke(app, [verb, "--smoke", "--binary", str(binary), *words])


def test_smoke(program: Callable[[str], Path], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = astra(program("cat"), "-o", str(report))
    assert done.exit_code == 0, done.output
    found = json.loads(report.read_text())
    assert found["complete"] is True
    assert all(r["astra_ns"] == r["rounded_down_ns"] for r in found["results"])
    lacking = found["summary"]["incomplete"]
    assert lacking["astra_ns"] > 0
    assert "does not hold chunk" in lacking["violation"]


def test_clock_that_differs_is_reported(program: Callable[[str], Path]) -> None:
    late = astra(program("sed 's/ 4500 cycles/ 4501 cycles/'"))
    assert late.exit_code == 1
    assert "-1" in late.output
    never = astra(program("grep -v 'sys.3.'"))
    assert never.exit_code == 1
    assert "never ends" in never.output


def test_exported_plan_ends_at_our_time(program: Callable[[str], Path], tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = astra(program("cat"), "-o", str(report), verb="astra-exported")
    assert done.exit_code == 0, done.output
    found = json.loads(report.read_text())
    assert found["complete"] is True
    results = found["results"]
    assert {r["network"] for r in results} == {"Ring", "FullyConnected", "Switch"}
    assert all(r["astra_ns"] == r["ours_ns"] for r in results if r["is_same_network"])
    assert {"alltoall by tacos", "alltoall by teccl"} <= {r["plan"] for r in results}
    stored = [r for r in results if r["topology"] == "switch:4"]
    assert all(r["astra_ns"] > r["ours_ns"] for r in stored)


def test_different_end_time_is_reported(
    program: Callable[[str], Path],
) -> None:
    late = astra(program("sed 's/ 2600 cycles/ 2603 cycles/'"), verb="astra-exported")
    assert late.exit_code == 1
    assert "+0.12%" in late.output
    never = astra(program("grep -v 'sys.3.'"), verb="astra-exported")
    assert never.exit_code == 1
    assert "never" in never.output


def test_step_ends_when_it_is_replayed_as_it_does_in_the_plan(
    program: Callable[[str], Path], tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    done = astra(program("cat"), "-o", str(report), verb="astra-steps")
    assert done.exit_code == 0, done.output
    found = json.loads(report.read_text())
    assert found["complete"] is True
    alone, pipeline = found["results"]
    assert (alone["alike"], pipeline["alike"]) == (True, False)
    assert abs(alone["replayed_ns"] - alone["alone_ns"]) <= 500 * alone["nodes"]
    late = astra(program("sed 's/finished, /finished, 9/'"), verb="astra-steps")
    assert late.exit_code == 1
    never = astra(program("grep -v 'sys.3.'"), verb="astra-steps")
    assert never.exit_code == 1
    assert "never ends" in never.output


def test_unrunnable_export_is_reported(program: Callable[[str], Path], tmp_path: Path) -> None:
    nowhere = astra(tmp_path / "nowhere")
    assert nowhere.exit_code == 2
    assert "expected a program that can be run: build ASTRA-sim" in nowhere.output
    fails = astra(program("cat; echo it broke >&2; exit 7"))
    assert fails.exit_code == 4
    assert "ended with 7: it broke" in fails.output


MACHINES = [
    (Network.RING, priced(resolve_topology("ring:5"))),
    (Network.PAIRS, priced(resolve_topology("torus:3x3"))),
    (Network.SWITCH, storing(4)),
]


def theirs(messages: Messages, topology: Topology, clock: Clock, network: Network) -> int:
    with tempfile.TemporaryDirectory() as path, contextlib.chdir(path):
        for name, content in folder(messages, topology, clock, network).files.items():
            Path(name).write_bytes(content)
        ends = astra_reference.ends("workload", "system.json", "network.yml")
    return max(end for end in ends if end is not None)


@given(st.data())
def test_traffic_without_ties_ends_when_theirs_does(data: st.DataObject) -> None:
    network, machine = data.draw(st.sampled_from(MACHINES))
    rank = st.integers(0, machine.ranks - 1)
    row = st.tuples(st.integers(0, 2), st.integers(0, 3), rank, rank).filter(lambda r: r[2] != r[3])
    rows = data.draw(st.lists(row, min_size=1, max_size=12, unique=True))
    steps = Messages.from_steps(*np.array(rows).T)
    none = np.full(len(steps), -1)
    steps = replace(steps, start_opens=none, step=none, num_chunks=4)
    apart = separate_arrivals(Case("some", network, machine, KB, steps, (steps,)))
    down = rounded_down(apart.clock, machine)
    ours = simulate(apart.messages, machine, down)
    if not ties(ours):
        assert ours.finish == theirs(apart.messages, machine, apart.clock, network)


@pytest.mark.parametrize(("network", "machine"), MACHINES)
def test_releases_are_kept(network: Network, machine: Topology) -> None:
    steps = Messages.from_steps([0, 1], [0, 0], [0, 2], [2, 1])
    clock = Clock.from_topology(machine, 123, tick_ps=1000)
    down = simulate(steps.delayed(7000), machine, rounded_down(clock, machine)).finish
    assert down == theirs(steps.delayed(7000), machine, clock, network)
    with pytest.raises(ParameterError, match="tells whole microseconds"):
        theirs(steps.delayed(7001), machine, clock, network)


def test_links_that_cost_unlike_are_rejected() -> None:
    machine = MACHINES[0][1]
    first, *others = machine.links
    mixed = replace(machine, links=(replace(first, gb_per_s=1.0), *others))
    steps = Messages.from_steps([0], [0], [0], [1])
    with pytest.raises(ParameterError, match="its links cost 2 different things"):
        folder(steps, mixed, Clock.from_topology(mixed, 1), Network.RING)


def test_costs_are_rounded_down_exactly() -> None:
    ring = priced(resolve_topology("ring:8"))
    steps = Messages.from_steps(*ring_allgather(8))
    clock = Clock.from_topology(ring, 65_536, tick_ps=1000)
    assert clock.beta == ((1311,) * 16,)
    assert rounded_down(clock, ring).beta == ((1310,) * 16,)
    assert simulate(steps, ring, rounded_down(clock, ring)).finish == 7 * 1810
