"""Generated code: bundles of algorithms become self-contained C++, CUDA and HIP projects."""

from sccl.emit.project import (
    PROGRAM_FILE,
    SELECTION_FILE,
    generate,
    selection_text,
    targets,
    write_project,
)
from sccl.emit.shared import Options

__all__ = [
    "PROGRAM_FILE",
    "SELECTION_FILE",
    "Options",
    "generate",
    "selection_text",
    "targets",
    "write_project",
]
