"""Run a task in a child process that can be killed at any time, with bytes as input and output.

The child ends when its parent ends for any reason.
"""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Any, Self

from sccl.errors import SolverError, ToolError
from sccl.solvers.process_control import last_line, start_process


class Child:
    """A child process that runs ``module.main(*arguments)``.

    Use it as a context manager, which kills the process at its end.

    Args:
        name: name of the task, for error messages.
        module: name of the module. Its ``main`` reads stdin to the end and writes to stdout.
        arguments: JSON values.

    Raises:
        ToolError: the process cannot be started.
    """

    def __init__(self, name: str, module: str, *arguments: Any) -> None:
        self.name = name
        pipe = subprocess.PIPE
        try:
            self.process = start_process(module, *arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            reason = error.strerror or error
            raise ToolError(f"cannot start the process of {name} ({reason})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()  # nothing happens if it has ended
        self.process.wait()

    def reply(self, question: bytes, timeout_s: float | None = None) -> bytes:
        """Write the input to the process, and return its output.

        Args:
            question: input.
            timeout_s: seconds to wait. None: no limit.

        Raises:
            TimeoutError: the process did not end in time, and has been killed.
            SolverError: the process failed, or was killed.
        """
        try:
            reply, complaint = self.process.communicate(question, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.communicate()
            raise TimeoutError(f"{self.name} has not answered in time") from error
        if self.process.returncode != 0:
            code, last = self.process.returncode, last_line(complaint)
            raise SolverError(f"{self.name} ended with exit code {code}: {last}")
        return reply
