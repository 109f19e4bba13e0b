"""Check certificates, display the verdicts as a table, and return them as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from sccl.api.arguments import check_arguments
from sccl.core.files.claims import CLAIMS
from sccl.core.files.disk import is_folder
from sccl.core.files.outputs import to_plain
from sccl.formats.files.plans import expand_paths
from sccl.prove.check.case import read_case
from sccl.prove.check.certificate import Verdict
from sccl.prove.check.certificate_output import LoadedCertificate, certificate_output
from sccl.view.text.markup import heading, paragraph, table


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """A certificate with checked claims.

    Attributes:
        source: Certificate before the check.
        claims: Verdicts, each with its ``claim`` as a sentence, its ``state``, and its ``detail``:
            the method of the check, or the fault. States are ``"ok"``, ``"failed"``, ``"searched"``
            (two solvers are named, without a proof), and ``"unchecked"`` (above the work limit).

    Examples:
        >>> import sccl
        >>> sccl.pareto("broadcast", "ring:4").certify("claims").name
        'claims.json'
        >>> sccl.check_certificate("claims").holds
        True
    """

    source: LoadedCertificate
    claims: tuple[Verdict, ...]

    @property
    def folder(self) -> Path:
        """Return the folder of the certificate."""
        return self.source.folder

    @property
    def about(self) -> tuple[str, ...]:
        """Return sentences on the machine, the collective, and the classes of the claims."""
        classes = (f"optimal among {text}" for text in self.source.classes)
        return (*self.source.question, *classes)

    @property
    def holds(self) -> bool:
        """Return whether every claim is proved."""
        return all(claim.state == "ok" for claim in self.claims)

    def to_json(self) -> dict[str, Any]:
        """Return the verdicts as plain JSON values, like ``sccl certificate verify --json``.

        Examples:
            >>> import sccl
            >>> _ = sccl.limits("allgather", "ring:4").certify("limits")
            >>> sccl.check_certificate("limits").to_json()["claims"][0]["state"]
            'ok'
        """
        return certificates_to_json([self])

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
    source = LoadedCertificate(Path(folder), read_case(Path(folder)))
    return Certificate(source, tuple(source.verdicts()))


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


def certificates_to_json(certificates: Sequence[Certificate]) -> dict[str, Any]:
    """Return the verdicts on several certificates as plain JSON values."""
    verdicts = [(checked.folder, claim) for checked in certificates for claim in checked.claims]
    return to_plain(certificate_output([checked.source for checked in certificates], verdicts))
