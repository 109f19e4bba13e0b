"""What all targets share beside the templates' values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """How to generate.

    Attributes:
        blocks_per_link: thread blocks that share the work of one link (GPU targets).
        transport: ``kernel``, or ``dma``: copy engines, one copy for each transfer (GPU targets).
    """

    blocks_per_link: int = 2
    transport: str = "kernel"


TRANSPORTS = ("kernel", "dma")


COMMON_FILES = (
    "sccl.h",
    "steps.hpp",
    "tables.hpp",
    "selection.hpp",
    "selection.cpp",
    "call.hpp",
    "library.hpp",
    "types.hpp",
    "plain.hpp",
    "api.cpp",
    "preload.cpp",
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
