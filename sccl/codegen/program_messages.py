"""Build the messages of a program for the simulator.

Local work, flags, and credits take no time in this model. After a send, a thread block continues
when the message has started, and after other instructions it continues immediately. So each message
of a block starts after its predecessor, over any link. An instruction also waits for its flags and
dependencies, as in :mod:`sccl.codegen.interpreter`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sccl.codegen.hazards import Site, program_sites
from sccl.codegen.ir import Instruction, Program
from sccl.sim import Messages

_NO_GATE = -1


def build_messages(program: Program) -> Messages:
    """Build the messages of a program, with one gate for each instruction and another per send.

    Messages are numbered by step, chunk, source and destination, like those of algorithms.
    """
    code = program_sites(program)
    ready = {site: gate for gate, site in enumerate(code)}
    sends = sorted(
        (site for site in code if code[site].sends()),
        key=lambda site: (code[site].step, code[site].chunk, site[0], _target(code[site])[0]),
    )
    done = ready | {site: len(code) + i for i, site in enumerate(sends)}
    awaited = {(site[0], flag): site for site, line in code.items() for flag in line.awaits()}
    opened, counted_at = _gate_edges(code, ready, done, awaited)
    return Messages(
        chunk=np.array([code[s].chunk for s in sends], np.int32),
        src=np.array([s[0] for s in sends], np.int32),
        dst=np.array([_target(code[s])[0] for s in sends], np.int32),
        reduce=np.zeros(len(sends), np.bool_),  # reductions are separate instructions
        release=np.zeros(len(sends), np.int64),
        at_least=np.zeros(len(sends), np.int64),
        waits_for=np.array([ready[s] for s in sends], np.int32),
        arrival_opens=np.array([_arrival(code[s], ready, awaited) for s in sends], np.int32),
        start_opens=np.array([done[s] for s in sends], np.int32),
        step=np.full(len(sends), _NO_GATE, np.int32),  # blocks already order their sends
        barriers=np.zeros(len(code) + len(sends), np.bool_),
        opened=np.array(opened, np.int32),
        counted_at=np.array(counted_at, np.int32),
        num_chunks=program.collective.num_chunks,
    )


def _target(line: Instruction) -> tuple[int, int]:
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
    """Return pairs of gates as two rows: a gate that opens, and a gate that waits for it."""
    opened: list[int] = []
    counted_at: list[int] = []
    for site, line in code.items():
        rank, (block, index) = site
        before = [(rank, address) for address in line.after]
        before += [(rank, (block, index - 1))] if index else []
        opened += [done[source] for source in before]
        counted_at += [ready[site]] * len(before)
        target = line.sets()
        if line.sends() is None and target is not None and target in awaited:  # a credit
            opened.append(done[site])
            counted_at.append(ready[awaited[target]])
    return opened, counted_at
