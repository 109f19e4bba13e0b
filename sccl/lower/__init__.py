"""Lowering: an algorithm becomes a program of every rank, over slots of its buffers."""

from sccl.lower.layout import BufferLayout, bounds_of_parts, layout_of
from sccl.lower.passes import compiled
from sccl.lower.program import Buffer, Instruction, Landing, Op, Program, RankProgram, Slot

__all__ = [
    "Buffer",
    "BufferLayout",
    "Instruction",
    "Landing",
    "Op",
    "Program",
    "RankProgram",
    "Slot",
    "bounds_of_parts",
    "compiled",
    "layout_of",
]
