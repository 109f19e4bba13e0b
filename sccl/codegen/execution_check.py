"""A program put to the test: run on numbers that tell chunks and ranks apart."""

from __future__ import annotations

import numpy as np

from sccl.codegen.buffer_layout import ALIGNMENT_BYTES
from sccl.codegen.interpreter import Array, Fault, run_program
from sccl.codegen.ir import Program

_ELEMENTS = ALIGNMENT_BYTES // 8
"""Of a part, as numbers of 64 bits: the least of which none is empty."""


def find_faults(program: Program) -> list[Fault]:
    """Return what is wrong with a program, by running it in two orders of its blocks."""
    return [
        fault
        for choose in (lambda _: 0, lambda many: many - 1)
        for fault in run_program(program, _test_inputs(program), choose=choose)[1]
    ]


def _test_inputs(program: Program) -> list[Array]:
    """Return inputs of which no two blocks are alike, nor ranks where what they have is reduced."""
    count = program.layout.parts * _ELEMENTS
    inputs = []
    for rank, blocks in enumerate(program.layout.inputs):
        seed = rank if program.collective.combining else 0
        data = [np.random.default_rng([p, seed]).integers(0, 2**40, count) for p in blocks]
        inputs.append(np.concatenate([np.zeros(0, np.int64), *data]))
    return inputs
