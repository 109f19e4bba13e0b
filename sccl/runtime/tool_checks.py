"""Try whether external tools work on this machine, in child processes with a time limit."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sccl.errors import ToolError
from sccl.runtime.command_sessions import run_session

SECONDS = 30.0
"""Seconds after which a tool without an answer counts as broken."""

_MAX_CONCURRENT = 4
_READ = 1 << 20  # maximum bytes of a tool's output that are read
_VERSION = re.compile(r"\d+(?:\.\d+)+")


class ToolState(StrEnum):
    """The result of trying a tool."""

    OK = "ok"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class ToolCheck:
    """A trial of a tool.

    Attributes:
        command: Command to run. A name without a folder is looked up on PATH.
        success_pattern: Regular expression for the output of a working tool.
        version: Version, if known. Empty: the first number with a dot in the output.
        files: Name and text of files in the working directory of the command.
        missing_pattern: Regular expression for the output of ``command`` if the tool is not
            installed.
    """

    command: tuple[str, ...]
    success_pattern: str = ""
    version: str = ""
    files: tuple[tuple[str, str], ...] = ()
    missing_pattern: str = r"(?!)"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    Attributes:
        version: Version. Empty if the tool does not work, or prints none.
        path: Path of the command. Empty if the tool is missing.
        problem: Reason why the tool is broken, as a clause. Empty if it is not.
    """

    state: ToolState
    version: str = ""
    path: str = ""
    problem: str = ""


def try_all(checks: Sequence[ToolCheck], seconds: float = SECONDS) -> list[CheckResult]:
    """Return the result of each check, in order, within about ``seconds`` for each."""
    with ThreadPoolExecutor(_MAX_CONCURRENT) as pool:
        return list(pool.map(lambda check: _try_tool(check, seconds), checks))


def _try_tool(check: ToolCheck, seconds: float) -> CheckResult:
    path = shutil.which(check.command[0])
    if path is None:
        return CheckResult(ToolState.MISSING)
    try:
        code, text = _run((path, *check.command[1:]), seconds, check.files)
    except subprocess.TimeoutExpired:
        return CheckResult(ToolState.BROKEN, path=path, problem=f"no answer within {seconds:g} s")
    except OSError as error:
        reason = error.strerror or str(error)
        return CheckResult(ToolState.BROKEN, path=path, problem=f"it does not start ({reason})")
    if re.search(check.missing_pattern, text):
        return CheckResult(ToolState.MISSING)
    if code or not re.search(check.success_pattern, text):
        end = " ".join(text.split())[-120:] or "nothing"
        return CheckResult(
            ToolState.BROKEN, path=path, problem=f"exit code {code}, it printed: {end}"
        )
    match = _VERSION.search(text)
    return CheckResult(ToolState.OK, check.version or (match[0] if match else ""), path)


def command_output(command: Sequence[str], seconds: float = SECONDS) -> str:
    """Return the output of a command on stdout and stderr.

    Raises:
        ToolError: The command cannot be started, does not end within ``seconds``, or fails.
    """
    words = shlex.join([Path(command[0]).name, *command[1:]])
    try:
        code, text = _run(command, seconds)
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"{words}: no answer within {seconds:g} s") from error
    except OSError as error:
        raise ToolError(f"{words} does not start ({error.strerror or error})") from error
    if code:
        end = " ".join(text.split())[-200:] or "nothing"
        raise ToolError(f"{words} ended with exit code {code}, it printed: {end}")
    return text


def _run(
    command: Sequence[str], seconds: float, files: Iterable[tuple[str, str]] = ()
) -> tuple[int, str]:
    """Return the exit code and output of a command in a temporary folder with files.

    Raises:
        TimeoutExpired: The command did not end in time, and all its processes have been killed.
        OSError: The command cannot be started.
    """
    with (
        tempfile.TemporaryDirectory(prefix="sccl-") as folder,
        tempfile.TemporaryFile() as output,  # a pipe could be kept open by a child process
    ):
        for name, text in files:
            (Path(folder) / name).write_text(text, encoding="utf-8")
        with run_session(
            command,
            signal.SIGKILL,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process:
            code = process.wait(seconds)
        output.seek(0)
        return code, output.read(_READ).decode(errors="replace")
