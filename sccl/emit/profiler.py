"""The program that times transfers between GPUs: what of it CUDA and HIP spell differently."""

from __future__ import annotations

from sccl.core.files.disk import data_dir, read_text
from sccl.emit import cuda, gpu, hip
from sccl.emit.text import render

_TEXTS = {"cuda": cuda.TEXTS, "hip": hip.TEXTS}
_AS_THEY_ARE = ("gpus.cpp", "plan.hpp")


def profiler_files(target: str) -> dict[str, str]:
    """Return its sources by file name: the runtime of generated code, and what times it.

    Args:
        target: ``cuda`` or ``hip``.
    """
    values = {**_TEXTS[target], "threads": gpu.THREADS}
    folder = data_dir("codegen_templates") / "profile"
    return {
        **{name: read_text(folder / name) for name in _AS_THEY_ARE},
        "gpu.hpp": render("gpu/gpu.hpp.jinja", values),
        "Makefile": render("profile/Makefile.jinja", values),
    }
