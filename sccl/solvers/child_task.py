"""A piece of work in a process of its own, which can be ended at any moment: bytes in, bytes out.

The child ends with its parent, however that ends.
"""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Any, Self

from sccl.errors import SolverError, ToolError
from sccl.solvers.process_control import last_line, start_process


class Child:
    """``module.main(*arguments)`` in a process. To be used as a context, whose end is its end.

    Args:
        name: who works there, for messages.
        module: its name. Its ``main`` reads stdin to the end and writes stdout.
        arguments: plain JSON values.

    Raises:
        ToolError: it cannot be started.
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
        """Send a question, and return the reply when it has come.

        Args:
            timeout_s: seconds to wait. None: however long it takes.

        Raises:
            TimeoutError: there was none in time. The process has been ended.
            SolverError: the process broke, or was ended.
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
