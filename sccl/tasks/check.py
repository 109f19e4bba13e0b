"""Checking: what the judge says of algorithm files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.collectives import misnamed
from sccl.core.files.fields import FileText, Part
from sccl.judge import Violation, violations
from sccl.tasks.files import Loaded, load_algorithms
from sccl.tasks.outputs import Output, algorithm_digests


class ViolationPart(Part, frozen=True, kw_only=True):
    """What the judge objects to."""

    kind: str
    message: str
    step: int | None
    chunk: int | None
    rank: int | None


class CheckedFilePart(Part, frozen=True, kw_only=True):
    """An algorithm and the judge's verdict."""

    file: FileText
    valid: bool
    digest_matches: Annotated[bool, Meta(description="The file is as sccl wrote it.")]
    collective: str
    topology: str
    violations: tuple[ViolationPart, ...]


class CheckOutput(Output, frozen=True, kw_only=True):
    """What 'sccl check' found."""

    kind: Literal["check"] = "check"
    files: tuple[CheckedFilePart, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A file and everything that is wrong with its algorithm."""

    loaded: Loaded
    violations: tuple[Violation, ...]


def judge_files(files: Iterable[str | Path]) -> list[Judged]:
    """Return what the judge says of each algorithm; all are read before any verdict.

    Raises:
        InputError: there is none, or a file is no algorithm.
    """
    loaded = load_algorithms(files)
    return [Judged(one, (*_misnamed(one), *violations(one.algorithm))) for one in loaded]


def _misnamed(one: Loaded) -> list[Violation]:
    text = misnamed(one.algorithm.collective)
    return [Violation("collective", text)] if text else []


def check_output(judged: Sequence[Judged]) -> CheckOutput:
    """Return the verdicts."""
    return CheckOutput(
        inputs=algorithm_digests({str(x.loaded.file): x.loaded.algorithm for x in judged}),
        files=tuple(map(_part, judged)),
    )


def _part(judged: Judged) -> CheckedFilePart:
    one = judged.loaded
    return CheckedFilePart(
        file=str(one.file),
        valid=not judged.violations,
        digest_matches=one.intact,
        collective=one.algorithm.collective.name,
        topology=one.algorithm.topology.name,
        violations=tuple(
            ViolationPart(kind=v.kind, message=v.message, step=v.step, chunk=v.chunk, rank=v.rank)
            for v in judged.violations
        ),
    )
