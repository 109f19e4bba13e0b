"""A solver at work in a process of its own, which can be ended at any moment.

Question and answer travel as sccl's own JSON. The child ends with its parent, however that ends.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

import sccl.backends
from sccl.backends.limits import Limits
from sccl.core.answer import Answer, Unknown
from sccl.core.codec import answer_of_wire, answer_to_wire, instance_of_wire, instance_to_wire
from sccl.core.instance import Instance
from sccl.core.text import parse
from sccl.core.wire import AnswerWire, InstanceWire
from sccl.errors import InputError, SolverError

_PROGRAM = """\
import json, sys
paths, solver, seed = json.loads(sys.argv[1])
sys.path[:] = paths
from sccl.backends.child import main
main(solver, seed)
"""


class Child:
    """A solver's process; to be used as a context, whose end is the end of the process."""

    def __init__(self, solver: str, instance: Instance, limits: Limits) -> None:
        self.solver, self.instance, self.limits = solver, instance, limits
        self.begin = time.perf_counter()
        paths = [str(Path(sccl.__file__).parents[1]), *filter(None, sys.path)]
        # -P: what lies in the user's folder must not be taken for a module. A new session: Ctrl-C
        # reaches the parent alone, which then ends the child.
        self.process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps([paths, solver, limits.seed])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

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
            reply, complaint = self.process.communicate(question, timeout=self.limits.timeout_s)
        except subprocess.TimeoutExpired:
            self.end()
            self.process.communicate()
            seconds = time.perf_counter() - self.begin
            return Unknown(f"timeout after {self.limits.timeout_s:g} s", self.solver, seconds)
        if self.process.returncode != 0:
            last = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise SolverError(
                f"{self.solver} ended with exit code {self.process.returncode}: {last[0]}"
            )
        try:
            return answer_of_wire(parse(reply.decode(), AnswerWire, self.solver), self.solver)
        except InputError as error:
            raise SolverError(f"{self.solver}'s answer cannot be read: {error}") from error


def main(solver: str, seed: int) -> None:
    """Answer the instance on stdin with an answer on stdout: what the child process does."""
    _end_with_parent()
    wire = parse(sys.stdin.read(), InstanceWire, "question")
    backend = sccl.backends.load(solver)
    work = getattr(backend, "answer_here", backend.answer)
    found = work(instance_of_wire(wire, "question"), Limits(None, seed))
    sys.stdout.buffer.write(msgspec.json.encode(answer_to_wire(found)))


def _end_with_parent() -> None:
    """Ask Linux to kill this process when its parent is gone, however that ended."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
