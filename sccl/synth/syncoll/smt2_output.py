"""Write a question as text for any SMT solver."""

from __future__ import annotations

from typing import Annotated, Literal

from sccl.core.files.outputs import Output
from sccl.core.files.shapes import FileText
from sccl.errors import ParameterError
from sccl.prove.bounds.lower_bounds import require_reachable
from sccl.transform import Question


class Smt2Output(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl solve --smt2': the problem, or the file that contains it."""

    kind: Literal["smt2"] = "smt2"
    file: FileText | None
    text: Annotated[str | None, "SMT-LIB 2; null with --output."]


def problem_text(question: Question) -> str:
    """Return a question as SMT-LIB 2 (QF_LIA), constraints C1 to C6 of SCCL section 3.4.

    Raises:
        InputError: The question has two problems, or a rank cannot be reached.
    """
    if len(question.instances) > 1:
        raise ParameterError(
            f"{question.collective.name} on {question.topology.name!r} is two problems, as its "
            "links differ by direction; write reducescatter and allgather each"
        )
    require_reachable(question.instances)
    from sccl.synth.syncoll.encoding_qflia import encode  # noqa: PLC0415 - pySMT is slow to import

    return _class_comment(question) + encode(question.instances[0]).text


def _class_comment(question: Question) -> str:
    """Return a comment on the scope of unsat. Empty: all k-synchronous algorithms."""
    if not question.scope:
        return ""
    return (
        f"; One half of {question.scope},\n; of S={question.steps} steps and R={question.rounds} "
        "rounds in all: unsat proves nothing about other families.\n"
    )
