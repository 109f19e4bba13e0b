"""Programs perform their algorithms in every schedule, and every pass preserves that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.codegen.buffer_layout import part_ranges
from sccl.codegen.hazards import find_dependencies
from sccl.codegen.interpreter import REDUCTIONS, Array, Fault, run_program
from sccl.codegen.ir import (
    Address,
    Block,
    Buffer,
    Instruction,
    Landing,
    Op,
    Program,
    RankProgram,
    Slot,
)
from sccl.codegen.lowering import lower
from sccl.codegen.passes import (
    LAG,
    compile_program,
    drop_implied,
    forward_results,
    fuse_receive_reduce,
    merge_reductions,
    pair_channels,
    reuse_slots,
    serialize,
)
from sccl.collectives import collective_names, named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.answer import Sat
from sccl.errors import JudgeError
from sccl.synth.syncoll import solve
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import build_question, solve_question
from tests.kit.easy_algorithms import frontier
from tests.kit.hard_algorithms import EIGHT, FOUR, MATRIX, Hard, load, rows
from tests.kit.nightly import times
from tests.kit.strategies import diameter, specs, topologies

TYPES: list[Any] = [
    np.int8,
    np.uint8,
    np.int16,
    np.uint16,
    np.int32,
    np.uint32,
    np.int64,
    np.uint64,
]
TYPES += [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]

SCHEDULES: dict[str, Callable[[int], int]] = {
    "first": lambda _: 0,
    "last": lambda n: n - 1,
    "middle": lambda n: n // 2,
}


def inputs_for(program: Program, count: int | None = None, dtype: Any = np.int64) -> list[Array]:
    """Return inputs that distinguish chunks and, in reductions, ranks.

    In int64 no two are equal. In other types they are small, so that every order of reduction gives
    the same result.

    Args:
        count: Elements of a block, by default so many that no part of it is empty.
    """
    size = np.dtype(dtype).itemsize
    elements = program.layout.parts * (64 // size) + 3 if count is None else count
    low, high = (0, 2**40) if dtype is np.int64 else (1, 3)

    def block(pattern: int, rank: int) -> Array:
        own = rank if program.collective.combining else 0  # else all holders have the same data
        return np.random.default_rng([pattern, own]).integers(low, high, elements)

    return [
        np.concatenate([np.zeros(0, np.int64), *(block(p, rank) for p in blocks)]).astype(dtype)
        for rank, blocks in enumerate(program.layout.inputs)
    ]


def faults(program: Program, *, in_place: bool = False, choose: str = "first") -> list[Fault]:
    return run_program(program, inputs_for(program), choose=SCHEDULES[choose], in_place=in_place)[1]


def all_forms(algorithm: Algorithm) -> list[Program]:
    return [
        compile_program(algorithm, landing, serial=serial)
        for landing in Landing
        for serial in (False, True)
    ]


EVERY_WAY = tuple(product((False, True), SCHEDULES))
"""In place or not, with each schedule."""

FEW_WAYS = ((False, "first"), (True, "last"), (True, "middle"))


def runs(algorithm: Algorithm, ways: Sequence[tuple[bool, str]] = EVERY_WAY) -> bool:
    return all(
        faults(program, in_place=in_place, choose=choose) == []
        for program in all_forms(algorithm)
        for in_place, choose in ways
    )


@pytest.mark.parametrize("hard", rows(MATRIX), ids=str)
def test_every_hard_algorithm_runs(hard: Hard) -> None:
    """All modes of those for 4 ranks, which have all features of the long ones except length."""
    assert runs(load(hard), EVERY_WAY if hard in FOUR else FEW_WAYS)


@pytest.mark.parametrize("collective", collective_names())
def test_every_collective_runs_on_a_ring(collective: str) -> None:
    assert all(runs(algorithm) for algorithm in frontier("ring:4", collective))


@pytest.mark.parametrize("op", sorted(REDUCTIONS))
@pytest.mark.parametrize("name", ["allreduce", "reducescatter"])
def test_every_type_and_reduction(name: str, op: str) -> None:
    (algorithm, *_) = frontier("ring:4", name)
    program = compile_program(algorithm, Landing.OUTPUT, serial=False)
    for dtype in TYPES:
        outputs, found = run_program(program, inputs_for(program, dtype=dtype), op)
        assert found == []
        assert all(o.dtype == dtype for o in outputs if len(o))


@given(data=st.data())
@settings(max_examples=times(60, by_day=30))
def test_random_machines_collectives_and_schedules(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=5))
    spec = data.draw(specs(topology.ranks))
    steps = diameter(topology) * (2 if spec.name == "allreduce" else 1)
    question = build_question(topology, spec, spec.unit, steps, steps * 4)
    answer = solve_question(question, solve.solve)
    if not isinstance(answer, Sat):
        return
    landing = data.draw(st.sampled_from(list(Landing)))
    program = compile_program(
        expand_algorithm(answer.algorithm), landing, serial=data.draw(st.booleans())
    )
    count = data.draw(st.none() | st.integers(1, 100))
    _, found = run_program(
        program,
        inputs_for(program, count),
        choose=lambda n: data.draw(st.integers(0, n - 1)) if n > 1 else 0,
        in_place=data.draw(st.booleans()),
    )
    assert found == []


PASSED = [
    hard
    for hard in (*FOUR, *EIGHT)
    if hard.collective in {"allreduce", "alltoall", "reduce", "gather"} and hard.shape[0] < 48
]

PASSES: list[Callable[[Program], Program]] = [
    fuse_receive_reduce,
    forward_results,
    merge_reductions,
    reuse_slots,
    pair_channels,
    drop_implied,
    serialize,
]


@pytest.mark.parametrize("hard", PASSED, ids=str)
def test_passes_keep_the_result(hard: Hard) -> None:
    program = lower(load(hard), Landing.OUTPUT)
    plain, found = run_program(program, inputs_for(program))
    assert found == []
    for apply in PASSES:
        before, program = program, apply(program)
        assert apply(before) == program  # pure
        outputs, found = run_program(program, inputs_for(program))
        assert found == [], apply.__name__
        assert all(map(np.array_equal, outputs, plain)), apply.__name__


def lines(program: Program) -> list[Op]:
    return [line.op for own in program.ranks for _, line in own.instructions()]


def test_passes_do_what_they_are_for() -> None:
    (algorithm, *_) = frontier("ring:4", "reduce")
    plain = lower(algorithm, Landing.OUTPUT)
    fused = fuse_receive_reduce(plain)
    assert Op.REDUCE in lines(plain)
    assert Op.REDUCE not in lines(fused)
    assert Op.RECV_REDUCE in lines(fused)
    assert Op.RECV_REDUCE_SEND in lines(forward_results(fused))
    slim = reuse_slots(fused)
    assert slim.scratch_slots < fused.scratch_slots
    assert Op.CREDIT in lines(slim)
    apart = lower(load(Hard("dgx1", "allreduce", (24, 4, 8), trees=True)), Landing.OUTPUT)
    paired = pair_channels(apart)
    assert max(len(r.blocks) for r in paired.ranks) < max(len(r.blocks) for r in apart.ranks)


@pytest.mark.parametrize("landing", Landing)
@pytest.mark.parametrize("collective", ["allgather", "alltoall", "gather", "scatter"])
def test_copy_of_own_input_waits_for_nothing(collective: str, landing: Landing) -> None:
    """In place it does nothing, and elsewhere no other instruction writes its slots."""
    for algorithm in frontier("ring:4", collective):
        program = compile_program(algorithm, landing, serial=False)
        copies = 0
        for own in program.ranks:
            awaited = {address for _, line in own.instructions() for address in line.after}
            for address, line in own.instructions():
                if line.op is Op.COPY and line.src and line.src.buffer is Buffer.INPUT:
                    copies += 1
                    assert not line.after
                    assert address not in awaited
        assert copies


def build_echo(landing: Landing) -> Program:
    """Return a program in which rank 0 reads its copy after rank 1 has sent the same chunk back."""
    chunk, copied, back = (Slot(Buffer.INPUT, 0), Slot(Buffer.SCRATCH, 0), Slot(Buffer.SCRATCH, 1))
    plain = lower(frontier("ring:4", "broadcast")[0], landing)
    first = Block(
        1,
        None,
        (
            Instruction(Op.COPY, 0, 0, src=chunk, dst=copied),
            Instruction(Op.SEND, 1, 0, peer=1, src=copied, dst=copied, flag=0),
        ),
    )
    then = Block(
        None,
        1,
        (
            Instruction(Op.RECV, 2, 0, peer=1, dst=back, flag=0),
            Instruction(Op.COPY, 3, 0, src=copied, dst=Slot(Buffer.OUTPUT, 0), after=((0, 0),)),
        ),
    )
    echo = Block(
        0,
        0,
        (
            Instruction(Op.RECV, 1, 0, peer=0, dst=copied, flag=0),
            Instruction(Op.SEND, 2, 0, peer=0, src=copied, dst=back, flag=0),
        ),
    )
    ranks = (RankProgram((first, then), 2, 1), RankProgram((echo,), 1, 1))
    return replace(plain, ranks=(*ranks, *(RankProgram((), 0, 0) for _ in range(2))))


def test_dependency_does_not_follow_from_packets() -> None:
    """An eager program may run in packets, which order no memory. Flags order it."""
    for landing, kept in ((Landing.SCRATCH, ((0, 0),)), (Landing.OUTPUT, ())):
        reduced = drop_implied(build_echo(landing))
        assert reduced.ranks[0].blocks[1].instructions[1].after == kept


def follows_on_rank(own: RankProgram, before: Address, address: Address) -> bool:
    """Return whether an instruction follows another by the order of blocks and dependencies."""
    reached, pending = set[Address](), [address]
    while pending:
        block, index = at = pending.pop()
        if at not in reached:
            reached.add(at)
            pending += own.blocks[block].instructions[index].after
            pending += [(block, index - 1)] if index else []
    return before in reached


def place_in_blocks(serial: Sequence[Instruction], homes: Sequence[int]) -> RankProgram:
    """Return a rank's program with each instruction at the end of the block of its number."""
    needs = find_dependencies(serial, {})
    address = [(home, homes[:n].count(home)) for n, home in enumerate(homes)]
    blocks: list[list[Instruction]] = [[] for _ in homes]
    for n, line in enumerate(serial):
        after = tuple(address[k] for k in needs[n] if homes[k] != homes[n])
        blocks[homes[n]].append(line.with_dependencies(after))
    return RankProgram(tuple(Block(None, None, tuple(lines)) for lines in blocks), 2, 1)


def test_dependency_does_not_follow_from_one_that_packets_imply() -> None:
    """Rank 0 sends its copy and overwrites it with the answer, in any blocks.

    The answer contains the copy, so packets order the send before it, but not the first write.
    """
    program = build_echo(Landing.SCRATCH)
    copy, send, receive, last = (line for _, line in program.ranks[0].instructions())
    serial = (copy, send, receive, replace(last, src=receive.dst, dst=copy.dst))
    assert find_dependencies(serial, {})[3] == [0, 1, 2]
    for homes in product(range(4), repeat=4):
        own = place_in_blocks(serial, homes)
        reduced = drop_implied(replace(program, ranks=(own, *program.ranks[1:]))).ranks[0]
        address = [(home, homes[:n].count(home)) for n, home in enumerate(homes)]
        for n, before in ((1, 0), (3, 0), (3, 2)):
            assert follows_on_rank(reduced, address[before], address[n]), homes


@pytest.mark.parametrize("hard", PASSED, ids=str)
def test_order_follows_on_each_rank_of_eager_programs(hard: Hard) -> None:
    """Except if the new content of a chunk contains it, by way of other ranks."""
    program = merge_reductions(
        forward_results(fuse_receive_reduce(lower(load(hard), Landing.SCRATCH)))
    )
    paired = pair_channels(program)
    reduced = drop_implied(paired)
    for rank, own in enumerate(paired.ranks):
        code = dict(own.instructions())
        for address, line in code.items():
            for before in line.after:
                if follows_on_rank(reduced.ranks[rank], before, address):
                    continue
                written = {*code[before].writes(), *code[before].lands()}
                assert not written & {*line.reads(), *line.writes()}
                assert code[before].chunk == line.chunk
                assert program.collective.combining


def test_reductions_of_one_step_are_one_instruction() -> None:
    """On a full machine each rank reduces the data of all others, in the order of their ranks."""
    for algorithm in frontier("full:4", "reducescatter"):
        plain = forward_results(fuse_receive_reduce(lower(algorithm, Landing.OUTPUT)))
        merged = merge_reductions(plain)
        for own in merged.ranks:
            reductions = [
                (block, line)
                for (block, _), line in own.instructions()
                if line.op is Op.RECV_REDUCE
            ]
            for _, line in reductions:
                peers = [arrival.peer for arrival in line.receives()]
                assert len(peers) == 3
                assert peers == sorted(peers)
            busy = [block for block, _ in reductions]
            assert max(map(busy.count, busy)) <= -(-len(busy) // 3)  # shared out evenly
            assert not any(line.after for _, line in reductions)
        assert accesses(merged)[1] < accesses(plain)[1]


def test_sends_and_receives_of_a_step_interleave() -> None:
    """A block reduces the n-th chunk that comes once it has sent some more than n itself."""
    topology = resolve_topology("full:3")
    sends = tuple(
        make_send(3 * part + dst, src, dst, 0, reduce=True)
        for part in range(12)
        for src in range(3)
        for dst in range(3)
        if src != dst
    )
    algorithm = Algorithm(topology, named_spec("reducescatter", 3).at(36), (12,), sends)
    assert runs(algorithm)
    program = compile_program(algorithm, Landing.OUTPUT, serial=False)
    for own in program.ranks:
        for block in own.blocks:
            ops = [line.op for line in block.instructions]
            reductions = [i for i, op in enumerate(ops) if op is Op.RECV_REDUCE]
            assert len(reductions) == 6  # two blocks share twelve
            assert ops[: LAG + 1] == [Op.SEND] * (LAG + 1)
            number = [block.instructions[i].chunk // 3 for i in reductions]
            before = [ops[:i].count(Op.SEND) for i in reductions]
            assert before == [min(n + LAG + 1, 12) for n in number]


def test_chunk_is_sent_before_its_slot_is_reduced_into() -> None:
    """Also where its sender sends many chunks in a step, and its peer few."""
    both_ways = (
        *(make_send(chunk, 0, 1, 0, reduce=True) for chunk in range(8)),
        make_send(7, 1, 0, 0, reduce=True),
        *(make_send(chunk, 1, 0, 1) for chunk in range(7)),
    )
    after_a_partial_sum = (
        make_send(8, 2, 0, 0, reduce=True),
        *(make_send(chunk, 2, 1, 0, reduce=True) for chunk in range(8)),
        *(make_send(chunk, 0, 1, 1, reduce=True) for chunk in range(9)),
        make_send(8, 1, 0, 1, reduce=True),
        *(make_send(chunk, 1, 0, 2) for chunk in range(8)),
        *(make_send(chunk, 1, 2, 2) for chunk in range(9)),
    )
    for ranks, rounds, sends in ((2, (8, 7), both_ways), (3, (8, 9, 9), after_a_partial_sum)):
        collective = named_spec("allreduce", ranks).at(max(rounds))
        assert runs(
            Algorithm(resolve_topology(f"full:{ranks}"), collective, rounds, tuple(sorted(sends)))
        )


@given(data=st.data())
@settings(max_examples=times(200, by_day=30))
def test_exchanges_of_unequal_numbers_of_chunks(data: st.DataObject) -> None:
    """Two ranks exchange their sums of some chunks. For others one sends the sum back."""
    ranks = data.draw(st.integers(2, 4))
    chunks = ranks * data.draw(st.integers(1, 8))
    sends = []
    for chunk in range(chunks):
        order = data.draw(st.permutations(range(ranks)))
        last = order[-1]
        back = data.draw(st.booleans())  # the last two exchange, else one sends the sum back
        sends += [
            make_send(chunk, a, b, n, reduce=True) for n, (a, b) in enumerate(pairwise(order))
        ]
        if back:
            sends.append(make_send(chunk, last, order[-2], ranks - 2, reduce=True))
        missing = order[: -2 if back else -1]
        sends += [make_send(chunk, last, rank, ranks - 1) for rank in missing]
    steps = max(one.step for one in sends) + 1
    collective = named_spec("allreduce", ranks).at(chunks)
    machine = resolve_topology(f"full:{ranks}")
    algorithm = Algorithm(machine, collective, (chunks,) * steps, tuple(sorted(sends)))
    assert runs(algorithm, FEW_WAYS)


def accesses(program: Program) -> tuple[int, int]:
    """Return how many chunks all ranks read, and how many they write, here or at a peer."""
    every = [line for own in program.ranks for _, line in own.instructions()]
    written = sum(len(line.writes()) + (line.sends() is not None) for line in every)
    return sum(len(line.reads()) for line in every), written


@pytest.mark.parametrize(
    ("hard", "before", "after", "awaited"),
    [
        (Hard("dgx1", "reducescatter", (48, 3, 7)), (1008, 672), (891, 555), (146, 130)),
        (
            Hard("dgx1", "allreduce", (48, 5, 14), trees=True),
            (1344, 1008),
            (1223, 887),
            (192, 108),
        ),
        (
            Hard("dgx1", "allreduce", (48, 5, 16), halves=(2, 9)),
            (1344, 1008),
            (1242, 906),
            (154, 61),
        ),
    ],
    ids=str,
)
def test_forwarded_values_are_neither_stored_nor_loaded(
    hard: Hard, before: tuple[int, int], after: tuple[int, int], awaited: tuple[int, int]
) -> None:
    """More waits for slots are implied then."""
    plain = fuse_receive_reduce(lower(load(hard), Landing.OUTPUT))
    onward = forward_results(plain)
    assert (accesses(plain), accesses(onward)) == (before, after)
    sent_on = lines(onward).count(Op.RECV_REDUCE_SEND)
    assert (before[0] - after[0], before[1] - after[1]) == (sent_on, sent_on)
    assert tuple(lines(reuse_slots(p)).count(Op.CREDIT) for p in (plain, onward)) == awaited


def test_values_with_other_uses_are_not_forwarded() -> None:
    """Each condition by itself: on a line, the rank in the middle sends on all that it reduces."""
    (algorithm, *_) = frontier("line:3", "reduce")
    plain = fuse_receive_reduce(lower(algorithm, Landing.OUTPUT))
    own = plain.ranks[1]
    assert Op.RECV_REDUCE_SEND in lines(forward_results(plain))
    (send,) = (line for _, line in own.instructions() if line.op is Op.SEND)
    output = Slot(Buffer.OUTPUT, 0)
    copy = Instruction(Op.COPY, send.step, send.chunk, src=send.src, dst=output)

    def sent_on(*instead: Instruction, result: Slot | None = send.src) -> bool:
        """Return whether it does, with something in place of the send, or another result."""
        blocks = []
        for block in own.blocks:
            new = [r for line in block.instructions for r in (instead if line is send else [line])]
            new = [replace(line, dst=result) if line.op is Op.RECV_REDUCE else line for line in new]
            blocks.append(replace(block, instructions=tuple(new)))
        ranks = (plain.ranks[0], replace(own, blocks=tuple(blocks)), plain.ranks[2])
        return Op.RECV_REDUCE_SEND in lines(forward_results(replace(plain, ranks=ranks)))

    assert sent_on(send)
    assert not sent_on(send, copy)
    assert not sent_on(replace(send, step=send.step + 1))
    assert not sent_on(replace(send, dst=output))
    assert not sent_on(replace(send, src=output), result=output)


def test_scratch_is_minimal_for_the_steps() -> None:
    """No assignment has fewer slots than chunks that are alive in scratch in some step."""
    for algorithm in map(load, PASSED):
        plain = forward_results(fuse_receive_reduce(lower(algorithm, Landing.OUTPUT)))
        slim = reuse_slots(plain)
        spans: list[dict[int, set[int]]] = [{} for _ in plain.ranks]
        for rank, before in enumerate(plain.ranks):
            for _, line in before.instructions():
                touched = [(rank, slot) for slot in (*line.reads(), *line.writes())]
                for owner, slot in (*touched, *filter(None, [line.sends()])):
                    if slot.buffer == "scratch":
                        spans[owner].setdefault(slot.index, set()).add(line.step)
        for span, after in zip(spans, slim.ranks, strict=True):
            alive = [
                sum(min(s) <= step <= max(s) for s in span.values())
                for step in range(algorithm.steps)
            ]
            assert after.scratch_slots == max(alive, default=0)


def test_eager_programs_number_slots_as_flags() -> None:
    """Generated host code relies on it: small chunks travel in the cache line of their flag."""
    for algorithm in map(load, PASSED):
        program = compile_program(algorithm, Landing.SCRATCH, serial=True)
        for own in program.ranks:
            for _, line in own.instructions():
                if (there := line.sends()) is not None:
                    assert (there[0], there[1].index) == line.sets()


def broken(program: Program, rank: int, change: Callable[[list[object]], object]) -> Program:
    own = program.ranks[rank]
    block = own.blocks[0]
    lines_ = list(block.instructions)
    change(lines_)  # type: ignore[arg-type]
    blocks = (replace(block, instructions=tuple(lines_)), *own.blocks[1:])
    ranks = list(program.ranks)
    ranks[rank] = replace(own, blocks=blocks)
    return replace(program, ranks=tuple(ranks))


def kinds(program: Program) -> set[str]:
    return {fault.kind for fault in faults(program)}


def test_interpreter_names_what_is_wrong() -> None:
    (algorithm, *_) = frontier("ring:4", "allgather")
    good = compile_program(algorithm, Landing.OUTPUT, serial=True)
    program = good.ranks[0].blocks[0].instructions
    send = next(i for i, line in enumerate(program) if line.op is Op.SEND)
    assert "deadlock" in kinds(broken(good, 0, lambda x: x.pop(send)))
    assert "flag" in kinds(broken(good, 0, lambda x: x.insert(send, x[send])))
    late = next(i for i, line in enumerate(program) if line.op is Op.SEND and line.step == 1)
    early = broken(good, 0, lambda x: x.insert(0, x.pop(late)))
    assert "unwritten" in kinds(early)
    early = compile_program(algorithm, Landing.OUTPUT, serial=False)
    (arrival,) = (
        line
        for _, line in early.ranks[0].instructions()
        if line.op is Op.RECV and line.step == 0 and line.peer == 1
    )
    copy = Instruction(Op.COPY, 0, arrival.chunk, src=arrival.dst, dst=arrival.dst)
    assert faults(broken(early, 0, lambda x: x.insert(0, copy))) == []  # onto itself
    moved = replace(copy, dst=Slot(Buffer.OUTPUT, 0))
    assert "unwritten" in kinds(broken(early, 0, lambda x: x.insert(0, moved)))
    other = replace(program[send], src=replace(program[send].src, index=1))  # type: ignore[type-var]
    assert "wrong" in kinds(broken(good, 0, lambda x: x.__setitem__(send, other)))


def test_interpreter_sees_every_chunk_that_is_sent_for_another() -> None:
    """Each part of a block is long enough to be looked at."""
    program = compile_program(
        load(Hard("dgx1", "allgather", (6, 3, 7))), Landing.SCRATCH, serial=True
    )
    code = program.ranks[0].blocks[0].instructions
    seen = 0
    for at, line in enumerate(code):
        if line.op is Op.SEND and line.src is not None and line.src.buffer is Buffer.INPUT:
            other = replace(line, src=replace(line.src, index=(line.src.index + 1) % 6))
            assert kinds(broken(program, 0, lambda x, a=at, o=other: x.__setitem__(a, o)))  # type: ignore[misc]
            seen += 1
    assert seen >= 7  # each part leaves its rank at least once


def test_interpreter_sees_two_at_one_slot() -> None:
    """Without credits, some schedule overwrites a slot that is still being read."""
    program = compile_program(
        load(Hard("one-way", "reduce", (5, 4, 6), root=2)), Landing.OUTPUT, serial=False
    )
    assert Op.CREDIT in lines(program)
    careless = replace(
        program,
        ranks=tuple(
            replace(
                own,
                blocks=tuple(
                    replace(
                        block,
                        instructions=tuple(replace(i, credit=None) for i in block.instructions),
                    )
                    for block in own.blocks
                ),
            )
            for own in program.ranks
        ),
    )
    assert any(faults(careless, choose=choose) for choose in SCHEDULES)
    assert all(not faults(program, choose=choose) for choose in SCHEDULES)


def test_rejected_algorithm_is_never_lowered() -> None:
    (algorithm, *_) = frontier("ring:4", "allgather")
    bad = replace(algorithm, sends=algorithm.sends[1:])
    with pytest.raises(JudgeError, match="fails verification"):
        lower(bad, Landing.OUTPUT)


@given(st.integers(0, 10**7), st.integers(1, 64), st.sampled_from([1, 2, 4, 8]))
def test_parts_cover_a_block(elements: int, parts: int, size: int) -> None:
    bounds: Sequence[tuple[int, int]] = part_ranges(elements, parts, size)
    assert len(bounds) == parts
    assert bounds[0][0] == 0
    assert bounds[-1][1] == elements
    assert all(a[1] == b[0] for a, b in pairwise(bounds))
    assert all(first * size % 64 == 0 or first == elements for first, _ in bounds)
    lengths = [end - first for first, end in bounds]
    assert max(lengths) - min(lengths) <= 2 * (64 // size)
