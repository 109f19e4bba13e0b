"""Check certificates, and display the verdicts as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.api.arguments import check_arguments
from sccl.core.files.claims import CLAIMS
from sccl.core.files.disk import is_folder
from sccl.core.files.json_text import file_digest
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import Count, FileText, Part
from sccl.formats.files.plans import expand_paths
from sccl.prove.check.case import Case, read_case
from sccl.prove.check.certificate import Verdict, check_case
from sccl.prove.check.messages import class_texts
from sccl.prove.check.work import ClaimState
from sccl.view.text.markup import heading, paragraph, table


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """A certificate with checked claims.

    Attributes:
        folder: Folder of the certificate.
        claims: Verdicts, each with its ``claim`` as a sentence, its ``state``, and its ``detail``:
            the method of the check, or the fault. States are ``"ok"``, ``"failed"``, ``"searched"``
            (two solvers are named, without a proof), and ``"unchecked"`` (above the work limit).
        about: Sentences on the machine, the collective, and the classes of the claims.

    Examples:
        >>> import sccl
        >>> sccl.pareto("broadcast", "ring:4").certify("claims").name
        'claims.json'
        >>> sccl.check_certificate("claims").holds
        True
    """

    folder: Path
    claims: tuple[Verdict, ...]
    about: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether every claim is proved."""
        return all(claim.state == "ok" for claim in self.claims)

    def __repr__(self) -> str:
        return f"Certificate({self._counts})"

    @property
    def _counts(self) -> str:
        counts = Counter(claim.state for claim in self.claims)
        parts = ", ".join(f"{counts[state]} {state}" for state in sorted(counts))
        return f"{len(self.claims)} claims: {parts}"

    def _repr_html_(self) -> str:
        rows = [(claim.state, claim.claim, claim.detail) for claim in self.claims]
        about = "".join(map(paragraph, self.about))
        return heading(self._counts) + about + table(("State", "Claim", "How it was checked"), rows)


@check_arguments
def check_certificate(folder: str | PathLike[str]) -> Certificate:
    """Check every claim of a certificate, without trusting any solver.

    Args:
        folder: Folder that ``.certify(folder)`` or ``sccl pareto --certify`` wrote.

    Raises:
        InputError: The folder has no certificate.

    Examples:
        >>> import sccl
        >>> _ = sccl.limits("allgather", "ring:4").certify("limits")
        >>> sccl.check_certificate("limits")
        Certificate(4 claims: 4 ok)
    """
    case = read_case(Path(folder))
    about = (*case.description_lines(), *(f"optimal among {text}" for text in class_texts(case)))
    return Certificate(Path(folder), tuple(check_case(case)), about)


# --- JSON ---


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
    """A folder with a certificate that was read but not checked."""

    folder: Path
    case: Case


def load_certificates(words: Iterable[str | Path]) -> list[LoadedCertificate]:
    """Return the certificates in folders, which files of claims and patterns may also name.

    Raises:
        InputError: nothing matches a pattern, or a folder holds no certificate.
    """
    return [LoadedCertificate(folder, read_case(folder)) for folder in _folders(words)]


def _folders(words: Iterable[str | Path]) -> list[Path]:
    """Return the distinct folders of the paths. The file of claims stands for its folder."""
    named = expand_paths(words)
    listed = {path.parent for path in named if path.name == CLAIMS}
    siblings = [path for path in named if path.parent in listed and not is_folder(path)]
    chosen = [path.parent if path.name == CLAIMS else path for path in named]
    return list(dict.fromkeys(path for path in chosen if path not in siblings))


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
        classes=tuple(class_texts(certificate.case)),
    )
