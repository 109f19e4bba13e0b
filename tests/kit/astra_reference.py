"""A program with the interface and rules of ASTRA-sim: traces in, the end of each rank out.

It shares nothing with the simulator or the writer of traces, and needs only Python. Links serve
chunks in the order of arrival. A chunk over several links is complete at each end before it goes
on. Fractions of a nanosecond cost nothing. Events at one nanosecond happen in the order of their
creation. Nodes that become ready together start by number, up or down (ASTRA-sim's order is that of
a hash table).
"""

from __future__ import annotations

import heapq
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

SEND, RECEIVE, COMPUTE = 5, 6, 4
COLLECTIVES = {
    f"{name}-implementation-custom": number
    for name, number in (
        ("all-reduce", 0), ("all-gather", 2), ("all-to-all", 6), ("reduce-scatter", 7)
    )
}  # fmt: skip

Fields = list[tuple[int, int | bytes]]


def fields(data: bytes) -> Fields:
    """Return the numbered fields of a message of protocol buffers: whole numbers and bytes."""
    found: Fields = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        value = varint()
        if key & 7 == 2:
            found.append((key >> 3, data[at : at + value]))
            assert at + value <= len(data)
            at += value
        else:
            assert key & 7 == 0
            found.append((key >> 3, value))
    return found


def varints(data: bytes) -> list[int]:
    """Return whole numbers that follow one another."""
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    return found


class TraceNode(NamedTuple):
    """A node of a trace."""

    number: int
    kind: int
    after: tuple[int, ...]
    micros: int
    attributes: dict[str, int]


def messages(data: bytes) -> list[bytes]:
    """Return the messages of a file, each of which follows its length."""
    found = []
    while data:
        size = next(i for i, byte in enumerate(data) if byte < 128) + 1
        (length,) = varints(data[:size])
        assert size + length <= len(data)
        found.append(data[size : size + length])
        data = data[size + length :]
    return found


def node(data: bytes) -> TraceNode:
    """Return a node."""
    numbers: dict[int, int] = {}
    after: list[int] = []
    attributes: dict[str, int] = {}
    for field, value in fields(data):
        if field == 10:
            (_, name), (kind, number) = fields(bytes(value))
            assert kind in (7, 9, 27, 29), "int32, int64, bool, string"
            if kind != 29:
                attributes[bytes(name).decode()] = int(number)
        elif field in (4, 5):
            after += varints(bytes(value))
        elif isinstance(value, int):
            numbers[field] = value
    micros = numbers.get(7, 0)
    return TraceNode(numbers.get(1, 0), numbers[3], tuple(after), micros, attributes)


def nodes(file: bytes) -> list[TraceNode]:
    """Return the nodes of a file, whose first message describes the file."""
    about, *rest = messages(file)
    assert fields(about)[0] == (1, b"0.0.4")
    return [node(data) for data in rest]


class Machine:
    """Links, which are created at their first use, and future events."""

    def __init__(self, kind: str, ranks: int, bytes_per_ns: float, latency: float) -> None:
        self.kind, self.ranks = kind, ranks
        self.speed, self.latency = bytes_per_ns, latency
        self.now, self.due = 0, {0: deque[Callable[[], None]]()}
        self.times = [0]
        self.queues: dict[tuple[int, int], deque[tuple[int, list[int], Callable[[], None]]]] = {}
        self.busy: set[tuple[int, int]] = set()

    def later(self, delay: int, act: Callable[[], None]) -> None:
        """Let something happen after so many nanoseconds."""
        if self.now + delay not in self.due:
            self.due[self.now + delay] = deque()
            heapq.heappush(self.times, self.now + delay)
        self.due[self.now + delay].append(act)

    def run(self) -> None:
        """Let all happen."""
        while self.times:
            self.now = self.times[0]
            while self.due[self.now]:
                self.due[self.now].popleft()()
            heapq.heappop(self.times)

    def way(self, src: int, dst: int) -> list[int]:
        """Return the nodes on the way."""
        if self.kind == "FullyConnected":
            return [src, dst]
        if self.kind == "Switch":
            return [src, self.ranks, dst]
        assert self.kind == "Ring"
        ahead = (dst - src) % self.ranks
        turn, hops = (1, ahead) if 2 * ahead <= self.ranks else (-1, self.ranks - ahead)
        return [(src + turn * hop) % self.ranks for hop in range(hops + 1)]

    def send(self, size: int, way: list[int], arrived: Callable[[], None]) -> None:
        """Let a chunk come to the first link of its way."""
        if len(way) == 1:
            arrived()
            return
        link = (way[0], way[1])
        queue = self.queues.setdefault(link, deque())
        queue.append((size, way[1:], arrived))
        if link not in self.busy:
            self._serve(link)

    def _serve(self, link: tuple[int, int]) -> None:
        size, way, arrived = self.queues[link].popleft()
        self.busy.add(link)
        self.later(int(self.latency + size / self.speed), lambda: self.send(size, way, arrived))
        self.later(int(size / self.speed), lambda: self._free(link))

    def _free(self, link: tuple[int, int]) -> None:
        self.busy.discard(link)
        if self.queues[link]:
            self._serve(link)


class Rank:
    """One rank, and its nodes that are not done."""

    def __init__(self, number: int, trace: list[TraceNode], *, downwards: bool = False) -> None:
        self.number, self.ended, self.downwards = number, 0, downwards
        self.waits = {n.number: set(n.after) for n in trace}
        self.nodes = {n.number: n for n in trace}
        self.issued: set[int] = set()
        self.receives = {_key(n, n.attributes["comm_src"], number): n.number
                         for n in trace if n.kind == RECEIVE}  # fmt: skip

    def free(self) -> Iterator[TraceNode]:
        """Start all ready nodes and yield them by number."""
        free = [n for n, waits in self.waits.items() if not waits]
        for number in sorted(free, reverse=self.downwards):
            if number not in self.issued:
                self.issued.add(number)
                yield self.nodes[number]

    def done(self, number: int, now: int) -> None:
        """Note that a node is done."""
        del self.waits[number]
        for waits in self.waits.values():
            waits.discard(number)
        self.ended = now


def _key(n: TraceNode, src: int, dst: int) -> tuple[int, ...]:
    return (n.attributes["comm_tag"], n.attributes["comm_size"], src, dst)


def simulate(
    machine: Machine, traces: list[list[TraceNode]], *, downwards: bool = False
) -> list[int | None]:
    """Return the end of each rank in nanoseconds, or None if it never ends."""
    ranks = [Rank(i, trace, downwards=downwards) for i, trace in enumerate(traces)]

    def go_on(rank: Rank, number: int) -> None:
        rank.done(number, machine.now)
        issue(rank)

    def arrived(sender: Rank, sent: TraceNode) -> None:
        go_on(sender, sent.number)
        dst = sent.attributes["comm_dst"]
        received = ranks[dst].receives.get(_key(sent, sender.number, dst))
        if received is not None:
            go_on(ranks[dst], received)

    def issue(rank: Rank) -> None:
        for n in rank.free():
            if n.kind == SEND:
                way = machine.way(rank.number, n.attributes["comm_dst"])
                machine.send(n.attributes["comm_size"], way, partial(arrived, rank, n))
            elif n.kind == COMPUTE:
                machine.later(n.micros * 1000 or 1, partial(go_on, rank, n.number))

    for rank in ranks:
        issue(rank)
    machine.run()
    return [None if rank.waits else rank.ended for rank in ranks]


def replayed(trace: list[TraceNode]) -> int:
    """Return the end of a single rank with the durations of its nodes: ASTRA-sim's replay.

    It does one computation and one call at a time, the lowest number first, next to receives.
    """
    waits = {n.number: set(n.after) for n in trace}
    nodes_by_number = {n.number: n for n in trace}
    now, running = 0, list[tuple[int, int]]()
    while waits:
        busy = {nodes_by_number[number].kind == COMPUTE for _, number in running}
        going = {number for _, number in running}
        for number in sorted(n for n, before in waits.items() if not before and n not in going):
            one = nodes_by_number[number]
            if one.kind == RECEIVE or (one.kind == COMPUTE) not in busy:
                heapq.heappush(running, (now + (one.micros * 1000 or 1), number))
                busy |= set() if one.kind == RECEIVE else {one.kind == COMPUTE}
        now, done = heapq.heappop(running)
        del waits[done]
        for before in waits.values():
            before.discard(done)
    return now


def ends(workload: str, system: str, network: str) -> list[int | None]:
    """Return the end of each rank from the input files of ASTRA-sim, or None if it never ends."""
    found = dict(re.findall(r"(\w+): \[ (\S+) \]", Path(network).read_text()))
    ranks, speed = int(found["npus_count"]), float(found["bandwidth"]) * 2**30 / 10**9
    machine = Machine(found["topology"], ranks, speed, float(found["latency"]))
    told = json.loads(Path(system).read_text())
    if not any(key.endswith("-custom") for key in told):
        return [
            replayed(nodes(Path(f"{workload}.{rank}.et").read_bytes())) for rank in range(ranks)
        ]
    ((key, (prefix,)),) = ((k, v) for k, v in told.items() if k.endswith("-implementation-custom"))
    for rank in range(ranks):
        (whole,) = nodes(Path(f"{workload}.{rank}.et").read_bytes())
        assert (whole.kind, whole.attributes["comm_type"]) == (7, COLLECTIVES[key]), "a collective"
    return simulate(machine, [nodes(Path(f"{prefix}.{i}.et").read_bytes()) for i in range(ranks)])


def main(arguments: list[str]) -> None:
    """Print the output of ASTRA-sim for its input files."""
    given = dict(word.removeprefix("--").split("=", 1) for word in arguments)
    files = (given[f"{name}-configuration"] for name in ("workload", "system", "network"))
    for rank, end in enumerate(ends(*files)):
        if end is not None:
            sys.stdout.write(f"[info] sys[{rank}] finished, {end} cycles, exposed {end} cycles.\n")


if __name__ == "__main__":
    main(sys.argv[1:])
