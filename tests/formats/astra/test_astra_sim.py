"""Folders of ASTRA-sim: networks of machines, schedules, and output of its binary."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from sccl import formats
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.clock import Clock
from sccl.core.schedule import Schedule, build_schedule
from sccl.core.topology import Link, Switch, Topology, per_rank_budgets
from sccl.errors import InputError
from sccl.formats.common.astra_networks import choose_network, ns3_files
from sccl.formats.common.contract import SizedPlan, WrittenFiles
from sccl.formats.common.messages import Awaiting, Message, order_links, schedule_messages
from sccl.formats.files.export_plans import parse_options
from sccl.judge import violations
from sccl.sim import Messages, replay, simulate
from sccl.topo import resolve_topology
from sccl.topo.importers import load_importer as importer
from sccl.topo.importers.common.contract import Hints
from tests.kit import astra_reference
from tests.kit.easy_algorithms import frontier
from tests.kit.messages import build_steps, ring_allgather
from tests.kit.schedules import together_around
from tests.kit.strategies import topologies
from tests.kit.timed import right

KB = 50_000
"""Bytes that take a microsecond at 50 GB/s."""

ASTRA = formats.load("astra-sim")


def around(switch: Switch, ranks: int = 4) -> Topology:
    """Return ranks around a switch."""
    pairs = [pair for rank in range(ranks) for pair in ((rank, ranks), (ranks, rank))]
    links = tuple(Link(*pair, 1, 0.5, 50.0) for pair in pairs)
    return Topology("star", ranks, links, 0.5, 50.0, switches=(switch,))


STORING = around(Switch("stores", buffer_chunks=None, cut_through=False))


def written(plan: Algorithm | Schedule, size: int | None, *told: str) -> WrittenFiles:
    return ASTRA.write([SizedPlan("plan", plan, size_bytes=size)], parse_options(ASTRA, told))


def folder(files: WrittenFiles, path: Path) -> Path:
    for name, content in files.files.items():
        (path / name).write_bytes(content)
    return path


def like(files: WrittenFiles, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Return when each rank ends where the rules are ASTRA-sim's."""
    monkeypatch.chdir(folder(files, path))
    return astra_reference.ends("workload", "system.json", "network.yml")


def timed(machine: Topology, rows: list[tuple[int, int, int, int]]) -> Schedule:
    """Return the schedule that rows (step, chunk, src, dst) are simulated as."""
    messages = Messages.from_steps(*build_steps(rows))
    clock = Clock.from_topology(machine, KB, tick_ps=1000)
    chunks = max(row[1] for row in rows) // machine.ranks + 1
    collective = named_spec("allgather", machine.ranks).at(chunks)
    messages = replace(messages, num_chunks=collective.num_chunks)
    return simulate(messages, machine, clock).schedule(collective)


def test_switch_that_stores_takes_as_long_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = ring_allgather(4)
    schedule = timed(STORING, list(zip(*(c.tolist() for c in steps), strict=True)))
    files = written(schedule, None)
    assert b"topology: [ Switch ]" in files.files["network.yml"]
    assert len(files.notes) == 1
    finish = simulate(Messages.from_steps(*steps), STORING, schedule.clock).finish
    assert max(end or 0 for end in like(files, tmp_path, monkeypatch)) == finish == 9000


def test_switch_that_cuts_through_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = timed(around(Switch("cuts")), [(0, 0, 0, 1)])
    files = written(schedule, None)
    assert "stores each chunk before it forwards it" in files.notes[1]
    ours = simulate(
        Messages.from_steps([0], [0], [0], [1]), schedule.topology, schedule.clock
    ).finish
    theirs = max(end or 0 for end in like(files, tmp_path, monkeypatch))
    assert (ours, theirs) == (2000, 3000)


RANK = st.integers(0, 3)
ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), RANK, RANK).filter(lambda r: r[2] != r[3]),
    min_size=1,
    max_size=14,
    unique=True,
)


def slowly(schedule: Schedule, awaiting: Awaiting) -> list[Message]:
    """Return the messages of a schedule, each looked for among all others."""
    links = schedule.topology.links
    hops: dict[int, list[int]] = {}
    of = range(len(schedule.start)) if schedule.message is None else schedule.message.tolist()
    for row, number in enumerate(of):
        hops.setdefault(number, []).append(row)
    ways = []
    for rows in hops.values():
        first, last = rows[0], rows[-1]
        come = int(schedule.end[last]) + schedule.clock.lag(int(schedule.link[last]))
        src, dst = links[schedule.link[first]].src, links[schedule.link[last]].dst
        chunk, start = int(schedule.chunk[first]), int(schedule.start[first])
        ways.append((start, chunk, src, dst, come, bool(schedule.reduce[last])))
    ways.sort()
    starts = sorted({way[0] for way in ways})
    found = []
    for number, (start, chunk, src, dst, _, reduce) in enumerate(ways):
        there = [
            (w[4], i)
            for i, w in enumerate(ways)
            if w[3] == src and w[4] <= start and (awaiting is Awaiting.STEP or w[1] == chunk)
        ]
        there.sort()
        if awaiting is Awaiting.DATA:
            stored = [at for at, (_, i) in enumerate(there) if not ways[i][5]]
            there = there[stored[-1] :] if stored else there
        after = tuple(i for _, i in there)
        found.append(Message(number, starts.index(start), chunk, src, dst, reduce, after))
    return found


@given(
    rows=ROWS,
    name=st.sampled_from(["full:4", "star"]),
    awaiting=st.sampled_from(Awaiting),
    reduce=st.booleans(),
)
def test_messages_of_a_schedule_wait_for_what_has_come(
    rows: list[tuple[int, int, int, int]], name: str, awaiting: Awaiting, *, reduce: bool
) -> None:
    schedule = timed(STORING if name == "star" else resolve_topology(name), rows)
    if reduce:
        schedule = replace(schedule, reduce=~schedule.reduce)
    assert schedule_messages(schedule, awaiting) == slowly(schedule, awaiting)


def test_forwarded_message_waits_for_its_arrival() -> None:
    ring = resolve_topology("ring:4")
    schedule = timed(ring, [(0, 0, 0, 2)])
    assert schedule.message is not None
    first, second = schedule_messages(schedule, Awaiting.DATA)
    assert (first.src, first.dst, first.after) == (0, second.src, ())
    assert (second.dst, second.after) == (2, (0,))


@given(right(), st.sampled_from(Awaiting))
def test_chunks_that_are_sent_together_are_one_message(
    schedule: Schedule, awaiting: Awaiting
) -> None:
    """The joint run has exactly the dependencies of the separate ones."""
    assume(schedule.num_sends and not relays(schedule))
    found = schedule_messages(schedule, awaiting)
    alone = slowly(schedule, awaiting)
    whole = {(m.step, chunk, m.src, m.dst): m.number for m in found for chunk in m.chunks}
    assert len(whole) == len(alone) == sum(len(m.chunks) for m in found)
    of = [whole[m.step, m.chunk, m.src, m.dst] for m in alone]
    for message in found:
        mine = [m for m, number in zip(alone, of, strict=True) if number == message.number]
        assert message.chunks == tuple(m.chunk for m in mine)
        assert {*message.after} == {of[i] for m in mine for i in m.after}
        assert message.reduce == any(m.reduce for m in mine)
    event(f"{max((len(m.chunks) for m in found), default=0)} together")


def relays(schedule: Schedule) -> bool:
    """Return whether a rank passes a message on."""
    assert schedule.message is not None
    ends = [schedule.topology.links[link].edge for link in schedule.link.tolist()]
    numbered = list(zip(schedule.message.tolist(), ends, strict=True))
    into = {(number, dst) for number, (_, dst) in numbered if dst < schedule.topology.ranks}
    return any((number, src) in into for number, (src, _) in numbered)


def test_ring_that_sends_two_chunks_together_takes_as_long_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = together_around(4, 25_000)
    assert violations(schedule) == []
    ends = like(written(schedule, None), tmp_path, monkeypatch)
    assert max(end or 0 for end in ends) == schedule.finish == replay(schedule).finish == 3 * 2700


def test_ns3_counts_the_bytes_of_all_that_are_sent_together() -> None:
    with pytest.raises(InputError, match="messages of 2147483648 bytes"):
        written(together_around(4, 2**30), None, "network=ns3")
    assert written(together_around(4, 2**30 - 1), None, "network=ns3").files


@pytest.mark.parametrize(
    ("links", "says"), [((0, 4, 5), "a copy in a switch"), ((0, 4), "message")]
)
def test_switches_that_are_not_told_are_rejected(links: tuple[int, ...], says: str) -> None:
    star = around(Switch("copies", copies=True))
    clock = Clock.from_topology(star, KB, tick_ps=1000)
    rows = [(1000 * i, 1000 * (i + 1), 0, link, False) for i, link in enumerate(links)]
    messages = [0] * len(rows) if len(rows) == 3 else None
    schedule = build_schedule(star, named_spec("allgather", 4).at(1), rows, clock, messages)
    with pytest.raises(InputError, match=says):
        written(schedule, None)


def test_links_for_a_switch_are_rejected_unless_it_is_asked_for() -> None:
    machine = resolve_topology("switch:4x2")
    with pytest.raises(InputError, match="give network=Switch"):
        choose_network(machine, "auto")
    network = choose_network(machine, "Switch")
    assert (network.gb_per_s, network.alpha_us) == (50.0, 0.35)
    assert "expect longer times" in network.note
    assert choose_network(resolve_topology("dgx-a100"), "Switch").gb_per_s == 300.0


def budgets(machine: Topology, egress: int, ingress: int) -> Topology:
    return replace(machine, budgets=tuple(per_rank_budgets(machine.edges, egress, ingress)))


@pytest.mark.parametrize(
    "machine",
    [
        budgets(resolve_topology("full:4"), 2, 2),
        budgets(resolve_topology("full:4"), 1, 2),
        budgets(resolve_topology("ring:4"), 1, 1),
        replace(STORING, links=STORING.links[1:]),
        resolve_topology("switch2d:2x2"),
        resolve_topology("dgx1"),
    ],
)
def test_machine_that_is_no_star_is_no_switch(machine: Topology) -> None:
    for told in ("auto", "Switch"):
        with pytest.raises(InputError, match="one bandwidth and one latency"):
            choose_network(machine, told)


def test_chunks_that_take_no_time_are_rejected() -> None:
    algorithm = frontier("ring:4", "allgather")[0]
    chunks = algorithm.collective.chunks
    assert written(algorithm, 25 * chunks).files
    with pytest.raises(InputError, match="less than a nanosecond"):
        written(algorithm, 24 * chunks)


def test_size_that_is_not_the_schedules_is_rejected() -> None:
    schedule = timed(STORING, [(0, 0, 0, 1)])
    assert written(schedule, KB).files == written(schedule, None).files
    with pytest.raises(InputError, match="leave --size out"):
        written(schedule, KB + 1)


def ns3(machine: Topology) -> Topology:
    """Return the machine that is read from the files for ns-3."""
    text = ns3_files(machine, KB)["topology.txt"].decode()
    return importer("ns3").read(text, Hints("read")).topology


def speeds(machine: Topology, latency: float) -> dict[tuple[int, int], tuple[float, float]]:
    """Return the costs of links: GB/s of all lanes together, and a share of the latency."""
    return {
        k.edge: (round(k.lanes * k.gb_per_s, 9), round(k.alpha_us * latency, 9))
        for k in machine.links
    }


@pytest.mark.parametrize("name", ["dgx1", "z52", "ring:4", "mesh:2x3", "switch2d:2x2", "rail:2x2"])
def test_machine_for_ns3_reads_back(name: str) -> None:
    machine = resolve_topology(name)
    read = ns3(machine)
    assert (read.ranks, len(read.switches)) == (machine.ranks, len(machine.switches))
    assert speeds(read, 1) == speeds(machine, 0.5)


@given(topologies())
def test_any_machine_for_ns3_reads_back_or_is_rejected(machine: Topology) -> None:
    costs = {k.edge: (k.lanes * k.gb_per_s, k.alpha_us) for k in machine.links}
    alike = all(costs.get((b, a), cost) == cost for (a, b), cost in costs.items())
    if machine.budgets or not alike:
        with pytest.raises(
            InputError, match=r"budgets that do not model a switch|reverse link has another cost"
        ):
            ns3(machine)
        return
    read = speeds(ns3(machine), 1)
    assert read.keys() == {edge for a, b in costs for edge in ((a, b), (b, a))}
    assert {edge: read[edge] for edge in costs} == speeds(machine, 0.5)


@pytest.mark.parametrize("name", ["switch:4x2", "dgx-a100"])
def test_budgets_for_a_switch_are_one_for_ns3(name: str) -> None:
    machine = resolve_topology(name)
    budget = machine.budgets[0]
    read, rate = ns3(machine), budget.chunks_per_round * 25.0
    assert read.edges == around(Switch("any"), machine.ranks).edges
    assert set(speeds(read, 1).values()) == {(rate, 0.175)}


def test_other_budgets_are_rejected_for_ns3() -> None:
    with pytest.raises(InputError, match="budgets that do not model a switch"):
        ns3(budgets(resolve_topology("full:4"), 1, 2))


def test_ns3_files_describe_the_machine() -> None:
    algorithm = frontier("dgx1", "allgather")[0]
    files = written(algorithm, 48_000 * algorithm.collective.chunks, "network=ns3")
    told = dict(line.split(None, 1) for line in files.files["ns3.txt"].decode().splitlines())
    named = {value for key, value in told.items() if key in {"TOPOLOGY_FILE", "FLOW_FILE"}}
    assert named | {told["TRACE_FILE"]} <= files.files.keys()
    assert told["PACKET_PAYLOAD_SIZE"] == "2000", "40 ns at 50 GB/s"
    assert told["KMIN_MAP"] == "2 200000000000 800 400000000000 800"
    assert json.loads(files.files["logical.json"]) == {"logical-dims": ["8"]}
    assert "network.yml" not in files.files
    options = dict(re.findall(r"--([a-z-]+)=(\S+)", files.command))
    assert options.pop("comm-group-configuration") == "empty"
    assert options.pop("workload-configuration") == "workload"
    assert set(options.values()) <= files.files.keys()
    assert len(options) == 4
    with pytest.raises(InputError, match="counts up to 2147483647"):
        written(algorithm, 2**31 * algorithm.collective.chunks, "network=ns3")


@pytest.mark.peer("SCCL_ASTRA_SIM")
def test_astra_binary_ends_at_our_time(tmp_path: Path) -> None:
    schedule = timed(STORING, list(zip(*(c.tolist() for c in ring_allgather(4)), strict=True)))
    files = written(schedule, None)
    names = ("workload", "system", "network", "remote-memory")
    values = ("workload", "system.json", "network.yml", "memory.json")
    options = [f"--{n}-configuration={v}" for n, v in zip(names, values, strict=True)]
    done = subprocess.run(
        [os.environ["SCCL_ASTRA_SIM"], *options],
        cwd=folder(files, tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert {int(end) for end in re.findall(r"finished, (\d+) cycles", done.stdout)} == {9000}


def test_send_that_its_data_put_behind_another_needs_no_turn() -> None:
    """Chunk 1 comes back over a rank that had it of this one: data imply the order."""
    first = Message(0, 0, 0, 0, 1, reduce=False, after=())
    alike = Message(1, 0, 1, 0, 1, reduce=False, after=())
    back = Message(2, 1, 1, 1, 0, reduce=True, after=(1,))
    behind = Message(3, 2, 1, 0, 1, reduce=False, after=(2,))
    found = order_links([first, alike, back, behind], lambda m: (m.src, m.dst))
    assert found == {1: 0}
