"""What all targets share beside the templates' values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmitOptions:
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
