"""The JSON output of an answer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from sccl.collectives import Spec
from sccl.core.answer import Answer, Sat, Unsat, verdict
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FileText, NonNegative, Seconds
from sccl.transform import Question
from sccl.view.text.reasons import answer_reason, answer_solver


class SolveOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl solve'."""

    kind: Literal["solve"] = "solve"
    topology: str
    collective: str
    chunks: NonNegative
    steps: NonNegative
    rounds: NonNegative
    answer: Literal["sat", "unsat", "unknown"]
    reason: str
    scope: Annotated[str, "The class the answer is about; empty: all algorithms."]
    seconds: Seconds
    solver: Annotated[str, "In words, with the group if there is one."]
    group: Annotated[str | UnsetType, "The symmetries that the algorithm was sought under."] = UNSET
    origin: Annotated[
        str | UnsetType,
        "Where an 'unsat' came from: here, stored, other-version, store-file, cluster; all but the "
        "first two only with --trust-store or --trust-cluster.",
    ] = UNSET
    file: FileText | None


def solve_output(spec: Spec, question: Question, answer: Answer, file: str | None) -> SolveOutput:
    """Return the JSON output of an answer.

    Args:
        file: File of the algorithm. None: not written.
    """
    return build_output(
        SolveOutput,
        question,
        inputs=question_digests(question.topology, spec),
        collective=spec,
        chunks=question.collective.chunks,
        answer=verdict(answer),
        reason=answer_reason(answer),
        scope=question.answer_scope(answer),
        seconds=answer.seconds,
        solver=answer_solver(answer),
        group=answer.group or UNSET if isinstance(answer, Sat) else UNSET,
        origin=answer.origin if isinstance(answer, Unsat) else UNSET,
        file=file,
    )
