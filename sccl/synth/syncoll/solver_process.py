"""A solver of instances at work in a child process. Both ways goes sccl's own JSON."""

from __future__ import annotations

import sys

import msgspec

from sccl.core.answer import Answer, Unknown
from sccl.core.files.algorithms import (
    answer_from_wire,
    answer_to_wire,
    instance_from_wire,
    instance_to_wire,
)
from sccl.core.files.json_text import parse
from sccl.core.files.shapes import AnswerWire, InstanceWire
from sccl.core.instance import Instance
from sccl.errors import InputError, SolverError
from sccl.solvers.child_task import Child
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.syncoll import solve


class SolverChild(Child):
    """A solver's process. To be used as a context, whose end is the end of the process.

    Raises:
        ToolError: it cannot be started.
    """

    def __init__(self, solver: str, instance: Instance, effort: Effort) -> None:
        self.instance, self.spending = instance, EffortMeter(effort)
        super().__init__(solver, __name__, solver, effort.seed, effort.units)

    def answer(self) -> Answer:
        """Wait for the answer and return it. Not yet judged.

        Raises:
            SolverError: the process broke, or was ended.
        """
        effort = self.spending.effort
        question = msgspec.json.encode(instance_to_wire(self.instance))
        try:
            reply = self.reply(question, effort.timeout_s)
        except TimeoutError:
            return Unknown(effort.timeout_reason, self.name, self.spending.elapsed_seconds())
        try:
            return answer_from_wire(parse(reply.decode(), AnswerWire, self.name), self.name)
        except InputError as error:
            raise SolverError(f"{self.name}'s answer cannot be read: {error}") from error


def main(solver: str, seed: int, units: float | None) -> None:
    """Answer the instance on stdin with an answer on stdout (in the child process)."""
    wire = parse(sys.stdin.read(), InstanceWire, "question")
    backend = solve.load(solver)
    work = getattr(backend, "answer_in_process", backend.answer)
    answer = work(instance_from_wire(wire, "question"), Effort(None, seed, units))
    sys.stdout.buffer.write(msgspec.json.encode(answer_to_wire(answer)))
