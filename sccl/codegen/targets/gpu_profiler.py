"""Sources of the program that times transfers between GPUs, for CUDA and HIP."""

from __future__ import annotations

from sccl.codegen.targets import cuda, gpu, hip
from sccl.codegen.targets.rendering import render
from sccl.core.files.disk import data_dir, read_text

_TEXTS = {"cuda": cuda.TEXTS, "hip": hip.TEXTS}
_VERBATIM_FILES = ("gpus.cpp", "plan.hpp")


def profiler_files(target: str) -> dict[str, str]:
    """Generate its sources by file name: the runtime of generated code and the timing program.

    Args:
        target: ``cuda`` or ``hip``.
    """
    values = {**_TEXTS[target], "threads": gpu.THREADS}
    folder = data_dir("codegen_templates") / "profile"
    return {
        **{name: read_text(folder / name) for name in _VERBATIM_FILES},
        "gpu.hpp": render("gpu/gpu.hpp.jinja", values),
        "Makefile": render("profile/Makefile.jinja", values),
    }
