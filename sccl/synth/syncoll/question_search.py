"""Search for an algorithm with given numbers of chunks, steps, and rounds."""

from __future__ import annotations

import time

from sccl.collectives import Spec, is_allreduce
from sccl.core.answer import UNVERIFIED_HINT, Answer, Sat, Unknown, Unsat
from sccl.core.stop import StopKind, StopReason
from sccl.errors import ParameterError
from sccl.prove.bounds.lower_bounds import require_reachable
from sccl.synth.common.settings import Settings
from sccl.synth.constructions.clique_exchange import find_clique_exchange
from sccl.synth.syncoll.oracle import open_query_oracle
from sccl.synth.syncoll.solve import is_asked_alone
from sccl.topo.symmetry.group_choice import candidate_groups
from sccl.transform import Question, solve_question


def find_algorithm(spec: Spec, question: Question, settings: Settings) -> Answer:
    """Return whether a question has an algorithm.

    Raises:
        InputError: A rank cannot be reached, or the settings do not fit the question.
    """
    require_reachable(question.instances)
    chunks, symmetry = question.collective.chunks, settings.symmetry
    is_alone = is_asked_alone(settings.solver)
    if not is_alone and (answer := _constructed_answer(spec, question)) is not None:
        return answer
    with open_query_oracle(question.topology, spec, settings) as oracle:
        for instance in question.instances if symmetry.endswith(".json") else ():
            if not candidate_groups(instance.topology, instance.collective, symmetry):
                raise ParameterError(
                    f"{symmetry} permutes chunks with a period that does not divide the chunks of "
                    f"an orbit at C={chunks}: give a number of chunks that is a multiple of the "
                    "period"
                )
        return _downgrade_distrusted(solve_question(question, oracle.answer))


def _downgrade_distrusted(answer: Answer) -> Answer:
    """Return an answer. An unsat that is neither verified nor trusted becomes unknown.

    Exit codes and verdicts cannot carry a mark for unverified answers.
    """
    if not isinstance(answer, Unsat) or answer.is_accepted:
        return answer
    why = f"unsat according to {answer.origin.description} (not verified here): {UNVERIFIED_HINT}"
    reason = StopReason(StopKind.UNVERIFIED, why)
    return Unknown(reason, answer.solver, answer.seconds, answer.from_store)


def _constructed_answer(spec: Spec, question: Question) -> Sat | None:
    """Return an allreduce by clique exchange, without search. None: not possible."""
    if not is_allreduce(spec) or spec.post.pattern:
        return None
    begin = time.perf_counter()
    exchange, chunks = find_clique_exchange(question.topology), question.collective.chunks
    algorithm = exchange and exchange.fit_algorithm(spec, chunks, question.steps, question.rounds)
    return (
        Sat(algorithm, "construction (exchange)", time.perf_counter() - begin)
        if algorithm
        else None
    )
