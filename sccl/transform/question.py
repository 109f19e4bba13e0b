"""Convert a user's question to solver instances, and their answers to an answer of the question.

Reductions are solved as their dual collectives. The solutions of the instances are then converted
to an algorithm for the requested collective (SCCL section 3.5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sccl.collectives import Dual, Spec, dual_of
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.collective import Collective
from sccl.core.instance import Instance, check_steps_and_rounds
from sccl.core.stop import StopKind, StopReason
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import CollectiveError, ParameterError, TooLargeError
from sccl.judge import require_valid
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform.invert import compose, invert

InstanceSolver = Callable[[Instance], Answer]


@dataclass(frozen=True, slots=True)
class Question:
    """Is there an algorithm of S steps and R rounds for this collective on this topology?

    Attributes:
        topology: Machine.
        collective: Requested collective.
        dual: Collective that is solved instead.
        steps: Number of steps, S.
        rounds: Number of rounds, R.
        instances: Instances to solve. The question is sat if all are, and unsat if any is.
    """

    topology: Topology
    collective: Collective
    dual: Dual
    steps: int
    rounds: int
    instances: tuple[Instance, ...]

    @property
    def scope(self) -> str:
        """Return the class in which an unsat answer holds. Empty: all k-synchronous algorithms."""
        return self.dual.scope

    def answer_scope(self, answer: Answer) -> str:
        """Return the class that an answer is about. Empty: all k-synchronous algorithms."""
        return answer.algorithm.scope if isinstance(answer, Sat) else self.scope

    def recover(self, solutions: Sequence[AnyAlgorithm]) -> AnyAlgorithm:
        """Return a verified algorithm for the requested collective.

        Args:
            solutions: Algorithms of :attr:`instances`.

        Raises:
            JudgeError: An algorithm is not valid for its instance.
            TooLargeError: The inverse of a symmetric algorithm has too many sends.
        """
        if self.dual.is_identity:
            return require_valid(solutions[0], "the solver")
        algorithms = [expand_algorithm(algorithm) for algorithm in solutions]
        if self.dual.phases == 1:
            return invert(algorithms[0], self.collective)
        scatter = self.dual.first_phase.at(self.collective.chunks)
        first = replace(invert(algorithms[0], scatter), topology=self.topology)
        composed = compose(first, algorithms[-1], self.collective)
        return replace(composed, scope=self.scope)


def build_question(
    topology: Topology, spec: Spec, chunks: int, steps: int, rounds: int
) -> Question:
    """Return the question for C = ``chunks``, S = ``steps``, R = ``rounds``.

    Raises:
        InputError: a number is out of range, the collective does not fit the topology, or (for
            allreduce) steps or rounds are odd.
    """
    if spec.ranks != topology.ranks:
        raise CollectiveError(
            f"collective {spec.name!r} is for {spec.ranks} ranks, topology {topology.name!r} "
            f"has {topology.ranks}"
        )
    collective = spec.at(chunks)
    check_steps_and_rounds(steps, rounds)
    dual = dual_of(spec)
    for label, value in (("steps", steps), ("rounds", rounds)):
        if value % dual.phases:
            raise ParameterError(
                f"{label} is {value}, expected an even number: for allreduce, this covers "
                "compositions of a reducescatter and an allgather with half the steps and rounds "
                "each; 'sccl pareto' searches all families"
            )
    instances = tuple(
        Instance(
            phase.topology,
            dual.spec.at(chunks // dual.chunk_factor),
            steps // dual.phases,
            rounds // dual.phases,
        )
        for phase in dual.phases_on(topology)
    )
    return Question(topology, collective, dual, steps, rounds, instances)


def solve_question(question: Question, solve: InstanceSolver) -> Answer:
    """Return the answer to a question, with a verified algorithm and the total solver seconds.

    Args:
        question: Question to answer.
        solve: Function that answers an instance, such as a solver of
            :mod:`sccl.synth.syncoll.solve` with its budget.
    """
    algorithms, seconds, gave_up = [], 0.0, None
    for instance in question.instances:
        answer = solve(instance)
        seconds += answer.seconds
        match answer:
            case Unsat():
                return replace(answer, seconds=seconds)
            case Unknown():
                gave_up = answer  # another instance may still be unsat, which decides
            case Sat(algorithm):
                algorithms.append(algorithm)
    if gave_up is not None:
        return replace(gave_up, seconds=seconds)
    assert isinstance(answer, Sat)
    try:
        recovered = question.recover(algorithms)
        return replace(answer, algorithm=recovered, seconds=seconds)
    except TooLargeError as error:
        why = f"its dual has an algorithm, which is too large to turn round: {error}"
        return Unknown(StopReason(StopKind.TOO_LARGE, why), answer.solver, seconds)
