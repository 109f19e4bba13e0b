"""The JSON output of ``sccl certificate verify``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from sccl.core.files.claims import CLAIMS
from sccl.core.files.json_text import file_digest
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import FileText, NonNegative, Part
from sccl.prove.check.case import Case
from sccl.prove.check.certificate import Verdict, check_case
from sccl.prove.check.messages import class_texts
from sccl.prove.check.work import ClaimState


class ClaimPart(Part, frozen=True, kw_only=True):
    """A claim of a certificate, and whether it holds."""

    folder: FileText
    claim: str
    state: Annotated[
        ClaimState,
        "searched: two solvers agree, without a proof; unchecked: the check would take too long.",
    ]
    detail: str


class CertifiedMachinePart(Part, frozen=True, kw_only=True):
    """The machine that a certificate is about."""

    name: str
    ranks: NonNegative
    links: NonNegative
    lanes: NonNegative
    budgets: NonNegative
    digest: str
    origin: Annotated[str, "Whether it is a named machine of sccl."]
    rounds: Annotated[str, "Definition of a round in the claims, if links differ in bandwidth."]


class CertifiedCollectivePart(Part, frozen=True, kw_only=True):
    """The collective that a certificate is about."""

    name: str
    root: int | None
    custom: Annotated[bool, "Whether sccl has a different topology or collective with this name."]
    unit: Annotated[int, "Smallest possible C."]
    digest: str


class CertifiedQuestionPart(Part, frozen=True, kw_only=True):
    """The subject of the claims in a folder."""

    folder: FileText
    machine: CertifiedMachinePart
    collective: CertifiedCollectivePart
    classes: Annotated[tuple[str, ...], "Classes with a claim of optimality."]


class VerifyCertificateOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl certificate verify'."""

    kind: Literal["verify-certificate"] = "verify-certificate"
    folder: Annotated[str, "The folder, or the list of folders."]
    questions: tuple[CertifiedQuestionPart, ...]
    claims: tuple[ClaimPart, ...]


@dataclass(frozen=True, slots=True)
class LoadedCertificate:
    """A certificate that was read but not checked.

    Attributes:
        folder: Folder of the certificate.
        case: Content of the folder.
    """

    folder: Path
    case: Case

    @property
    def question(self) -> list[str]:
        """Return sentences on the machine and the collective."""
        return self.case.description_lines()

    @property
    def classes(self) -> list[str]:
        """Return the classes with a claim of optimality."""
        return class_texts(self.case)

    def verdicts(self) -> Iterator[Verdict]:
        """Check the claims, one after another."""
        return check_case(self.case)


def certificate_output(
    certificates: Sequence[LoadedCertificate], verdicts: Sequence[tuple[Path, Verdict]]
) -> VerifyCertificateOutput:
    """Return the JSON output: the subjects of the certificates, and the verdict on each claim."""
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
        classes=tuple(certificate.classes),
    )
