"""Certificates: every claim of some folders, checked without trusting any solver."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.claims import CLAIMS
from sccl.core.files.disk import is_folder
from sccl.core.files.json_text import file_digest
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import Count, FileText, Part
from sccl.formats.files.plans import expand_paths
from sccl.prove.check.case import Case, read_case
from sccl.prove.check.certificate import Verdict
from sccl.prove.check.messages import class_texts
from sccl.prove.check.work import ClaimState


class ClaimPart(Part, frozen=True, kw_only=True):
    """A claim of a certificate, and whether it holds."""

    folder: FileText
    claim: str
    state: Annotated[
        ClaimState,
        Meta(
            description="searched: two solvers agree, without a proof; unchecked: the check "
            "would take too long."
        ),
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
    origin: Annotated[str, Meta(description="Whether it is a named machine of sccl.")]
    rounds: Annotated[
        str,
        Meta(description="Definition of a round in the claims, if links differ in bandwidth."),
    ]


class CertifiedCollectivePart(Part, frozen=True, kw_only=True):
    """The collective that a certificate is about."""

    name: str
    root: int | None
    custom: Annotated[
        bool,
        Meta(description="Whether sccl has a different topology or collective with this name."),
    ]
    unit: Annotated[int, Meta(description="Smallest possible C.")]
    digest: str


class CertifiedQuestionPart(Part, frozen=True, kw_only=True):
    """The subject of the claims in a folder."""

    folder: FileText
    machine: CertifiedMachinePart
    collective: CertifiedCollectivePart
    classes: Annotated[tuple[str, ...], Meta(description="Classes with a claim of optimality.")]


class VerifyCertificateOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl certificate verify'."""

    kind: Literal["verify-certificate"] = "verify-certificate"
    folder: Annotated[str, Meta(description="The folder, or the list of folders.")]
    questions: tuple[CertifiedQuestionPart, ...]
    claims: tuple[ClaimPart, ...]


@dataclass(frozen=True, slots=True)
class LoadedCertificate:
    """A folder with a certificate, which has been read and not checked."""

    folder: Path
    case: Case


def load_certificates(words: Iterable[str | Path]) -> list[LoadedCertificate]:
    """Return the certificates that words name: folders, their lists of claims, and patterns.

    Raises:
        InputError: nothing matches a pattern, or a folder holds no certificate.
    """
    return [LoadedCertificate(folder, read_case(folder)) for folder in _folders(words)]


def _folders(words: Iterable[str | Path]) -> list[Path]:
    """Return the folders that are meant, each once: a list of claims stands for its folder."""
    named = expand_paths(words)
    listed = {path.parent for path in named if path.name == CLAIMS}
    siblings = [path for path in named if path.parent in listed and not is_folder(path)]
    chosen = [path.parent if path.name == CLAIMS else path for path in named]
    return list(dict.fromkeys(path for path in chosen if path not in siblings))


def certificate_output(
    certificates: Sequence[LoadedCertificate], verdicts: Sequence[tuple[Path, Verdict]]
) -> VerifyCertificateOutput:
    """Return what was claimed of what, and whether it holds."""
    return VerifyCertificateOutput(
        inputs={
            str(certificate.folder): file_digest(certificate.folder / CLAIMS)
            for certificate in certificates
        },
        folder=", ".join(str(certificate.folder) for certificate in certificates),
        questions=tuple(map(_question_part, certificates)),
        claims=tuple(
            build_output(ClaimPart, verdict, folder=folder) for folder, verdict in verdicts
        ),
    )


def _question_part(certificate: LoadedCertificate) -> CertifiedQuestionPart:
    about = certificate.case.as_json()
    return CertifiedQuestionPart(
        folder=str(certificate.folder),
        machine=CertifiedMachinePart(**about["machine"]),
        collective=CertifiedCollectivePart(**about["collective"]),
        classes=tuple(class_texts(certificate.case)),
    )
