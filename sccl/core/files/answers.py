"""Instances and answers as files and back."""

from __future__ import annotations

from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat, describe_solver, verdict
from sccl.core.files.algorithms import algorithm_from_wire, algorithm_to_wire
from sccl.core.files.collectives import collective_from_wire, collective_to_wire
from sccl.core.files.fields import cost_from_text
from sccl.core.files.shapes import AlgorithmWire, AnswerWire, InstanceWire, SymmetricAlgorithmWire
from sccl.core.files.topologies import topology_from_wire, topology_to_wire
from sccl.core.instance import Instance
from sccl.core.stop import StopReason
from sccl.errors import FormatError


def instance_to_wire(instance: Instance) -> InstanceWire:
    """Return the file shape of an instance."""
    return InstanceWire(
        topology=topology_to_wire(instance.topology),
        collective=collective_to_wire(instance.collective),
        steps=instance.steps,
        rounds=instance.rounds,
    )


def instance_from_wire(wire: InstanceWire, where: str) -> Instance:
    """Return the instance of a file shape.

    Raises:
        FormatError: a part contradicts itself.
        InputError: the parts do not make an instance.
    """
    return Instance(
        topology_from_wire(wire.topology, f"{where}, $.topology"),
        collective_from_wire(wire.collective, where),
        wire.steps,
        wire.rounds,
    )


def answer_to_wire(answer: Answer) -> AnswerWire:
    """Return the file shape of an answer."""
    algorithm, reason = None, ""
    is_of_cluster = isinstance(answer, Unsat) and answer.origin is Origin.CLUSTER
    match answer:
        case Sat(found):
            algorithm = algorithm_to_wire(found)
        case Unsat(evidence):
            reason = evidence
        case Unknown(why):
            reason = str(why)
    return AnswerWire(
        answer=verdict(answer),
        solver=describe_solver(answer),
        group=answer.group if isinstance(answer, Sat) else "",
        seconds=answer.seconds,
        reason=reason,
        origin="cluster" if is_of_cluster else "here",
        best="" if not isinstance(answer, Unknown) or answer.best is None else str(answer.best),
        algorithm=algorithm if isinstance(algorithm, AlgorithmWire) else None,
        symmetric=algorithm if isinstance(algorithm, SymmetricAlgorithmWire) else None,
    )


def answer_from_wire(wire: AnswerWire, where: str) -> Answer:
    """Return the answer of a file shape.

    Raises:
        FormatError: it says "sat" and carries no algorithm, or the algorithm contradicts itself.
    """
    if wire.answer == "unsat":
        return Unsat(wire.reason, wire.solver, wire.seconds, origin=Origin(wire.origin))
    if wire.answer == "unknown":
        best = cost_from_text(wire.best) if wire.best else None
        return Unknown(StopReason.parse(wire.reason), wire.solver, wire.seconds, best=best)
    name = "algorithm" if wire.symmetric is None else "symmetric"
    algorithm = wire.algorithm if wire.symmetric is None else wire.symmetric
    if algorithm is None:
        raise FormatError(f"{where}: the answer is 'sat' and has no 'algorithm'")
    solution = algorithm_from_wire(algorithm, f"{where}, $.{name}")
    solver = wire.solver.removesuffix(f" ({wire.group})")
    return Sat(solution, solver, wire.seconds, group=wire.group)
