"""Test a program on numbers that differ for every chunk and rank."""

from __future__ import annotations

import numpy as np

from sccl.codegen.buffer_layout import ALIGNMENT_BYTES
from sccl.codegen.interpreter import Array, Fault, run_program
from sccl.codegen.ir import Program

_ELEMENTS = ALIGNMENT_BYTES // 8
"""Elements of a part, as 64-bit numbers: the smallest count that leaves no part empty."""


def find_faults(program: Program) -> list[Fault]:
    """Return the faults of a program, found by running it in two orders of its blocks."""
    return [
        fault
        for choose in (lambda _: 0, lambda many: many - 1)
        for fault in run_program(program, _test_inputs(program), choose=choose)[1]
    ]


def _test_inputs(program: Program) -> list[Array]:
    # No two blocks are equal, and in reductions no two ranks: a misplaced chunk changes the result.
    count = program.layout.parts * _ELEMENTS
    inputs = []
    for rank, blocks in enumerate(program.layout.inputs):
        seed = rank if program.collective.combining else 0
        data = [np.random.default_rng([p, seed]).integers(0, 2**40, count) for p in blocks]
        inputs.append(np.concatenate([np.zeros(0, np.int64), *data]))
    return inputs
