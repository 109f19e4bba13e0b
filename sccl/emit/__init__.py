"""Generated code: bundles of algorithms become self-contained C++, CUDA and HIP projects."""

from sccl.emit.project import (
    PROGRAM_FILE,
    generate,
    selected,
    targets,
    write_project,
)
from sccl.emit.selection import Selection, Switch
from sccl.emit.shared import Options

__all__ = [
    "PROGRAM_FILE",
    "Options",
    "Selection",
    "Switch",
    "generate",
    "selected",
    "targets",
    "write_project",
]
