"""Re-execute an algorithm step by step, and report every violation.

This module shares no code with encoders, solvers or transformations. It checks the definitions of
SCCL sections 3.2 and 3.3: the run V_0 .. V_S, the bandwidth of each constraint in each step, and
the postcondition. For reductions, it tracks the contributions of every partial result (section
3.5).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from sccl.core.algorithm import Algorithm, Send
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm
from sccl.core.topology import Constraint
from sccl.judge.execution import Execution
from sccl.judge.violation import ChunkPlace, Contributions, Violation


def violations(algorithm: Algorithm) -> list[Violation]:
    """Return all violations of an algorithm. An empty list means that it is valid.

    The checks are: Each step has at least one round. Each send is over a link, and its sender holds
    the chunk at the start of the step. In step s, no bandwidth constraint b carries more than
    b * r_s chunks. The postcondition holds at the end. For reductions, each partial result counts a
    contribution at most once, and each final result counts every contribution exactly once.
    """
    every_chunk = range(algorithm.collective.num_chunks)
    return [*chunk_violations(algorithm, every_chunk), *_bandwidth_violations(algorithm)]


def chunk_violations(algorithm: AnyAlgorithm, chunks: Sequence[int]) -> Iterator[Violation]:
    """Yield the violations of some chunks, without those of bandwidth.

    Args:
        algorithm: Plan with all sends of these chunks, and no others.
        chunks: Chunks to check. The postconditions of others are ignored.
    """
    yield from malformed_violations(algorithm)
    sends = _sends_in_range(algorithm)
    edges = algorithm.topology.edges
    for send in sends:
        if send.edge not in edges:
            text = f"{describe_send(send)}: there is no link {send.src}->{send.dst}"
            yield Violation("link", text, send.step, send.chunk, send.dst)
    yield from _run(algorithm.collective, sends, chunks)


def malformed_violations(algorithm: AnyAlgorithm) -> Iterator[Violation]:
    """Yield numbers out of range: of ranks, rounds, and the fields of sends."""
    if algorithm.collective.ranks != algorithm.topology.ranks:
        text = (
            f"{algorithm.collective.name} is for {algorithm.collective.ranks} ranks and the "
            f"topology has {algorithm.topology.ranks}"
        )
        yield Violation("collective", text)
    for step, rounds in enumerate(algorithm.rounds_per_step):
        if rounds < 1:
            text = f"step {step} has {rounds} rounds, at least 1 expected"
            yield Violation("rounds", text, step=step)
    is_in_range = _range_test(algorithm)
    for send in algorithm.sends:
        if not is_in_range(send):
            text = f"{describe_send(send)}: that step, chunk or rank does not exist"
            yield Violation("range", text, send.step, send.chunk, send.dst)


def bandwidth_violation(constraint: Constraint, step: int, used: int, rounds: int) -> Violation:
    """Return the violation that a constraint carries more chunks in a step than it can."""
    text = (
        f"step {step}: {constraint.name} carries {used} chunks, "
        f"{constraint.chunks_per_round} per round x {rounds} rounds = "
        f"{constraint.chunks_per_round * max(rounds, 0)} allowed"
    )
    return Violation("bandwidth", text, step=step, rank=constraint.edges[0][0])


def count_violations(algorithm: SymmetricAlgorithm, count: int) -> Iterator[Violation]:
    """Yield a violation if an algorithm does not have as many sends as it states."""
    if count != algorithm.num_sends:
        text = f"it states {algorithm.num_sends} sends, and has {count}"
        yield Violation("range", text)


def describe_send(send: Send) -> str:
    """Return a description of a send, as in SCCL's appendix A.5.1."""
    how = "reduce-send" if send.reduce else "send"
    return f"{how} {send.chunk} from {send.src} to {send.dst} at step {send.step}"


def _range_test(algorithm: AnyAlgorithm) -> Callable[[Send], bool]:
    """Return the predicate whether the step, chunk, and ranks of a send exist."""
    steps, chunks = algorithm.steps, algorithm.collective.num_chunks
    ranks = algorithm.topology.ranks  # sends cannot end at switches, which hold no chunks
    return lambda send: (
        0 <= send.step < steps
        and 0 <= send.chunk < chunks
        and 0 <= send.src < ranks
        and 0 <= send.dst < ranks
    )


def _sends_in_range(algorithm: AnyAlgorithm) -> list[Send]:
    return list(filter(_range_test(algorithm), algorithm.sends))


def _bandwidth_violations(algorithm: Algorithm) -> Iterator[Violation]:
    load: Counter[tuple[int, Edge]] = Counter(
        (send.step, send.edge) for send in _sends_in_range(algorithm)
    )
    for constraint in algorithm.topology.constraints():
        for step, rounds in enumerate(algorithm.rounds_per_step):
            used = sum(load[step, edge] for edge in constraint.edges)
            if used > constraint.chunks_per_round * max(rounds, 0):
                yield bandwidth_violation(constraint, step, used, rounds)


def _run(
    collective: Collective, sends: Iterable[Send], chunks: Sequence[int]
) -> Iterator[Violation]:
    """Run V_{s+1} = V_s + the values that holders send in step s (SCCL section 3.3).

    Args:
        collective: Collective.
        sends: Sends, ascending by step.
        chunks: Chunks to execute.
    """
    run = _StepExecution(collective, chunks)
    for _, together in groupby(sends, key=lambda send: send.step):
        arrivals: dict[ChunkPlace, list[tuple[Send, Contributions]]] = defaultdict(list)
        for send in together:
            yield from run.misuse_violations(send)
            if (sent := run.value.get((send.chunk, send.src))) is None:
                yield run.unavailable_violation(send)
            else:  # all sends of a step carry the values from its start
                arrivals[send.chunk, send.dst].append((send, sent))
        for place, incoming in arrivals.items():
            yield from run.receive(place, incoming)
    yield from run.final_violations()


class _StepExecution(Execution[Send]):
    UNIT = "step"

    def describe(self, transfer: Send) -> str:
        return describe_send(transfer)

    def arrival(self, transfer: Send) -> str:
        return f"step {transfer.step}"

    def violation(
        self,
        transfer: Send,
        kind: str,
        text: str,
        node: int,
        *,
        arriving: bool = False,  # noqa: ARG002 - sends arrive in the step in which they start
    ) -> Violation:
        return Violation(kind, text, transfer.step, transfer.chunk, node)
