"""Running: generated projects are built, run under MPI, measured and tuned."""

from sccl.runtime.compare import Timing, compare, fastest, in_groups, speedup
from sccl.runtime.mpi import Mpi, find_mpi
from sccl.runtime.project import Project, build, load_project, run
from sccl.runtime.tune import tuned_selection

__all__ = [
    "Mpi",
    "Project",
    "Timing",
    "build",
    "compare",
    "fastest",
    "find_mpi",
    "in_groups",
    "load_project",
    "run",
    "speedup",
    "tuned_selection",
]
