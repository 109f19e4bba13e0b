"""An independent run of an MSCCL++ plan: threads and ports move at random, through several calls.

It shares nothing with the reader's graph and shapes: a plan is JSON, memory is a dictionary of
words, a thread block is two threads that synchronize at ``nop`` alone. Calls follow one another on
each rank without waiting for other ranks, as on a GPU, and inputs change in between.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator
from typing import Any

Json = dict[str, Any]
Cell = tuple[int, str, int]
Ready = Callable[[], bool]

THREADS = 2
CALLS = 3
HOLD, LIKED = 0.02, 0.9
PACKETS = {"ppkt", "rppkt", "upkt", "cpkt", "repkt", "respkt"}

READ, ADDED = {"rppkt", "upkt"}, {"repkt", "respkt"}
WRITTEN, SENT = {"ppkt", "rppkt", "cpkt"}, {"respkt"}
"""Operations of whose sources and destinations all, or all but the first, are packets."""


def is_packet(name: str, index: int, every: set[str], later: set[str]) -> bool:
    """Return whether a source or a destination of an operation is packets."""
    return name in every or (index > 0 and name in later)


def always() -> bool:
    """Return True: nothing is waited for."""
    return True


SOME = 6
"""Threads that are asked whether they can move, before all are."""


class Run:
    """State of a run of a plan.

    Attributes:
        words: Number of words of a chunk.
        memory: Numbers, and packets in two cells as (flag, number).
        given: Signals by (kind, source, destination, channel).
        queues: Pending requests of ports, by (rank, channel).
    """

    def __init__(self, plan: Json, words: int) -> None:
        self.plan, self.words = plan, words
        self.gpus: list[Json] = plan["gpus"]
        self.memory: dict[Cell, Any] = {}
        self.given: Counter[tuple[str, int, int, int]] = Counter()
        self.taken: Counter[tuple[str, int, int, int]] = Counter()
        self.queues: dict[tuple[int, int], deque[Callable[[], None]]] = defaultdict(deque)
        self.met: Counter[tuple[int, int]] = Counter()
        self.call = [0] * len(self.gpus)
        self.right = True
        self.threads: dict[tuple[int, int, int], Iterator[Ready]] = {}
        self.ready: dict[tuple[int, int, int], Ready] = {}
        for rank in range(len(self.gpus)):
            self.begin(rank)

    def begin(self, rank: int) -> None:
        """Let a rank's next call begin, with other inputs, and outputs that hold nothing."""
        self.call[rank] += 1
        gpu = self.gpus[rank]
        for index in range(gpu["output_chunks"] * self.words):
            self.memory[self.at(rank, "o", index)] = 0
        for index in range(gpu["input_chunks"] * self.words):
            chunk = index // self.words
            self.memory[self.at(rank, "i", index)] = self.value(self.call[rank], rank, chunk)
        for b in range(len(gpu["threadblocks"])):
            for t in range(THREADS):
                self.threads[rank, b, t] = self.thread(rank, b, t)
                self.ready[rank, b, t] = always

    def value(self, call: int, rank: int, chunk: int) -> int:
        """Return the input of a chunk of a rank: a unique power of two."""
        total: int = self.gpus[0]["input_chunks"]
        place = (call * len(self.gpus) + rank) * total + chunk
        return 1 << place

    def wanted(self, rank: int, index: int) -> int:
        """Return the expected output of a chunk of a rank."""
        ranks, gpu, call = len(self.gpus), self.gpus[rank], self.call[rank]
        match self.plan["collective"]:
            case "allreduce":
                return sum(self.value(call, r, index) for r in range(ranks))
            case "allgather":
                each = gpu["input_chunks"]
                return self.value(call, index // each, index % each)
            case "alltoall":
                each = gpu["input_chunks"] // ranks
                return self.value(call, index // each, rank * each + index % each)
            case _:
                each = gpu["output_chunks"]
                return sum(self.value(call, r, rank * each + index) for r in range(ranks))

    def end(self, rank: int) -> None:
        """Look at a rank's output as its call ends."""
        for index in range(self.gpus[rank]["output_chunks"] * self.words):
            got = self.memory[self.at(rank, "o", index)]
            self.right &= got == self.wanted(rank, index // self.words)

    def at(self, rank: int, buffer: str, index: int) -> Cell:
        """Return the cell of a word of data."""
        gpu = self.gpus[rank]
        if self.plan["inplace"] and gpu["input_chunks"] < gpu["output_chunks"] and buffer == "i":
            return (rank, "o", index + rank * gpu["input_chunks"] * self.words)
        if self.plan["inplace"] and gpu["input_chunks"] > gpu["output_chunks"] and buffer == "o":
            return (rank, "i", index + rank * gpu["output_chunks"] * self.words)
        if self.plan["inplace"] and buffer == "i" and gpu["input_chunks"] == gpu["output_chunks"]:
            return (rank, "o", index)
        return (rank, buffer, index)

    def half(self, rank: int) -> int:
        """Return where the half of scratch begins that a rank's call uses."""
        if not self.plan["use_double_scratch_buffer"] or self.call[rank] % 2:
            return 0
        return int(2 * self.gpus[rank]["scratch_chunks"] * self.words)

    def cells(self, rank: int, b: int, op: Json, part: Json, *, packets: bool) -> list[Cell]:
        """Return the cells of the words that an operation's part is about."""
        to, kind = rank, part.get("type")
        if "buffer_id" in part:
            refs = self.gpus[rank]["threadblocks"][b]["remote_buffer_refs"]
            of_kind = (r for r in refs if r["access_channel_type"] == op["channel_type"])
            ids = [i for ref in of_kind for i in ref["remote_buffer_ids"]]
            remote = self.gpus[rank]["remote_buffers"][ids[part["buffer_id"]]]
            to, kind = remote["rank"], remote["type"]
        size = part["size"] * self.words
        group = op.get("tbg_info") or {"tb_id": 0, "tbg_size": 1}
        first = part["index"] * self.words + size * group["tb_id"] // group["tbg_size"]
        own = range(first, first + size // group["tbg_size"])
        if kind != "s":
            return [self.at(to, str(kind), i) for i in own]
        base = self.half(rank)
        return [(to, "s", base + (2 * i if packets else i)) for i in own]

    def peers(self, rank: int, b: int, op: Json) -> list[tuple[int, int, int]]:
        """Return the channel, the peer, and which of those between both, of each of an op's."""
        gpu, kind = self.gpus[rank], op["channel_type"]
        ends = [p for c in gpu["channels"] if c["channel_type"] == kind for p in c["connected_to"]]
        refs = gpu["threadblocks"][b]["channels"]
        own = [i for ref in refs if ref["channel_type"] == kind for i in ref["channel_ids"]]
        used = [own[i] for i in op.get("channel_ids", ())]
        return [(i, ends[i], ends[:i].count(ends[i])) for i in used]

    def thread(self, rank: int, b: int, t: int) -> Iterator[Ready]:
        """Yield the condition of each move of a thread."""
        for index, op in enumerate(self.gpus[rank]["threadblocks"][b]["ops"]):
            name, ported = op["name"], op.get("channel_type") == "port"
            if name == "nop":
                yield from self.meet(rank, b)
            elif name in {"wait", "rlxwait"}:
                for _, peer, which in self.peers(rank, b, op)[t::THREADS]:
                    key = (op["channel_type"], peer, rank, which)
                    yield lambda key=key: self.given[key] > self.taken[key]  # type: ignore[misc]
                    self.taken[key] += 1
            elif ported:
                yield from self.push(rank, b, t, op)
            elif name in {"signal", "rlxsignal"}:
                for _, peer, which in self.peers(rank, b, op)[t::THREADS]:
                    yield always
                    self.given[op["channel_type"], rank, peer, which] += 1
            else:
                yield from self.words_of(rank, b, (t, index), op)

    def meet(self, rank: int, b: int) -> Iterator[Ready]:
        """Wait until all threads of the thread block have come so far."""
        self.met[rank, b] += 1
        until = -(-self.met[rank, b] // THREADS) * THREADS
        yield lambda: self.met[rank, b] >= until

    def push(self, rank: int, b: int, t: int, op: Json) -> Iterator[Ready]:
        """Queue requests at ports, and wait for those to be flushed."""
        name, peers = op["name"], self.peers(rank, b, op)
        source: list[Cell] = []
        if name == "rppkt":
            source = self.cells(rank, b, op, op["src_buff"][0], packets=True)
            for cell in source[t::THREADS]:
                yield lambda cell=cell: self.has_come(cell, self.call[rank])  # type: ignore[misc]
            yield from self.meet(rank, b)
        for i in range(t, len(peers), THREADS):
            channel, peer, which = peers[i]
            queue = self.queues[rank, channel]
            yield always
            if name in {"put", "pws", "pwsf", "rppkt"}:
                if name != "rppkt":
                    source = self.cells(rank, b, op, op["src_buff"][i], packets=False)
                target = self.cells(rank, b, op, op["dst_buff"][i], packets=name == "rppkt")
                for src, dst in zip(source, target, strict=True):
                    queue.append(lambda src=src, dst=dst: self.copy(src, dst))  # type: ignore[misc]
            if name in {"signal", "rlxsignal", "pws", "pwsf"}:
                key = ("port", rank, peer, which)
                queue.append(lambda key=key: self.given.update([key]))  # type: ignore[misc]
            if name in {"pwsf", "flush"}:
                yield lambda queue=queue: not queue  # type: ignore[misc]

    def copy(self, src: Cell, dst: Cell) -> None:
        """Move a word."""
        self.memory[dst] = self.memory.get(src)

    def words_of(
        self, rank: int, b: int, who: tuple[int, int], op: Json
    ) -> Generator[Ready, None, None]:
        """Do a thread's words: of packets always the same, else those that another had before."""
        name, (t, index) = op["name"], who
        shift = 0 if name in PACKETS else index
        source = [
            self.cells(rank, b, op, p, packets=is_packet(name, i, READ, ADDED))
            for i, p in enumerate(op["src_buff"])
        ]
        target = [
            self.cells(rank, b, op, p, packets=is_packet(name, i, WRITTEN, SENT))
            for i, p in enumerate(op["dst_buff"])
        ]
        jobs: list[tuple[list[list[Cell]], list[list[Cell]]]] = [(source, target)]
        if name in {"put", "ppkt", "copy", "upkt", "cpkt"}:
            jobs = [([src], [dst]) for src, dst in zip(source, target, strict=True)]
        for come, go in jobs:
            for w in range(len(come[0])):
                if (w + shift) % THREADS != t:
                    continue
                total = 0
                for i, cells in enumerate(come):
                    packet = is_packet(name, i, READ, ADDED)
                    total += yield from self.read(rank, cells[w], packet=packet)
                for i, cells in enumerate(go):
                    yield always
                    packet = is_packet(name, i, WRITTEN, SENT)
                    self.write(rank, cells[w], total, packet=packet)

    def read(self, rank: int, cell: Cell, *, packet: bool) -> Generator[Ready, None, int]:
        """Return a word, of a packet when it has come."""
        if packet:
            yield lambda: self.has_come(cell, self.call[rank])
            return int(self.memory[cell][1])
        yield always
        found = self.memory.get(cell, 0)
        self.right &= isinstance(found, int)
        return found if isinstance(found, int) else 0

    def has_come(self, cell: Cell, flag: int) -> bool:
        """Return whether a packet of a call is there."""
        found = self.memory.get(cell, 0)
        return isinstance(found, tuple) and found[0] == flag

    def write(self, rank: int, cell: Cell, value: int, *, packet: bool) -> None:
        """Keep a word, or a packet of it."""
        self.memory[cell] = (self.call[rank], value) if packet else value
        if packet:
            self.memory[cell[0], cell[1], cell[2] + 1] = "the rest of a packet"

    def move(self, key: tuple[int, int, int]) -> None:
        """Move a thread. The last one of its rank ends the call and begins the next."""
        found = next(self.threads[key], None)
        if found is not None:
            self.ready[key] = found
            return
        del self.threads[key], self.ready[key]
        rank = key[0]
        if not any(other[0] == rank for other in self.threads):
            self.end(rank)
            if self.call[rank] < CALLS:
                self.begin(rank)


def is_right(plan: Json, seed: int, words: int) -> bool:
    """Return whether all calls of a run end with the expected outputs.

    From time to time one rank is preferred, so that it runs ahead of the others.

    Args:
        words: Number of words of a chunk, which slices divide.
    """
    draw = random.Random(seed)  # noqa: S311 - the same run every time
    run, favourite = Run(plan, words), -1
    while run.right:
        ports = [queue for queue in run.queues.values() if queue]
        if draw.random() < HOLD:
            favourite = draw.randrange(len(run.gpus))
        liked = [key for key, ready in run.ready.items() if key[0] == favourite and ready()]
        if liked and draw.random() < LIKED:
            run.move(draw.choice(liked))
            continue
        if not ports or draw.random() >= LIKED / 2:
            thread = any_ready(run, draw)
            if thread is not None:
                run.move(thread)
                continue
            if not ports:
                break
        draw.choice(ports).popleft()()
    return run.right and not run.threads


def any_ready(run: Run, draw: random.Random) -> tuple[int, int, int] | None:
    """Return a uniformly random movable thread, or None if there is none.

    Most threads can move, so random probes are faster than a scan of all.
    """
    threads = list(run.ready)
    for _ in threads[:SOME]:
        if run.ready[key := draw.choice(threads)]():
            return key
    can = [key for key in threads if run.ready[key]()]
    return draw.choice(can) if can else None
