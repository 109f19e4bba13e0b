"""Start child processes that import modules as their parent does, and end when it ends."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """\
import importlib, json, sys
paths, parent, module, arguments = json.loads(sys.argv[1])
sys.path[:] = paths
from sccl.solvers.process_control import end_with_parent
end_with_parent(parent)
importlib.import_module(module).main(*arguments)
"""


def start_process(module: str, *arguments: Any, **settings: Any) -> subprocess.Popen[bytes]:
    """Start ``module.main(*arguments)`` in a child process.

    Ctrl-C reaches only the parent, which must then end the process. On Linux, the process is killed
    when the thread that started it ends for any reason.

    Args:
        module: name of the module.
        arguments: JSON values.
        settings: additional arguments of Popen, such as pipes and files.

    Raises:
        OSError: the process cannot be started.
    """
    paths = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
    payload = json.dumps([paths, os.getpid(), module, arguments])
    # -P keeps files in the user's folder from being imported as modules.
    return subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-P", "-c", _PROGRAM, payload], start_new_session=True, **settings
    )


def end_with_parent(parent: int) -> None:
    """Have Linux kill this process when its parent ends, and exit if the parent is already gone."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def last_line(complaint: bytes) -> str:
    """Return the last line of a process's stderr, which names the error of a Python program."""
    lines = complaint.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"
