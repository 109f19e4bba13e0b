"""What a program sends, as messages of a simulation.

A thread block goes from one instruction to the next: on from a send when its message has started,
on from all else when it may begin, since what happens on a rank, flags and credits take no time
here. So of a block's messages each starts after the one before it, over whatever link it goes. An
instruction waits besides for its flags and its dependencies, as :mod:`sccl.codegen.interpreter` has
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sccl.codegen.ir import Instruction, Program
from sccl.sim import Messages

Site = tuple[int, int, int]
"""(rank, block, index) of an instruction."""

_NO_GATE = -1


def build_messages(program: Program) -> Messages:
    """Return what a program sends; each instruction is a gate, and each send one more.

    They are numbered by step, chunk, source and destination, as those of algorithms are.
    """
    code = dict(_program_sites(program))
    ready = {site: gate for gate, site in enumerate(code)}
    sends = sorted(
        (s for s in code if code[s].sends()), key=lambda site: _instruction_order(site, code[site])
    )
    done = ready | {site: len(code) + i for i, site in enumerate(sends)}
    awaited = {(site[0], flag): site for site, line in code.items() for flag in line.awaits()}
    opened, counted_at = _gate_edges(code, ready, done, awaited)
    return Messages(
        chunk=np.array([code[s].chunk for s in sends], np.int32),
        src=np.array([s[0] for s in sends], np.int32),
        dst=np.array([_target(code[s])[0] for s in sends], np.int32),
        reduce=np.zeros(len(sends), np.bool_),  # reductions are instructions of their own
        release=np.zeros(len(sends), np.int64),
        at_least=np.zeros(len(sends), np.int64),
        waits_for=np.array([ready[s] for s in sends], np.int32),
        arrival_opens=np.array([_arrival(code[s], ready, awaited) for s in sends], np.int32),
        start_opens=np.array([done[s] for s in sends], np.int32),
        step=np.full(len(sends), _NO_GATE, np.int32),  # blocks say in which order they send
        barriers=np.zeros(len(code) + len(sends), np.bool_),
        opened=np.array(opened, np.int32),
        counted_at=np.array(counted_at, np.int32),
        num_chunks=program.collective.num_chunks,
    )


def _program_sites(program: Program) -> Iterator[tuple[Site, Instruction]]:
    for rank, rank_program in enumerate(program.ranks):
        for (block, index), line in rank_program.instructions():
            yield (rank, block, index), line


def _instruction_order(site: Site, line: Instruction) -> tuple[int, int, int, int]:
    return line.step, line.chunk, site[0], _target(line)[0]


def _target(line: Instruction) -> tuple[int, int]:
    """Return the rank and the flag there that a send sets."""
    target = line.sets()
    assert target is not None
    return target


def _arrival(
    line: Instruction, ready: Mapping[Site, int], awaited: Mapping[tuple[int, int], Site]
) -> int:
    site = awaited.get(_target(line))
    return _NO_GATE if site is None else ready[site]


def _gate_edges(
    code: Mapping[Site, Instruction],
    ready: Mapping[Site, int],
    done: Mapping[Site, int],
    awaited: Mapping[tuple[int, int], Site],
) -> tuple[Sequence[int], Sequence[int]]:
    """Return which gates' opening counts at which others."""
    opened: list[int] = []
    counted_at: list[int] = []
    for (rank, block, index), line in code.items():
        before = [(rank, b, i) for b, i in line.after]
        before += [(rank, block, index - 1)] if index else []
        opened += [done[site] for site in before]
        counted_at += [ready[rank, block, index]] * len(before)
        target = line.sets()
        if line.sends() is None and target is not None and target in awaited:  # a credit
            opened.append(done[rank, block, index])
            counted_at.append(ready[awaited[target]])
    return opened, counted_at
