"""Options, constants and template files of all targets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodegenOptions:
    """Options of code generation.

    Attributes:
        blocks_per_link: Thread blocks that share the work of one link (GPU targets). None derives
            the number from each algorithm's use of its links.
        transport: ``kernel``, or ``dma`` for copy engines with one copy per transfer (GPU targets).
    """

    blocks_per_link: int | None = None
    transport: str = "kernel"


TRANSPORTS = ("kernel", "dma")

MAX_PER_LINK = 32
"""Maximum number of thread blocks that share the work of a link."""


SLOT_BYTES = 1024 * 1024
"""Maximum bytes of a scratch slot on a GPU."""

L2_BYTES = 40 * 1024 * 1024
"""Scratch bytes of one epoch. An H100 has 50 MB of L2, which also has to hold input and output."""


def gpu_slot_bytes(slots: int) -> int:
    """Return the bytes of a scratch slot on GPUs.

    Args:
        slots: Maximum number of slots of a direct program, which serves large buffers (126 on
            dgx-h100).
    """
    unit = 64 * 1024
    return max(unit, min(SLOT_BYTES, L2_BYTES // max(1, slots) // unit * unit))


COMMON_FILES = (
    "sccl.h",
    "steps.hpp",
    "tables.hpp",
    "selection.hpp",
    "selection.cpp",
    "call.hpp",
    "library.hpp",
    "meeting.hpp",
    "by_mpi.hpp",
    "shared_memory.hpp",
    "types.hpp",
    "plain.hpp",
    "api.cpp",
    "preload.cpp",
    "irregular.cpp",
    "passed.cpp",
    "bench.cpp",
)

VARIANTS = (
    {"suffix": "", "count": "int", "displacement": "int", "condition": "1"},
    {
        "suffix": "_c",
        "count": "MPI_Count",
        "displacement": "MPI_Aint",
        "condition": "MPI_VERSION >= 4",
    },
)
"""Variants of MPI's functions: the ordinary ones and those for large counts of MPI 4."""
