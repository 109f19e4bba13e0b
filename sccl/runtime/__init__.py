"""Running: generated projects are built, run under MPI, measured and tuned."""

from sccl.runtime.compare import Timing, Trial, by_collective, fastest, speedup, timed
from sccl.runtime.mpi import Mpi, find_mpi, mpi_folder
from sccl.runtime.profile import LinkTrial, link_timings
from sccl.runtime.profile_gpus import gpu_profiler
from sccl.runtime.project import PLAIN, Project, build, build_plain, load_project, select, select_on
from sccl.runtime.tools import Check, CheckResult, ToolState, answer, try_all
from sccl.runtime.tune import tuned

__all__ = [
    "PLAIN",
    "Check",
    "CheckResult",
    "LinkTrial",
    "Mpi",
    "Project",
    "Timing",
    "ToolState",
    "Trial",
    "answer",
    "build",
    "build_plain",
    "by_collective",
    "fastest",
    "find_mpi",
    "gpu_profiler",
    "link_timings",
    "load_project",
    "mpi_folder",
    "select",
    "select_on",
    "speedup",
    "timed",
    "try_all",
    "tuned",
]
