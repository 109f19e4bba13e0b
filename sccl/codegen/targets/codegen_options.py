"""What all targets share beside the templates' values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodegenOptions:
    """How to generate.

    Attributes:
        blocks_per_link: thread blocks that share the work of one link (GPU targets); None: as many
            as each algorithm's use of its links asks for.
        transport: ``kernel``, or ``dma``: copy engines, one copy for each transfer (GPU targets).
    """

    blocks_per_link: int | None = None
    transport: str = "kernel"


TRANSPORTS = ("kernel", "dma")

MAX_PER_LINK = 32
"""Thread blocks that may share the work of a link."""


SLOT_BYTES = 1024 * 1024
"""Most bytes of a slot of scratch on a GPU."""

L2_BYTES = 40 * 1024 * 1024
"""Bytes of scratch of one epoch: an H100 has 50 MB of L2, in which input and output lie, too."""


def gpu_slot_bytes(slots: int) -> int:
    """Return the bytes of a slot on GPUs.

    Args:
        slots: Most slots of a direct program, which serves large buffers. On dgx-h100 it is 126.
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
"""MPI's functions, and those for large counts that MPI 4 added."""
