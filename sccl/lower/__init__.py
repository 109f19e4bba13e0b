"""Lowering: an algorithm becomes a program of every rank, over slots of its buffers."""

from sccl.lower.layout import BufferLayout, layout_of, ranges_of_parts
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
    "compiled",
    "layout_of",
    "ranges_of_parts",
]
