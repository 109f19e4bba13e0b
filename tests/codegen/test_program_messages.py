"""Messages of programs in the simulator: equal to their algorithms' if blocks allow it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sccl.codegen.hazards import find_dependencies
from sccl.codegen.ir import Block, Landing, Program, RankProgram
from sccl.codegen.lowering import lower
from sccl.codegen.passes import _serial_order, compile_program
from sccl.codegen.program_messages import build_messages
from sccl.collectives import recover_spec
from sccl.core.algorithm import Algorithm
from sccl.core.clock import AlphaModel, Clock
from sccl.errors import ParameterError
from sccl.sim import Messages, StartReason, Timeline, simulate
from sccl.synth.packing.by_time.time_bound import compute_time_bound
from tests.kit.baselines import classical
from tests.kit.hard_algorithms import FOUR, Hard, load

SIZE = 10_000
CLASSICAL = [
    ("ring", "allreduce", "ring:5"),
    ("multi-ring", "allreduce", "dgx1"),
    ("direct", "alltoall", "full:5"),
    ("bruck", "allgather", "full:6"),
    ("halving-doubling", "allreduce", "hypercube:3"),
    ("double-binary-tree", "allreduce", "full:8"),
]


def timeline(messages: Messages, algorithm: Algorithm, model: AlphaModel) -> Timeline:
    topology = algorithm.topology
    return simulate(messages, topology, Clock.from_topology(topology, SIZE, model))


def unbounded(program: Program) -> Program:
    """Return a program in which every instruction is a block of its own, and waits for data."""
    ranks = []
    for rank, own in enumerate(program.ranks):
        code = dict(own.instructions())
        serial = [code[at] for at in _serial_order(program, rank)]
        needs = find_dependencies(serial, {})  # input and output are not in one place
        blocks = tuple(
            Block(None, None, (line.with_dependencies(tuple((n, 0) for n in before)),))
            for line, before in zip(serial, needs, strict=True)
        )
        ranks.append(RankProgram(blocks, own.scratch_slots, own.flags))
    return replace(program, ranks=tuple(ranks))


def check(algorithm: Algorithm) -> None:
    for model in AlphaModel:
        alone = timeline(Messages.from_algorithm(algorithm), algorithm, model)
        spec = recover_spec(algorithm.collective)
        bound = compute_time_bound(algorithm.topology, spec, algorithm.collective, alone.clock)
        for landing in Landing:
            for serial in (False, True):
                program = compile_program(algorithm, landing, serial=serial)
                made = timeline(build_messages(program), algorithm, model)
                if len(made.message) == algorithm.num_sends:  # else some bring nothing
                    assert np.array_equal(made.carried_bytes(), alone.carried_bytes())
                assert made.finish >= bound.value
        come = Messages.from_algorithm(algorithm)
        come = replace(come, step=np.full_like(come.step, -1))  # links serve as they come
        alone = timeline(come, algorithm, model)
        free = timeline(
            build_messages(unbounded(lower(algorithm, Landing.SCRATCH))), algorithm, model
        )
        if len(free.message) == algorithm.num_sends and StartReason.START not in alone.why:
            assert free.finish == alone.finish
            assert sorted(free.start.tolist()) == sorted(alone.start.tolist())


@pytest.mark.parametrize(("name", "collective", "machine"), CLASSICAL)
def test_classical_ones(name: str, collective: str, machine: str) -> None:
    """With as many blocks as instructions, programs take the time of the algorithm.

    This excludes algorithms that wait until a place is free, since programs keep arrivals in
    separate slots.
    """
    check(classical(name, collective, machine))


@pytest.mark.parametrize("hard", FOUR, ids=str)
def test_hard_ones(hard: Hard) -> None:
    check(load(hard))


def test_sends_of_a_block_start_in_its_order() -> None:
    algorithm = classical("multi-ring", "allreduce", "dgx1")
    for serial in (False, True):
        program = compile_program(algorithm, Landing.SCRATCH, serial=serial)
        made = timeline(build_messages(program), algorithm, AlphaModel.TRAVELS)
        starts = {
            (int(c), int(u), int(v), n): int(t)
            for n, (c, u, v, t) in enumerate(
                zip(made.messages.chunk, made.messages.src, made.messages.dst, made.start,
                    strict=True)
            )
        }  # fmt: skip
        by_send = {(c, u, v): [] for c, u, v, _ in starts}  # type: ignore[var-annotated]
        for (c, u, v, _), tick in sorted(starts.items(), key=lambda item: item[1]):
            by_send[c, u, v].append(tick)
        for rank, own in enumerate(program.ranks):
            for block in own.blocks:
                last = -1
                for line in block.instructions:
                    if line.sends() is None:
                        continue
                    told = line.sets()
                    assert told is not None
                    tick = by_send[line.chunk, rank, told[0]].pop(0)
                    assert tick >= last
                    last = tick


def test_credits_and_flags_that_nobody_sets_keep_all_waiting() -> None:
    algorithm = classical("ring", "allgather", "ring:4")
    program = compile_program(algorithm, Landing.SCRATCH, serial=False)
    own = program.ranks[0]
    first = next(b for b, block in enumerate(own.blocks) if block.send_peer is not None)
    line = own.blocks[first].instructions[0]
    waits = replace(own.blocks[first], instructions=(replace(line, after=((first, 0),)),))
    blocks = (*own.blocks[:first], waits, *own.blocks[first + 1 :])
    broken = replace(program, ranks=(replace(own, blocks=blocks), *program.ranks[1:]))
    with pytest.raises(ParameterError, match="wait for one another"):
        timeline(build_messages(broken), algorithm, AlphaModel.TRAVELS)
