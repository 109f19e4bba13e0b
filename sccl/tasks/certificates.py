"""Certificates: every claim of some folders, checked without trusting any solver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.claims import CLAIMS
from sccl.core.files.disk import is_folder
from sccl.core.files.fields import Count, FileText, Part
from sccl.prove.check.folder import Verdict
from sccl.prove.check.question import Case, read_case
from sccl.prove.check.words import classes
from sccl.prove.check.work import ClaimState
from sccl.tasks.files import paths_of
from sccl.tasks.outputs import Output, file_digest


class ClaimPart(Part, frozen=True, kw_only=True):
    """A claim of a certificate, and whether it holds."""

    folder: FileText
    claim: str
    state: Annotated[
        ClaimState,
        Meta(description="searched: solvers' word, no proof; unchecked: it would take too long."),
    ]
    detail: str


class CertifiedMachinePart(Part, frozen=True, kw_only=True):
    """The machine that a certificate is about."""

    name: str
    ranks: Count
    links: Count
    lanes: Count
    budgets: Count
    digest: str
    origin: Annotated[str, Meta(description="Whether it is a machine of the catalogue.")]
    rounds: Annotated[
        str,
        Meta(description="Definition of a round that claims are about, if links differ in speed."),
    ]


class CertifiedCollectivePart(Part, frozen=True, kw_only=True):
    """The collective that a certificate is about."""

    name: str
    root: int | None
    custom: Annotated[bool, Meta(description="The name stands for something else in sccl.")]
    unit: Annotated[int, Meta(description="The smallest C it can have.")]
    digest: str


class CertifiedQuestionPart(Part, frozen=True, kw_only=True):
    """The subject of the claims in a folder."""

    folder: FileText
    machine: CertifiedMachinePart
    collective: CertifiedCollectivePart
    classes: Annotated[
        tuple[str, ...], Meta(description="Classes in which something is claimed to be optimal.")
    ]


class VerifyCertificateOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl verify-certificate'."""

    kind: Literal["verify-certificate"] = "verify-certificate"
    folder: Annotated[str, Meta(description="The folder; of several, all of them.")]
    questions: tuple[CertifiedQuestionPart, ...]
    claims: tuple[ClaimPart, ...]


@dataclass(frozen=True, slots=True)
class Certified:
    """A folder with a certificate, which has been read and not checked."""

    folder: Path
    case: Case


def certified(words: Iterable[str | Path]) -> list[Certified]:
    """Return the certificates that words name: folders, their lists of claims, and patterns.

    Raises:
        InputError: nothing matches a pattern, or a folder holds no certificate.
    """
    return [Certified(folder, read_case(folder)) for folder in _folders(words)]


def _folders(words: Iterable[str | Path]) -> list[Path]:
    """Return the folders that are meant, each once: a list of claims stands for its folder."""
    named = paths_of(words)
    listed = {path.parent for path in named if path.name == CLAIMS}
    beside = [path for path in named if path.parent in listed and not is_folder(path)]
    chosen = [path.parent if path.name == CLAIMS else path for path in named]
    return list(dict.fromkeys(path for path in chosen if path not in beside))


def certificate_output(
    given: Sequence[Certified], verdicts: Sequence[tuple[Path, Verdict]]
) -> VerifyCertificateOutput:
    """Return what was claimed of what, and whether it holds."""
    return VerifyCertificateOutput(
        inputs={str(one.folder): file_digest(one.folder / CLAIMS) for one in given},
        folder=", ".join(str(one.folder) for one in given),
        questions=tuple(map(_question, given)),
        claims=tuple(
            ClaimPart(folder=str(folder), claim=v.claim, state=v.state, detail=v.detail)
            for folder, v in verdicts
        ),
    )


def _question(one: Certified) -> CertifiedQuestionPart:
    about = one.case.as_json()
    return CertifiedQuestionPart(
        folder=str(one.folder),
        machine=CertifiedMachinePart(**about["machine"]),
        collective=CertifiedCollectivePart(**about["collective"]),
        classes=tuple(classes(one.case)),
    )
