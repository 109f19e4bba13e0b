"""Convert MSCCL++ plans to graphs of their operations: dependencies, and contents of buffers.

A channel connects two ranks: the k-th of a kind at one rank for the other is the k-th at the other
rank for the first. It counts signals in each direction: the n-th wait ends after n signals, from
any sender. Slices, thread blocks, and pieces move parts of chunks, so places are parts of chunks.
Source: ``execution_kernel.hpp`` and ``executor.cc`` of microsoft/mscclpp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import lcm

from sccl.errors import TooLargeError
from sccl.formats.common.program_check import completed_before
from sccl.formats.common.program_graph import (
    MAX_MOVES,
    CallMode,
    GraphFault,
    GraphStep,
    Move,
    Place,
    ProgramDemand,
    StepGraph,
    StepProgram,
    aliased_place,
    in_place_offsets,
)
from sccl.formats.mscclpp_plans.plan_file import (
    MOVES,
    PACKETS,
    SIGNALS,
    SWITCHED,
    WAITS,
    BufferPart,
    OpPart,
    PlanPart,
    buffer_and_ranks,
    is_packet,
    operation_name,
)
from sccl.formats.mscclpp_plans.plan_semantics import (
    PACKET,
    PIECES,
    PlanLine,
    ThreadSync,
    buffer_sizes,
    build_demand,
    completed_by_end,
    find_early_packets,
    number_lines,
    port_operations,
    unroll_pipelines,
)

_BUFFERS = {"i": "input", "o": "output", "s": "scratch"}
_ONE_TO_ONE = frozenset({"put", "pws", "pwsf", "get", "ppkt", "copy", "cpkt", "upkt"})


def build_graph(plan: PlanPart) -> StepProgram:
    """Return the behavior of a plan, called as it states.

    Raises:
        TooLargeError: It has too many moves.
    """
    demand = build_demand(plan)
    builder = _GraphBuilder(plan, demand)
    builder.build()
    content = (
        demand.initial_content(builder.offsets, builder.grain),
        demand.required_content(builder.offsets, builder.grain),
    )
    graph = StepGraph(tuple(builder.steps), *content)
    name = "in place" if plan.inplace else "out of place"
    blocks = [len(gpu.threadblocks) for gpu in plan.gpus]
    early = find_early_packets(graph.steps, blocks, halves=plan.use_double_scratch_buffer)
    faults = (*builder.faults, *early)
    calling = CallMode(name, graph, faults)
    return StepProgram(plan.name, demand.collective, demand.chunks, (calling,))


Counter = tuple[object, ...]
"""Key of a counter that signals increase and waits read."""


def find_unflushed(plan: PlanPart) -> list[str]:
    """Return the sources that ports may still read at the end of the call.

    Raises:
        TooLargeError: It has too many moves.
    """
    if not any(gpu.peers("port") for gpu in plan.gpus):
        return []
    builder = _GraphBuilder(plan, build_demand(plan))
    builder.build()
    before, faults = completed_before(builder.steps), []
    for rank, gpu in enumerate(plan.gpus):
        done = completed_by_end(builder.steps, before, rank, len(gpu.threadblocks))
        for number, line in enumerate(builder.lines):
            if line.rank == rank and line.origin >= 0 and line.moves and number not in done:
                by = builder.lines[line.origin]
                where = operation_name(rank, by.block, by.index, by.op)
                faults.append(f"{where} may not be done when the call ends: flush its port")
    return faults


class _GraphBuilder:
    def __init__(self, plan: PlanPart, demand: ProgramDemand) -> None:
        self.plan = plan
        self.demand = demand
        self.offsets = in_place_offsets(buffer_sizes(plan)) if plan.inplace else {}
        self.lines: list[PlanLine] = []
        self.steps: list[GraphStep] = []
        self.faults: list[GraphFault] = []
        self.grain = _grain(plan)
        self.moves = 0
        self.signal_lines: dict[Counter, list[int]] = defaultdict(list)
        self.wait_lines: dict[Counter, list[int]] = defaultdict(list)
        self.ports: dict[int, list[int]] = {}
        self.last: dict[tuple[int, int, int], int] = {}

    def build(self) -> None:
        """Record moves and dependencies of each operation."""
        entries = len(self.plan.gpus)
        for rank in range(entries):
            self.lines.append(PlanLine(rank, -1, 0, OpPart("start of the call")))
        for rank, gpu in enumerate(self.plan.gpus):
            for b, block in enumerate(gpu.threadblocks):
                self.lines += unroll_pipelines(rank, b, block.ops)
        line_count = len(self.lines)
        places: dict[int, dict[int, int]] = defaultdict(dict)
        for origin, place, port in list(
            port_operations(self.lines, [len(g.threadblocks) for g in self.plan.gpus])
        ):
            places[origin][place] = len(self.lines)
            self.lines.append(port)
        for origin, ports in places.items():
            self.ports[origin] = [ports[place] for place in sorted(ports)]
        for number, line in enumerate(self.lines[entries:line_count], entries):
            before = self.lines[number - 1]
            if (before.rank, before.block) != (line.rank, line.block):
                line.after.append(line.rank)
            self._moves(line)
            self._run_ports(number, line)
            self._count_signals(number, line)
        self._add_waits()
        self._add_barriers()
        self._add_packet_waits()
        self._add_entry_syncs()
        self._check_thread_sync()
        self.steps = [
            GraphStep(
                *(n.rank, n.block, i, n.op.name, _chunk(n.op)),
                tuple(n.moves),
                tuple(n.after),
                n.never_reason,
            )
            for i, n in number_lines(self.lines)
        ]

    def _parts(
        self, line: PlanLine, part: BufferPart, *, packets: bool = False
    ) -> list[list[Place]]:
        """Return the places that a line accesses, for each rank that has the buffer."""
        gpu = self.plan.gpus[line.rank]
        kind, ranks = buffer_and_ranks(gpu, gpu.threadblocks[line.block], line.op, part)
        begin, size = part.index * self.grain, part.size * self.grain
        group = line.op.tbg_info
        if group is not None:
            begin, size = begin + size * group.tb_id // group.tbg_size, size // group.tbg_size
        begin, size = begin + size * line.piece // line.pieces, size // line.pieces
        self.moves += size * len(ranks)
        if self.moves > MAX_MOVES:
            raise TooLargeError(f"it moves more than {MAX_MOVES} parts of chunks: give less")
        name = PACKET if packets and kind == "s" else _BUFFERS[kind]
        return [
            [
                aliased_place(self.offsets, r, name, index, self.grain)
                for index in range(begin, begin + size)
            ]
            for r in ranks
        ]

    def _moves(self, line: PlanLine) -> None:
        op = line.op
        if op.name not in MOVES | PACKETS | SWITCHED:
            return
        srcs = [
            places
            for i, part in enumerate(op.src_buff)
            for places in self._parts(line, part, packets=is_packet(op, i, source=True))
        ]
        dsts = [
            places
            for i, part in enumerate(op.dst_buff)
            for places in self._parts(line, part, packets=is_packet(op, i, source=False))
        ]
        if not srcs or not dsts:
            line.never_reason = "has nothing to move, or nowhere to"
            return
        pairs: Iterator[tuple[list[Place], list[list[Place]]]]
        if op.name in _ONE_TO_ONE:
            if len(srcs) != len(dsts):
                line.never_reason = f"has {len(srcs)} sources for {len(dsts)} destinations"
                return
            pairs = ((dst, [src]) for dst, src in zip(dsts, srcs, strict=True))
        else:
            pairs = ((dst, srcs) for dst in dsts)
        for dst, sources in pairs:
            moves = (
                Move(place, tuple(s[j] for s in sources if j < len(s)))
                for j, place in enumerate(dst)
            )
            line.moves_by_target.append([m for m in moves if m.srcs and m.srcs != (m.dst,)])
        line.moves = [move for moves in line.moves_by_target for move in moves]

    def _run_ports(self, number: int, line: PlanLine) -> None:
        """Record the moves of ports, and let flushes wait for them."""
        ports = self.ports.get(number, [])
        first = (self.lines[number - 1].rank, self.lines[number - 1].block) != (
            line.rank,
            line.block,
        )
        for i, port in enumerate(ports):
            served = self.lines[port]
            served.moves = line.moves_by_target[i] if i < len(line.moves_by_target) else []
            if line.op.name == "pwsf":  # is over when the port is done
                served.after.append(line.rank if first else number - 1)
                line.after.append(port)
            else:
                served.after.append(number)
            self.last[line.rank, line.block, line.op.channel_ids[i]] = port
        if ports:
            line.port_moves, line.moves = line.moves, []
        for channel in line.op.channel_ids[: len(line.op.dst_buff)]:
            if line.op.name == "flush" and (line.rank, line.block, channel) in self.last:
                line.after.append(self.last[line.rank, line.block, channel])

    def _count_signals(self, number: int, line: PlanLine) -> None:
        op = line.op
        if op.name in SIGNALS or op.name in WAITS:
            if op.name in {"pws", "pwsf"} and op.channel_type == "memory":
                return
            into = self.signal_lines if op.name in SIGNALS else self.wait_lines
            for i, counter in enumerate(self._counters(line)):
                into[counter].append(self.ports[number][i] if number in self.ports else number)
        elif op.name in {"sem_acquire", "sem_release"}:
            into = self.signal_lines if op.name == "sem_release" else self.wait_lines
            for i in op.semaphore_ids:
                into["semaphore", line.rank, i].append(number)

    def _counters(self, line: PlanLine) -> Iterator[Counter]:
        gpu, kind = self.plan.gpus[line.rank], line.op.channel_type or ""
        peers = gpu.peers(kind)
        channels = gpu.threadblocks[line.block].channels_of(kind)
        for i in line.op.channel_ids:
            peer = peers[channels[i]]
            which = peers[: channels[i]].count(peer)
            src, dst = (line.rank, peer) if line.op.name in SIGNALS else (peer, line.rank)
            yield "signal", kind, src, dst, which

    def _add_waits(self) -> None:
        """Add the dependencies of waits on signals."""
        for counter in dict.fromkeys((*self.wait_lines, *self.signal_lines)):
            gives, takes = self.signal_lines[counter], self.wait_lines[counter]
            begin = self._initial(counter)
            givers = {self.lines[n].block for n in gives}
            takers = {self.lines[n].block for n in takes}
            for k, number in enumerate(takes):
                need = k + 1 - begin
                line = self.lines[number]
                if len(takers) > 1:
                    need = min(need, 1 - begin)  # any block may take the first signal
                if need > len(gives) or (k + 1 - begin) > len(gives):
                    counted = _describe_counter(counter)
                    line.never_reason = (
                        f"waits for signal {k + 1} {counted}, but only {len(gives)} are sent"
                    )
                elif need == len(gives):
                    line.after += gives
                elif need > 0 and len(givers) == 1:
                    line.after.append(gives[need - 1])
            for number in gives[max(0, len(takes) - begin) :] if counter[0] == "signal" else ():
                text = (
                    f"signals {_describe_counter(counter)}, but no instruction waits for it: the "
                    "next call would"
                )
                self._fault("unawaited", number, text)

    def _initial(self, counter: Counter) -> int:
        if counter[0] == "signal":
            return 0
        _, rank, i = counter
        semaphores = self.plan.gpus[int(str(rank))].semaphores
        place = int(str(i))  # the rules report missing semaphores
        return semaphores[place].init_value if 0 <= place < len(semaphores) else 0

    def _add_barriers(self) -> None:
        rounds: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, line in enumerate(self.lines):
            if line.op.name == "barrier":
                rounds[line.rank, line.op.barrier_id or 0][line.block].append(number)
        for (_, which), blocks in rounds.items():
            for numbers in blocks.values():
                for k, number in enumerate(numbers):
                    met = [arrivals[k] for arrivals in blocks.values() if len(arrivals) > k]
                    line = self.lines[number]
                    if len(met) != (line.op.num_threadblocks or 0):
                        line.never_reason = (
                            f"waits at barrier {which} for {line.op.num_threadblocks} "
                        )
                        line.never_reason += f"thread blocks, but {len(met)} reach it"
                        continue
                    line.after += [n - 1 for n in met if n != number and self.lines[n].index]

    def _add_packet_waits(self) -> None:
        """Add the dependencies of packet readers on their writers."""
        writers: dict[Place, list[int]] = defaultdict(list)
        for number, line in enumerate(self.lines):
            for place in dict.fromkeys(move.dst for move in line.moves):
                if place[1] == PACKET:
                    writers[place].append(number)
        for number, line in enumerate(self.lines):
            for place in dict.fromkeys(p for move in line.moves for p in move.srcs):
                if place[1] != PACKET:
                    continue
                if not writers[place]:
                    line.never_reason = (
                        f"waits for packets in chunk {place[2] // self.grain} of scratch "
                    )
                    line.never_reason += "that nobody writes"
                line.after += [n for n in writers[place] if n != number]

    def _add_entry_syncs(self) -> None:
        """Model the start of a call as an access to all remotely written buffers."""
        touched: dict[int, dict[Place, None]] = defaultdict(dict)
        for line in self.lines:
            for move in line.moves:
                if move.dst[0] != line.rank and move.dst[1] != PACKET:
                    touched[move.dst[0]][move.dst] = None
        initial = self.demand.initial_content(self.offsets, self.grain)
        for rank, places in touched.items():
            self.lines[rank].moves = [
                Move(place, (place,) if place in initial else ()) for place in places
            ]

    def _check_thread_sync(self) -> None:
        """Record faults if threads of a block need synchronization."""
        last: tuple[int, int] | None = None
        sync = ThreadSync()
        for number, line in enumerate(self.lines):
            if line.origin >= 0:
                continue
            if (line.rank, line.block) != last:
                sync, last = ThreadSync(), (line.rank, line.block)
            if (
                text := sync.take_operation(line.op, line.port_moves or line.moves)
            ) and line.block >= 0:
                self._fault("threads", number, text)

    def _fault(self, kind: str, number: int, text: str) -> None:
        line = self.lines[number]
        line = line if line.origin < 0 else self.lines[line.origin]
        where = operation_name(line.rank, line.block, line.index, line.op)
        self.faults.append(
            GraphFault(
                *(kind, f"{where} {text}", line.rank, line.block, line.index, _chunk(line.op))
            )
        )


def _grain(plan: PlanPart) -> int:
    """Return the number of parts per chunk, such that every operation moves whole parts.

    Raises:
        TooLargeError: There would be too many parts.
    """
    sizes, pieces = {1}, 1
    for gpu in plan.gpus:
        for block in gpu.threadblocks:
            sizes |= {op.tbg_info.tbg_size for op in block.all_ops() if op.tbg_info}
            pieces = PIECES if any(op.ops for op in block.ops) else pieces
    grain = lcm(*sizes) * pieces
    chunks = sum(gpu.input_chunks + gpu.output_chunks for gpu in plan.gpus)
    if grain * max(1, chunks) > MAX_MOVES:
        raise TooLargeError(
            f"{chunks} chunks in {grain} slices, and up to {MAX_MOVES} are followed: give less"
        )
    return grain


def _chunk(op: OpPart) -> int | None:
    return next((part.index for part in (*op.src_buff, *op.dst_buff)), None)


def _describe_counter(counter: Counter) -> str:
    if counter[0] == "semaphore":
        return f"of semaphore {counter[2]}"
    _, kind, src, dst, which = counter
    return f"of rank {src} to rank {dst} over {kind} channel {which} between them"
