"""Time copies between pairs of GPUs in one process, one pair after another.

TACCL (NSDI 2023), section 4.1: n chunks one after another, and n at once. The copies are those of
generated code with copy engines. The host's time to notice the end of a copy is measured with an
event and subtracted.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sccl.codegen.targets.gpu_profiler import profiler_files
from sccl.core.files.disk import write_folder
from sccl.core.formatting import format_count
from sccl.core.measurements import LinkTiming
from sccl.core.topology import BusIds
from sccl.errors import InputError, ToolError
from sccl.runtime.command_sessions import iterate_lines
from sccl.runtime.link_profile import LinkTrial, run_profiler

_COMPILERS = {"cuda": "nvcc", "hip": "hipcc"}


@dataclass(frozen=True, slots=True)
class GpuProfiler:
    """A program that times transfers between the GPUs that it sees, built.

    Attributes:
        folder: where it lies.
        gpus: how many it sees, at least two.
    """

    folder: Path
    gpus: int

    def measure(
        self, trial: LinkTrial, bus_ids: BusIds, notify: Callable[[str], None]
    ) -> tuple[LinkTiming, ...]:
        """Run the program, and return its measurements.

        Args:
            trial: Parameters, with GPUs as ranks.
            bus_ids: PCI bus id of each GPU. Without ids, the numbers of CUDA or HIP apply.
            notify: Function that receives progress.

        Raises:
            InputError: Fewer GPUs are visible than ``trial`` has ranks.
            ToolError: A GPU failed.
        """
        if trial.ranks > self.gpus:
            raise InputError(
                f"{format_count(self.gpus, 'GPU')} can be seen, and {trial.ranks} are to be "
                "measured: "
                "name a machine of as many, or leave --topo out"
            )
        order = (bus_ids if isinstance(bus_ids, str) else ",".join(bus_ids)) or "device"
        words = [str(self.folder / "gpus"), order, *trial.arguments()]
        return run_profiler(words, self.folder, os.environ, trial, notify)


@contextmanager
def build_gpu_profiler(notify: Callable[[str], None] = lambda _: None) -> Iterator[GpuProfiler]:
    """Build the program that times transfers between GPUs. It is removed at the end.

    Args:
        notify: Function that receives progress.

    Raises:
        ToolError: No compiler for GPUs works, or fewer than two GPUs are visible.
    """
    target, compiler = _compiler()
    make = shutil.which("make")
    if make is None:
        raise ToolError("make is missing: install it (Debian, Ubuntu: apt-get install make)")
    with tempfile.TemporaryDirectory(prefix="sccl-profile-") as place:
        folder = Path(place)
        write_folder(folder, profiler_files(target), last="Makefile")
        notify(f"compiling with {compiler}")
        words = [make, "-s", f"GPUCXX={compiler}", "gpus"]
        built = iterate_lines(words, folder, os.environ, lambda _: f"{compiler} failed")
        with closing(built) as lines:
            for _ in lines:
                pass
        yield GpuProfiler(folder, _visible_gpus(folder))


def _compiler() -> tuple[str, str]:
    """Return a target and its compiler, as Makefiles of projects choose it: GPUCXX, or by name.

    Raises:
        ToolError: there is none.
    """
    named = os.environ.get("GPUCXX")
    tools = {"hip" if "hip" in Path(named).name else "cuda": named} if named else _COMPILERS
    for target, compiler in tools.items():
        if shutil.which(compiler):
            return target, compiler
    raise ToolError(
        f"no {' and no '.join(tools.values())} found, which --gpus needs: install the CUDA "
        "toolkit or HIP's compiler (see 'sccl doctor'), or give --ranks to measure MPI ranks"
    )


def _visible_gpus(folder: Path) -> int:
    """Return how many GPUs the program sees.

    Raises:
        ToolError: fewer than two, or it failed.
    """
    failed = "counting GPUs ended with exit code {}".format
    with closing(iterate_lines([str(folder / "gpus")], folder, os.environ, failed)) as lines:
        said = "".join(lines)
    try:
        record = json.loads(said)
        gpus, why = int(record["gpus"]), str(record["why"])
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(f"gpus printed {said!r}, expected a line of JSON") from error
    if gpus < 2:
        seen = f"no GPU can be seen ({why})" if not gpus else "1 GPU can be seen"
        raise ToolError(
            f"{seen}, and links are measured between two at least: run it on a machine that has "
            "them, or give --ranks to measure MPI ranks"
        )
    return gpus
