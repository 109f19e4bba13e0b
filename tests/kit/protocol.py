"""Consecutive calls as processes of small operations, from the protocol's table and real programs.

An operation sets a word, awaits one, or accesses a place of memory. A process is a sequence of
operations: a thread block, or the host of a rank. Two checks examine the same processes:

- :func:`judge` runs them once, with vector clocks. Processes do not branch, words only grow (which
  it checks), and a satisfied wait stays satisfied. So every schedule has the same operations, the
  same store is the earliest that can end a wait, and one run determines for *all* schedules which
  operations are ordered. Two unordered accesses of one place, one of them a write, are a fault. So
  is a deadlock, which then occurs in every schedule.
- :func:`explore` walks through every interleaving and relies on none of this. It is for few
  processes, and shows that the two agree on correct and on faulty programs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from sccl.codegen.ir import Buffer, Instruction, Op, Program, Slot
from sccl.codegen.protocol import PROTOCOL, Mode, Protocol, SendStage, Stage, find_neighbors

Name = tuple[int | str, ...]
"""Name of a word or a place."""


@dataclass(frozen=True, slots=True)
class Set:
    """Store a value in a word."""

    word: Name
    value: int


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until a word holds a value or more."""

    word: Name
    value: int


@dataclass(frozen=True, slots=True)
class Read:
    """Read a place, which should hold the value of an epoch."""

    place: Name
    epoch: int


@dataclass(frozen=True, slots=True)
class Write:
    """Write the value of an epoch into a place. A packet also carries its number on the wire."""

    place: Name
    epoch: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Wait until a packet holds a number, which should be that of an epoch, and read it."""

    place: Name
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class Last:
    """Increment a counter. The process that reaches ``total`` writes into a place and resets it."""

    place: Name
    epoch: int
    total: int


Operation = Set | Await | Read | Write | Match | Last
Processes = dict[tuple[int, str], list[Operation]]
"""Processes by rank and role."""


@dataclass(frozen=True)
class Call:
    """A call of all ranks.

    Attributes:
        pieces: epochs that it takes.
        units: of the longest chunk, which slices share.
        empty: parts of a block that have no bytes.
        slices: thread blocks that share each link.
    """

    program: Program
    mode: Mode = Mode.EAGER
    pieces: int = 1
    units: int = 1
    in_place: bool = False
    empty: frozenset[int] = frozenset()
    slices: int = 1

    def is_empty(self, line: Instruction) -> bool:
        """Return whether an instruction is about a part that has no bytes."""
        return self.program.layout.part(line.chunk) in self.empty


@dataclass(frozen=True)
class Model:
    """Processes of consecutive calls, with options that break one part of the protocol.

    Attributes:
        bundle: Programs whose neighbors have windows, by default those of the calls.
        apart: Whether every slice announces itself when its own blocks have left.
        wrap: Number of epochs after which numbers of packets start again.
        first: The first epoch.
    """

    calls: Sequence[Call]
    protocol: Protocol = PROTOCOL
    bundle: Sequence[Program] = ()
    apart: bool = False
    wrap: int = 1 << 32
    first: int = 1
    unmapped: set[tuple[int, int]] = field(default_factory=set)

    @property
    def ranks(self) -> int:
        """Return how many ranks there are."""
        return len(self.calls[0].program.ranks)

    def processes(self) -> Processes:
        """Return the operations of every thread block and host."""
        found: Processes = defaultdict(list)
        programs = self.bundle or [call.program for call in self.calls]
        near = find_neighbors(programs, self.ranks)
        epoch = self.first
        for number, call in enumerate(self.calls, 1):
            for rank in range(self.ranks):
                self._call(found, near, number, call, rank, epoch)
            epoch += call.pieces
        return dict(found)

    def _call(
        self,
        found: Processes,
        near: Sequence[frozenset[int]],
        number: int,
        call: Call,
        rank: int,
        first: int,
    ) -> None:
        """Append the operations of a rank in a call: its host, then the blocks of its kernel."""
        own = call.program.ranks[rank]
        blocks = max(1, len(own.blocks))  # a rank without work still announces itself
        team = [(s, b) for s in range(call.slices) for b in range(blocks)]
        host = found[rank, "host"]
        slots = _slots(call.program, rank)
        for piece in range(call.pieces):
            at = _Place(self, call, rank, first + piece, piece, 0)
            for s in range(call.slices):
                at.slice = s
                host += [
                    Write(p, at.epoch) for slot in slots for p in at.places(rank, slot, aside=False)
                ]
                if call.in_place:
                    for index in own.saves:
                        slot = Slot(Buffer.INPUT, index)
                        host += [Read(p, at.epoch) for p in at.places(rank, slot, aside=False)]
                        host += [Write(p, at.epoch) for p in at.places(rank, slot)]
        host.append(Set(("launched", rank), number))
        for s, b in team:
            lines = found[rank, f"slice {s}, block {b}"]
            lines += [Await(("launched", rank), number), Read(("ended", rank), first - 1)]
            for piece in range(call.pieces):
                at = _Place(self, call, rank, first + piece, piece, s)
                lines += self._enter(call, near, at, blocks, b)
                if own.blocks:
                    lines += self._run(call, near, at, b)
            total = len(team) if self.protocol.last else 1
            lines += [Last(("ended", rank), first + call.pieces - 1, total)]
            lines += [Set(("done", rank, s, b), number)]
        host += [Await(("done", rank, s, b), number) for s, b in team]
        for piece in range(call.pieces):
            for s in range(call.slices):
                at = _Place(self, call, rank, first + piece, piece, s)
                layout = call.program.layout
                for i in range(len(layout.outputs[rank]) * layout.parts):
                    if i % layout.parts not in call.empty:
                        slot = Slot(Buffer.OUTPUT, i)
                        host += [Read(p, at.epoch) for p in at.places(rank, slot)]

    def _enter(
        self, call: Call, near: Sequence[frozenset[int]], at: _Place, blocks: int, block: int
    ) -> Iterator[Operation]:
        rank, e = at.rank, at.epoch
        if at.piece:
            yield Set(("finished", rank, at.slice, block), e - 1)
        if block or (at.slice and not self.apart):
            if self.protocol.heeded and self._cleared(e + 1):
                yield Await(("entered", rank, rank, at.slice if self.apart else 0), e)
            return
        for stage in self.protocol.entry:
            match stage:
                case Stage.LEAVE if at.piece:  # else the kernel before it has ended
                    for s in [at.slice] if self.apart else range(call.slices):
                        yield from (Await(("finished", rank, s, b), e - 1) for b in range(blocks))
                case Stage.CLEAR if self._cleared(e + 1):
                    for place in sorted(self._packets(rank, (e + 1) % self.protocol.copies)):
                        yield Write(place, e, -1)
                case Stage.OFFER if call.mode is Mode.DIRECT:
                    yield from (Write(("offered", peer, rank), e) for peer in sorted(near[rank]))
                case Stage.ANNOUNCE:
                    for peer in sorted({*near[rank], rank}):
                        yield Set(("entered", peer, rank, at.slice if self.apart else 0), e)
                case _:
                    pass

    def _cleared(self, epoch: int) -> bool:
        """Return whether it is the first epoch of its parity since numbers have begun anew."""
        return epoch % self.wrap < self.protocol.copies

    def _packets(self, rank: int, parity: int) -> set[Name]:
        """Return the packets that a rank has in its window for one parity."""
        return {
            ("packet", rank, parity, told[1], unit)
            for call in self.calls
            if call.mode is Mode.PACKETS
            for own in call.program.ranks
            for _, line in own.instructions()
            if (told := line.sets()) is not None and told[0] == rank and line.op is not Op.CREDIT
            for unit in range(call.units)
        }

    def _run(
        self, call: Call, near: Sequence[frozenset[int]], at: _Place, number: int
    ) -> Iterator[Operation]:
        """Yield the operations of a block in an epoch."""
        own = call.program.ranks[at.rank]
        marks = {address for _, line in own.instructions() for address in line.after}
        opened: set[int] = set()
        for index, line in enumerate(own.blocks[number].instructions):
            empty = call.is_empty(line)
            for b, i in line.after:
                if not empty and not call.is_empty(own.blocks[b].instructions[i]):
                    yield Await(("progress", at.rank, at.slice, b), at.epoch << 16 | i)
            for peer in (line.peer, line.next_peer):
                if peer is not None and peer not in near[at.rank]:
                    self.unmapped.add((at.rank, peer))
            yield from self._line(call, at, line, opened)
            if (number, index) in marks and not empty:
                yield Set(("progress", at.rank, at.slice, number), at.epoch << 16 | index)

    def _line(
        self, call: Call, at: _Place, line: Instruction, opened: set[int]
    ) -> Iterator[Operation]:
        empty = call.is_empty(line)
        if (told := line.sets()) is not None:
            for stage in self.protocol.send:
                if stage is SendStage.OPEN:
                    yield from self._open(call, at, told[0], opened)
                elif not empty:
                    yield from self._send(call, at, line, stage)
        elif not empty:
            yield from self._receive(call, at, line)
            read = at.reads(line)
            written = [p for slot in line.writes() for p in at.places(at.rank, slot)]
            if line.op is not Op.COPY or read != written:  # machines copy nothing onto itself
                yield from (Read(p, at.epoch) for p in read)
                yield from (Write(p, at.epoch) for p in written)

    def _open(self, call: Call, at: _Place, peer: int, opened: set[int]) -> Iterator[Operation]:
        if peer not in opened:
            opened.add(peer)
            word = ("entered", at.rank, peer, at.slice if self.apart else 0)
            yield Await(word, at.epoch - self.protocol.behind[call.mode])

    def _send(
        self, call: Call, at: _Place, line: Instruction, stage: SendStage
    ) -> Iterator[Operation]:
        e, told, packets = at.epoch, line.sets(), call.mode is Mode.PACKETS
        assert told is not None
        peer, flag = told
        match stage:
            case SendStage.CREDIT if line.credit is not None:
                yield Await(at.flag(at.rank, line.credit), e)
            case SendStage.WRITE if line.dst is not None:
                yield from self._receive(call, at, line)
                yield from (Read(p, e) for p in at.reads(line))
                if line.dst.buffer is Buffer.OUTPUT:
                    yield Read(("offered", at.rank, peer), e)
                if packets:
                    yield from (Write(p, e, e % self.wrap) for p in at.packets(peer, flag))
                else:
                    yield from (Write(p, e) for p in at.places(peer, line.dst))
            case SendStage.FLAG if line.op is Op.CREDIT or not packets:
                yield Set(at.flag(peer, flag), e)
            case _:
                pass

    def _receive(self, call: Call, at: _Place, line: Instruction) -> Iterator[Operation]:
        for peer, flag, landed in line.receives():
            if call.mode is Mode.PACKETS:
                number = at.epoch % self.wrap
                yield from (Match(p, at.epoch, number) for p in at.packets(at.rank, flag))
                if not at.in_registers(line):
                    yield from (Write(p, at.epoch) for p in at.places(at.rank, landed))
                # The announcement of the peer determines the program of its packets.
                yield Await(("entered", at.rank, peer, at.slice if self.apart else 0), at.epoch)
            else:
                yield Await(at.flag(at.rank, flag), at.epoch)


@dataclass
class _Place:
    """Places of the slots of a slice in an epoch."""

    model: Model
    call: Call
    rank: int
    epoch: int
    piece: int
    slice: int

    def _units(self) -> range:
        first, end = (self.call.units * s // self.call.slices for s in (self.slice, self.slice + 1))
        return range(first, end)

    def places(self, rank: int, slot: Slot, *, aside: bool = True) -> list[Name]:
        """Return the places of a slot: of scratch the units of this slice, whose cuts may move."""
        if slot.buffer is Buffer.SCRATCH:
            parity = self.epoch % self.model.protocol.copies
            return [("scratch", rank, parity, slot.index, unit) for unit in self._units()]
        program, index = self.call.program, slot.index
        if slot.buffer is Buffer.INPUT and self.call.in_place:
            if aside and index in program.ranks[rank].saves:
                return [("saved", rank, self.piece, self.slice, index)]
            shared = program.layout.aliased(rank)
            if index in shared:
                return [("output", rank, self.piece, self.slice, shared[index])]
        return [(slot.buffer.value, rank, self.piece, self.slice, index)]

    def flag(self, rank: int, number: int | None) -> Name:
        """Return a flag of this slice."""
        assert number is not None
        return ("flag", rank, self.epoch % self.model.protocol.copies, self.slice, number)

    def packets(self, rank: int, flag: int) -> list[Name]:
        """Return the packets of a transfer, which has as many slots of them as it has flags."""
        parity = self.epoch % self.model.protocol.copies
        return [("packet", rank, parity, flag, unit) for unit in self._units()]

    def in_registers(self, line: Instruction) -> bool:
        """Return whether an arrival stays in registers and is not written into its slot."""
        return self.call.mode is Mode.PACKETS and line.op in (Op.RECV_REDUCE, Op.RECV_REDUCE_SEND)

    def reads(self, line: Instruction) -> list[Name]:
        """Return the places that an instruction reads here."""
        left_out = line.lands() if self.in_registers(line) else ()
        slots = (slot for slot in line.reads() if slot not in left_out)
        return [p for slot in slots for p in self.places(self.rank, slot)]


def _slots(program: Program, rank: int) -> list[Slot]:
    """Return the slots of a rank's input, which its caller fills."""
    blocks = len(program.layout.inputs[rank]) * program.layout.parts
    return [Slot(Buffer.INPUT, i) for i in range(blocks)]


def judge(processes: Processes, choose: Callable[[int], int] = lambda _: 0) -> set[str]:
    """Return the faults of any schedule, found by one run (see the module).

    Args:
        choose: Function that picks one of the processes that can move.
    """
    run = _Run(processes)
    if stuck := run.to_its_end(choose):
        run.wrong.add(f"deadlock: {' and '.join(map(str, stuck))}")
    return run.wrong


def faults_after_death(
    processes: Processes, dead: int, after: int
) -> tuple[set[str], dict[int, set[int]]]:
    """Return the faults if a rank dies, and the final wait graph.

    Args:
        after: Number of operations of its processes before its death.
    """
    run = _Run(processes, dead, after)
    stuck = run.to_its_end(lambda _: 0)
    setters: dict[Name, set[int]] = defaultdict(set)
    for (rank, _), own in processes.items():
        for op in own:
            if isinstance(op, Set | Write):
                setters[_what(op)].add(rank)
    found: dict[int, set[int]] = defaultdict(set)
    for (rank, _), op in stuck.items():
        if rank != dead:
            found[rank] |= setters[_what(op)] - {rank}
    return run.wrong, dict(found)


class _Run:
    def __init__(self, processes: Processes, dead: int | None = None, lives: int = 0) -> None:
        self.dead, self.lives = dead, lives
        self.names = list(processes)
        self.code = [processes[name] for name in self.names]
        places = {op.place for own in self.code for op in own if isinstance(op, Last)}
        # The last arrival depends on the schedule, so it is a separate process, ordered after all.
        self.counter = {
            place: len(self.names) + i for i, place in enumerate(sorted(places, key=str))
        }
        size = len(self.names) + len(places)
        self.clock = [[0] * size for _ in range(size)]
        self.at = [0] * len(self.names)
        self.stores: dict[Name, list[tuple[int, int, list[int]]]] = defaultdict(list)
        self.waiting: dict[Name, list[int]] = defaultdict(list)
        self.written: dict[Name, list[tuple[int, int, int, int | None]]] = defaultdict(list)
        self.read: dict[Name, dict[int, int]] = defaultdict(dict)
        self.counted: Counter[Name] = Counter()
        self.wrong: set[str] = set()

    def to_its_end(self, choose: Callable[[int], int]) -> dict[tuple[int, str], Operation]:
        """Return the operations that are not done, by process."""
        ready = list(range(len(self.names)))
        while ready:
            which = choose(len(ready))
            who = ready[which]
            ready[which] = ready[-1]
            ready.pop()
            while self.at[who] < len(self.code[who]):
                op = self.code[who][self.at[who]]
                if self.names[who][0] == self.dead:
                    if not self.lives:
                        break
                    self.lives -= 1
                if not self._done(who, op):
                    self.waiting[_what(op)].append(who)
                    break
                self.at[who] += 1
                if isinstance(op, Set | Write):
                    ready += self.waiting.pop(_what(op), [])
        return {
            name: own[at]
            for name, own, at in zip(self.names, self.code, self.at, strict=True)
            if at < len(own)
        }

    def _done(self, who: int, op: Operation) -> bool:
        """Do an operation, unless it has to wait."""
        clock = self.clock[who]
        match op:
            case Set(word, value):
                stores = self.stores[word]
                if stores:
                    before, other, then = stores[-1]
                    if clock[other] < then[other]:
                        self.wrong.add(f"{word} is set to {before} and {value} in any order")
                    if before >= value:
                        self.wrong.add(f"{word} goes back from {before} to {value}")
                clock[who] += 1
                stores.append((value, who, clock.copy()))
            case Await(word, value):
                if value <= 0:
                    return True
                found = next((then for v, _, then in self.stores[word] if v >= value), None)
                if found is None:
                    return False
                _join(clock, found)
            case Read(place, epoch):
                self._touch(who, place, writes=False)
                self._see(place, epoch)
            case Write(place, epoch, number):
                self._touch(who, place, writes=True)
                self._put(who, place, epoch, number)
            case Match(place, epoch, number):
                return self._matched(who, op)
            case Last(place, epoch, total):
                self.counted[place] += 1
                counter = self.counter[place]
                clock[who] += 1
                _join(self.clock[counter], clock)
                if self.counted[place] == total:
                    self.counted[place] = 0
                    self._touch(counter, place, writes=True)
                    self._put(counter, place, epoch, None)
                    clock[counter] = self.clock[counter][counter]
        return True

    def _put(self, who: int, place: Name, epoch: int, number: int | None) -> None:
        clock = self.clock[who]
        clock[who] += 1
        if number is None:
            self.written[place] = [(epoch, who, clock[who], None)]
        else:  # a packet, which is a word, too
            self.written[place].append((epoch, who, clock[who], number))
            self.stores[place].append((number, who, clock.copy()))

    def _touch(self, who: int, place: Name, *, writes: bool) -> None:
        """Check that an access is in order with all that it must not meet, and note it."""
        clock = self.clock[who]
        for epoch, other, then, _ in self.written[place][-1:]:
            if clock[other] < then:
                what = "written" if writes else "read"
                self.wrong.add(f"{place} is {what} and written (epoch {epoch}) in any order")
        if not writes:
            clock[who] += 1
            self.read[place][who] = clock[who]
            return
        for other, then in self.read.pop(place, {}).items():
            if clock[other] < then:
                self.wrong.add(f"{place} is written and read in any order")

    def _see(self, place: Name, epoch: int) -> None:
        last = self.written[place][-1][0] if self.written[place] else 0
        if last != epoch:
            self.wrong.add(f"{place}: what is of epoch {last} is read in epoch {epoch}")

    def _matched(self, who: int, op: Match) -> bool:
        """Take a packet: the first visible one of its number has to be the right one.

        All writes of a packet are ordered. Some schedule shows the reader any write that is not
        certainly older than its knowledge, from the last of these on.
        """
        clock, packets = self.clock[who], self.written[op.place]
        known = [n for n, (_, other, then, _) in enumerate(packets) if clock[other] >= then]
        if not known and op.number == 0:
            self.wrong.add(f"{op.place}: memory that was never written is taken for a packet")
        may_be_seen = range(known[-1] if known else 0, len(packets))
        found = next((n for n in may_be_seen if packets[n][3] == op.number), None)
        if found is None:
            return False
        if packets[found][0] != op.epoch:
            epoch = packets[found][0]
            self.wrong.add(f"{op.place}: a packet of epoch {epoch} is taken in epoch {op.epoch}")
        _join(clock, self.stores[op.place][found][2])
        self._touch(who, op.place, writes=False)
        return True


def _join(clock: list[int], other: list[int]) -> None:
    clock[:] = map(max, clock, other)


def explore(processes: Processes) -> set[str]:
    """Return the faults of any interleaving, by exploration of all of them.

    If the next operation of a process is independent of all future operations of the others, only
    it is explored next: it can be moved before them without an effect. This also holds for a
    satisfied wait, because words only grow. All other operations are explored in every order.
    """
    return _Walk(processes).wrong


class _Walk:
    def __init__(self, processes: Processes) -> None:
        self.code = list(processes.values())
        names = dict.fromkeys(_what(op) for own in self.code for op in own)
        self.number = {name: n for n, name in enumerate(names)}
        self.where: list[dict[Name, list[int]]] = [defaultdict(list) for _ in self.code]
        for own, where in zip(self.code, self.where, strict=True):
            for n, op in enumerate(own):
                where[_what(op)].append(n)
        self.wrong: set[str] = set()
        start: _State = ((0,) * len(self.code), ((0, 0, 0),) * len(self.number))
        seen = {start}
        todo = [start]
        while todo:
            for after in self._after(*todo.pop()):
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
            assert len(seen) < 1_000_000, "too many states to walk through"

    def _after(self, at: tuple[int, ...], memory: tuple[_Held, ...]) -> Iterator[_State]:
        moves = []
        for who, own in enumerate(self.code):
            if at[who] == len(own):
                continue
            op = own[at[who]]
            held = memory[self.number[_what(op)]]
            if isinstance(op, Await) and held[0] < op.value:
                continue
            if isinstance(op, Match) and held[1] != op.number:
                continue
            moves.append((who, op))
            if isinstance(op, Await) or not self._met(who, op, at):
                moves = [moves[-1]]
                break
        if not moves and any(n < len(own) for n, own in zip(at, self.code, strict=True)):
            self.wrong.add("deadlock")
        for (_, op), (_, other) in combinations(moves, 2):
            if _what(op) == _what(other) and _meet(op, other):
                count = memory[self.number[_what(op)]][2] + 1  # of the last arrival
                if all(not isinstance(o, Last) or o.total == count for o in (op, other)):
                    self.wrong.add(f"{op} and {other} at the same time")
        for who, op in moves:
            i = self.number[_what(op)]
            held = self._changed(op, memory[i])
            yield (*at[:who], at[who] + 1, *at[who + 1 :]), (*memory[:i], held, *memory[i + 1 :])

    def _met(self, who: int, op: Operation, at: tuple[int, ...]) -> bool:
        """Return whether another process will do something in which the order matters."""
        what = _what(op)
        return any(
            _meet(op, self.code[peer][n])
            for peer, where in enumerate(self.where)
            if peer != who
            for n in where.get(what, ())
            if n >= at[peer]
        )

    def _changed(self, op: Operation, held: _Held) -> _Held:
        """Return a place or word after an operation."""
        value, number, count = held
        match op:
            case Set(word, new):
                if new < value:
                    self.wrong.add(f"{word} goes back from {value} to {new}")
                return (new, number, count)
            case Read(place, epoch) | Match(place, epoch):
                if value != epoch:
                    self.wrong.add(f"{place}: what is of epoch {value} is read in epoch {epoch}")
            case Write(_, epoch, new_number):
                return (epoch, number if new_number is None else new_number, count)
            case Last(_, epoch, total):
                return (epoch, number, 0) if count + 1 == total else (value, number, count + 1)
            case _:
                pass
        return held


_Held = tuple[int, int, int]
"""Content of a word or place: a value, the number of a packet, a count."""
_State = tuple[tuple[int, ...], tuple[_Held, ...]]
"""Position of every process, and the memory."""


def _what(op: Operation) -> Name:
    return op.word if isinstance(op, Set | Await) else op.place


def _meet(op: Operation, other: Operation) -> bool:
    """Return whether it matters which of two operations on one word or place comes first."""
    alike = (Await, Read | Match, Last)  # these commute
    if any(isinstance(op, kind) and isinstance(other, kind) for kind in alike):
        return False
    return not isinstance(op, Await) and not isinstance(other, Await)
