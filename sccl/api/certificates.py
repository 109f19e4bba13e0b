"""Check certificates, and display the verdicts as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from sccl.api.arguments import check_arguments
from sccl.prove.check.case import read_case
from sccl.prove.check.certificate import Verdict, check_case
from sccl.prove.check.messages import class_texts
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
