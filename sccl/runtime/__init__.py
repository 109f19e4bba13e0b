"""Build generated projects, run them under MPI, measure them, and tune them."""

from sccl.runtime.link_profile import LinkTrial, build_gpu_profiler, measure_links
from sccl.runtime.measure import (
    ContenderTiming,
    TimingTrial,
    fastest_contenders,
    geometric_speedup,
    group_by_collective,
    time_projects,
    tune_selection,
)
from sccl.runtime.mpi import Mpi, find_mpi, mpi_folder
from sccl.runtime.project import (
    PLAIN_LIBRARY,
    Project,
    build_plain_library,
    build_project,
    load_project,
    write_selection,
)
from sccl.runtime.tool_checks import CheckResult, ToolCheck, ToolState, command_output, try_all

__all__ = [
    "PLAIN_LIBRARY",
    "CheckResult",
    "ContenderTiming",
    "LinkTrial",
    "Mpi",
    "Project",
    "TimingTrial",
    "ToolCheck",
    "ToolState",
    "build_gpu_profiler",
    "build_plain_library",
    "build_project",
    "command_output",
    "fastest_contenders",
    "find_mpi",
    "geometric_speedup",
    "group_by_collective",
    "load_project",
    "measure_links",
    "mpi_folder",
    "time_projects",
    "try_all",
    "tune_selection",
    "write_selection",
]
