"""Generated code: bundles of algorithms become self-contained C++, CUDA and HIP projects."""

from sccl.emit.profiler import profiler_files
from sccl.emit.programs import PROGRAM_FILE
from sccl.emit.project import generate, selected, targets, write_project
from sccl.emit.selection import Selection, SwitchPoint
from sccl.emit.shared import EmitOptions
from sccl.emit.switch_points import selection_on

__all__ = [
    "PROGRAM_FILE",
    "EmitOptions",
    "Selection",
    "SwitchPoint",
    "generate",
    "profiler_files",
    "selected",
    "selection_on",
    "targets",
    "write_project",
]
