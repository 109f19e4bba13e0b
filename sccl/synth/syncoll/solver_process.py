"""Run a solver of instances in a child process. Both directions use sccl's JSON."""

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
    """A solver's process, used as a context. The end of the context ends the process.

    Raises:
        ToolError: The process cannot be started.
    """

    def __init__(self, solver: str, instance: Instance, effort: Effort) -> None:
        self.instance, self.spending = instance, EffortMeter(effort)
        super().__init__(solver, __name__, solver, effort.seed, effort.units)

    def answer(self) -> Answer:
        """Wait for the answer and return it. It is not verified yet.

        Raises:
            SolverError: The process failed, or was ended.
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
    """Read an instance from stdin, and write the answer to stdout (in the child process)."""
    wire = parse(sys.stdin.read(), InstanceWire, "question")
    backend = solve.load(solver)
    work = getattr(backend, "answer_in_process", backend.answer)
    answer = work(instance_from_wire(wire, "question"), Effort(None, seed, units))
    sys.stdout.buffer.write(msgspec.json.encode(answer_to_wire(answer)))
