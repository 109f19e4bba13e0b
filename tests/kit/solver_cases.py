"""A bank of instances with known verdicts, and the conformance of a backend, written once.

Every backend is tested by one call of :func:`check_backend`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import msgspec

from sccl.collectives import resolve_collective
from sccl.core.algorithm import Algorithm
from sccl.core.answer import Answer, Sat, Unknown, Unsat, verdict
from sccl.core.files.algorithms import answer_to_wire
from sccl.judge import violations
from sccl.synth.syncoll import solve
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import Question, build_question, solve_question


@dataclass(frozen=True)
class Case:
    """A question with its answer.

    Attributes:
        why: how the verdict is known without a solver.
    """

    topology: str
    collective: str
    chunks: int
    steps: int
    rounds: int
    sat: bool
    why: str
    root: int | None = None

    @property
    def question(self) -> Question:
        """Return the question."""
        topology = resolve_topology(self.topology)
        spec = resolve_collective(self.collective, topology.ranks, self.root)
        return build_question(topology, spec, self.chunks, self.steps, self.rounds)

    def __str__(self) -> str:
        numbers = f"c{self.chunks}s{self.steps}r{self.rounds}"
        return f"{self.collective}-{self.topology}-{numbers}"


TABLE4 = "SCCL Table 4"
TABLE5 = "SCCL Table 5"

BANK = (
    Case("dgx1", "allgather", 1, 2, 2, True, TABLE4),
    Case("dgx1", "allgather", 2, 2, 3, True, TABLE4),
    Case("dgx1", "allgather", 2, 3, 3, True, TABLE4),
    Case("dgx1", "allreduce", 8, 4, 4, True, TABLE4),
    Case("dgx1", "broadcast", 2, 2, 2, True, TABLE4),
    Case("dgx1", "broadcast", 6, 3, 3, True, TABLE4),
    Case("dgx1", "gather", 1, 2, 2, True, TABLE4),
    Case("dgx1", "gather", 2, 2, 3, True, TABLE4),
    Case("dgx1", "alltoall", 8, 2, 3, True, TABLE4),
    Case("z52", "allgather", 1, 4, 4, True, TABLE5),
    Case("z52", "allgather", 2, 4, 7, True, TABLE5),
    Case("z52", "broadcast", 4, 5, 5, True, TABLE5),
    Case("z52", "gather", 2, 4, 7, True, TABLE5),
    Case("dgx1", "allgather", 1, 1, 3, False, "the diameter is 2"),
    Case("dgx1", "allgather", 6, 2, 6, False, "6 lanes x 6 rounds, 42 chunks must enter"),
    Case("dgx1", "allgather", 3, 2, 4, False, "SCCL section 2.5: 3/2 is optimal in 2 steps"),
    Case("dgx1", "alltoall", 8, 2, 2, False, "16 chunks cross the middle, 6 lanes x 2 rounds"),
    Case("z52", "allgather", 2, 4, 6, False, "two lanes in, 7 ranks x 2 chunks"),
    Case("z52", "broadcast", 2, 3, 9, False, "rank 0 and the opposite rank are 4 links apart"),
    Case("ring:4", "allgather", 2, 2, 3, True, "SCCL Figure 2, both directions used"),
    Case("ring:4", "allgather", 2, 3, 3, True, "two rings of three steps, one chunk each"),
    Case("ring:4", "allgather", 1, 1, 5, False, "the diameter is 2"),
    Case("ring:5", "allgather", 1, 2, 2, True, "two steps out in both directions"),
    Case("line:3", "gather", 1, 2, 2, True, "the far end walks two links", root=0),
    Case("line:3", "gather", 1, 2, 2, True, "both ends walk one link", root=1),
    Case("line:3", "scatter", 3, 2, 2, True, "the far chunk first", root=0),
    Case("line:4", "scatter", 4, 3, 2 + 1, True, "the farthest chunk first", root=0),
    Case("line:3", "reduce", 1, 1, 1, True, "both ends send to the middle", root=1),
    Case("line:3", "reduce", 1, 1, 1, False, "the far end is two links away", root=0),
    Case("star:4", "broadcast", 3, 1, 3, True, "one lane to each leaf", root=0),
    Case("star:4", "broadcast", 3, 1, 2, False, "three chunks over one lane in two rounds", root=0),
    Case("full:4", "alltoall", 4, 1, 1, True, "every pair has a lane of its own"),
    Case("full:4", "allreduce", 4, 2, 2, True, "direct reducescatter, direct allgather"),
    Case("full:4", "reducescatter", 4, 1, 1, True, "everyone sends each owner its part"),
    Case("hypercube:3", "allgather", 3, 3, 7, True, "recursive doubling in three rotations"),
    Case("z52-pcie", "broadcast", 1, 3, 3, True, "two xGMI hops and one of PCIe"),
    Case("z52-pcie", "allgather", 1, 3, 3, False, "4 chunks each way over two buses of one"),
)

_MOST_CHUNKS = 16  # chunk limit of repeated queries, beyond which Z3 takes up to half a minute


@cache
def solved(case: Case) -> Algorithm:
    """Return the algorithm of a satisfiable case by the default solver."""
    answer = solve_question(case.question, solve.solve)
    assert isinstance(answer, Sat)
    return expand_algorithm(answer.algorithm)


def check_backend(solver: str, case: Case, *, here: bool = False) -> None:
    """Check that a backend gives a case its known verdict, and the same bytes on a second query.

    Args:
        solver: Name of the backend.
        case: Case with a known verdict.
        here: Whether a solver for child processes runs in this process, which saves the start of an
            interpreter.

    Raises:
        AssertionError: The verdict differs, is late, or fails verification.
    """
    effort, backend = solve.Effort(300), solve.load(solver)
    ask = getattr(backend, "answer_in_process", backend.answer) if here else backend.answer
    answer = solve_question(case.question, lambda instance: ask(instance, effort))
    assert not isinstance(answer, Unknown), f"{solver} gave up on {case}: {answer.reason}"
    assert verdict(answer) == ("sat" if case.sat else "unsat"), f"{solver} on {case}: {case.why}"
    if isinstance(answer, Sat):
        found = answer.algorithm
        assert violations(found) == []
        assert found.topology == case.question.topology
        assert found.collective == case.question.collective
        assert (found.steps, found.rounds) == (case.steps, case.rounds)
    if isinstance(answer, Unsat):
        assert answer.evidence
    most = max(instance.collective.num_chunks for instance in case.question.instances)
    if most <= _MOST_CHUNKS:
        second = solve_question(case.question, lambda instance: ask(instance, effort))
        assert _bytes(second) == _bytes(answer), f"{solver} answers {case} in two ways"


def _bytes(answer: Answer) -> bytes:
    return msgspec.json.encode(answer_to_wire(replace(answer, seconds=0.0)))
