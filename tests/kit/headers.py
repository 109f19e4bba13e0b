"""The standard headers that host projects include, compiled once for all builds of a run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.kit import once

NAMES = ("algorithm", "atomic", "chrono", "memory", "mutex", "random", "string", "thread", "vector")
"""Headers that take a third of the time of an unoptimized build."""

EMULATION = "-std=c++17 -fPIC -pthread -fvisibility=hidden"
HOST = f"{EMULATION} -fwrapv"
"""Flags of the Makefiles, because a compiler uses a precompiled header only with equal flags."""


def precompiled(flags: str, of_makefile: str = HOST) -> str:
    """Return flags by which a project is built without reading these headers again.

    Builds with other flags read the headers that each file includes by itself, and show that it
    includes them.
    """

    def fill(folder: Path) -> None:
        header = folder / "standard.hpp"
        header.write_text("".join(f"#include <{name}>\n" for name in NAMES))
        command = ["g++", *flags.split(), *of_makefile.split(), "-x", "c++-header", str(header)]
        subprocess.run(command, check=True)

    if shutil.which("g++") is None:
        return flags
    return (
        f"{flags} -include {once.folder(f'headers {flags} {of_makefile}', fill) / 'standard.hpp'}"
    )
