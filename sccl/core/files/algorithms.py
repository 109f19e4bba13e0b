"""Convert algorithms, instances and answers to files and back.

A symmetric algorithm is written with its representative sends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat, describe_solver, verdict
from sccl.core.collective import Collective
from sccl.core.files.collectives import check_pairs, collective_from_wire, collective_to_wire
from sccl.core.files.disk import read_text
from sccl.core.files.json_text import detect_text_kind, has_valid_digest, parse
from sccl.core.files.kinds import SYMMETRIC_ALGORITHM
from sccl.core.files.shapes import (
    AlgorithmWire,
    AnswerWire,
    AnyAlgorithmWire,
    GeneratorWire,
    InstanceWire,
    SymmetricAlgorithmWire,
    cost_from_text,
)
from sccl.core.files.topologies import topology_from_wire, topology_to_wire
from sccl.core.instance import Instance
from sccl.core.stop import StopReason
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm, Symmetry
from sccl.core.topology import Topology
from sccl.errors import FormatError


def load_algorithm(path: Path) -> tuple[AnyAlgorithm, bool]:
    """Return the algorithm in a file, and whether its content still has the digest it states.

    Raises:
        InputError: the file cannot be read, or is not an algorithm.
    """
    where = str(path)
    text = read_text(path)
    wire: AnyAlgorithmWire
    if detect_text_kind(text, where) == SYMMETRIC_ALGORITHM:
        wire = parse(text, SymmetricAlgorithmWire, where)
    else:
        wire = parse(text, AlgorithmWire, where)
    return algorithm_from_wire(wire, where), has_valid_digest(wire)


def algorithm_to_wire(algorithm: AnyAlgorithm) -> AnyAlgorithmWire:
    """Return the file shape of an algorithm, symmetric or not."""
    shared: dict[str, Any] = {
        "collective": collective_to_wire(algorithm.collective),
        "topology": topology_to_wire(algorithm.topology),
        "scope": algorithm.scope,
        "proved": algorithm.proved,
        "rounds_per_step": algorithm.rounds_per_step,
    }
    if isinstance(algorithm, Algorithm):
        sends = algorithm.sends
        return AlgorithmWire(
            **shared,
            sends=tuple((s.step, s.chunk, s.src, s.dst, 1 if s.reduce else 0) for s in sends),
        )
    return SymmetricAlgorithmWire(
        **shared,
        symmetries=tuple(
            GeneratorWire(ranks=s.ranks, turn=s.chunk_shift, period=s.period)
            for s in algorithm.symmetries
        ),
        num_sends=algorithm.num_sends,
        sends=tuple((s.step, s.chunk, s.src, s.dst) for s in algorithm.sends),
    )


def algorithm_from_wire(wire: AnyAlgorithmWire, where: str) -> AnyAlgorithm:
    """Return the algorithm of a file shape, without verifying it.

    Raises:
        FormatError: Its topology or collective is inconsistent, they do not match, or a symmetry is
            no permutation of the ranks.
    """
    topology = topology_from_wire(wire.topology, f"{where}, $.topology")
    collective = collective_from_wire(wire.collective, where)
    if collective.ranks != topology.ranks:
        raise FormatError(
            f"{where}: the collective is for {collective.ranks} ranks and the topology has "
            f"{topology.ranks}, expected the same number"
        )
    if isinstance(wire, AlgorithmWire):
        return _plain(wire, topology, collective, where)
    return _symmetric(wire, topology, collective, where)


def _plain(
    wire: AlgorithmWire, topology: Topology, collective: Collective, where: str
) -> Algorithm:
    check_pairs(collective, len(wire.sends), where)
    return Algorithm(
        topology=topology,
        collective=collective,
        rounds_per_step=wire.rounds_per_step,
        sends=tuple(make_send(c, u, v, s, reduce=bool(red)) for s, c, u, v, red in wire.sends),
        scope=wire.scope,
        proved=wire.proved,
    )


def _symmetric(
    wire: SymmetricAlgorithmWire, topology: Topology, collective: Collective, where: str
) -> SymmetricAlgorithm:
    for i, generator in enumerate(wire.symmetries):
        if sorted(generator.ranks) != list(range(topology.ranks)):
            raise FormatError(
                f"{where}, $.symmetries[{i}].ranks: expected each rank from 0 to "
                f"{topology.ranks - 1} once"
            )
    for i, (_, chunk, src, dst) in enumerate(wire.sends):
        fits = 0 <= chunk < collective.num_chunks
        if not (fits and 0 <= src < topology.ranks and 0 <= dst < topology.ranks):
            raise FormatError(f"{where}, $.sends[{i}]: that chunk or rank does not exist")
    return SymmetricAlgorithm(
        topology=topology,
        collective=collective,
        rounds_per_step=wire.rounds_per_step,
        symmetries=tuple(Symmetry(g.ranks, g.turn % g.period, g.period) for g in wire.symmetries),
        sends=tuple(make_send(c, u, v, s) for s, c, u, v in wire.sends),
        num_sends=wire.num_sends,
        scope=wire.scope,
        proved=wire.proved,
    )


# --- instances and answers -----------------------------------------------------------------------


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
        FormatError: A part is inconsistent.
        InputError: The parts do not form an instance.
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
        FormatError: It is "sat" without an algorithm, or the algorithm is inconsistent.
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
