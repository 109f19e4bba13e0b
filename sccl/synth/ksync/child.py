"""A solver at work in a process of its own, which can be ended at any moment.

Question and answer travel as sccl's own JSON. The child ends with its parent, however that ends.
"""

from __future__ import annotations

import subprocess
import sys
import time
from types import TracebackType
from typing import Self

import msgspec

import sccl.synth.ksync.backends
from sccl.core.answer import Answer, Unknown
from sccl.core.files.answers import (
    answer_of_wire,
    answer_to_wire,
    instance_of_wire,
    instance_to_wire,
)
from sccl.core.files.shapes import AnswerWire, InstanceWire
from sccl.core.files.text import parse
from sccl.core.instance import Instance
from sccl.errors import InputError, SolverError, ToolError
from sccl.solvers.effort import Effort
from sccl.solvers.processes import last_line, start


class Child:
    """A solver's process; to be used as a context, whose end is the end of the process.

    Raises:
        ToolError: it cannot be started.
    """

    def __init__(self, solver: str, instance: Instance, effort: Effort) -> None:
        self.solver, self.instance, self.effort = solver, instance, effort
        self.begin = time.perf_counter()
        pipe = subprocess.PIPE
        try:
            self.process = start(
                __name__, solver, effort.seed, effort.units, stdin=pipe, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            reason = error.strerror or error
            raise ToolError(f"cannot start the process of {solver} ({reason})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        self.process.wait()

    def end(self) -> None:
        """End the process, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()

    def answer(self) -> Answer:
        """Wait for the answer and return it; not yet judged.

        Raises:
            SolverError: the process broke, or was ended.
        """
        question = msgspec.json.encode(instance_to_wire(self.instance))
        try:
            reply, complaint = self.process.communicate(question, timeout=self.effort.timeout_s)
        except subprocess.TimeoutExpired:
            self.end()
            self.process.communicate()
            seconds = time.perf_counter() - self.begin
            return Unknown(f"timeout after {self.effort.timeout_s:g} s", self.solver, seconds)
        if self.process.returncode != 0:
            last = last_line(complaint)
            raise SolverError(
                f"{self.solver} ended with exit code {self.process.returncode}: {last}"
            )
        try:
            return answer_of_wire(parse(reply.decode(), AnswerWire, self.solver), self.solver)
        except InputError as error:
            raise SolverError(f"{self.solver}'s answer cannot be read: {error}") from error


def main(solver: str, seed: int, units: float | None) -> None:
    """Answer the instance on stdin with an answer on stdout: what the child process does."""
    wire = parse(sys.stdin.read(), InstanceWire, "question")
    backend = sccl.synth.ksync.backends.load(solver)
    work = getattr(backend, "answer_here", backend.answer)
    found = work(instance_of_wire(wire, "question"), Effort(None, seed, units))
    sys.stdout.buffer.write(msgspec.json.encode(answer_to_wire(found)))
