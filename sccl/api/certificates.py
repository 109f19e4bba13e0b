"""Certificates in Python: checked, and the verdicts as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from sccl.api.arguments import checked
from sccl.api.html import heading, paragraph, table
from sccl.prove.check.folder import Verdict, check
from sccl.prove.check.question import read_case
from sccl.prove.check.words import classes


@dataclass(frozen=True, slots=True, repr=False)
class Certificate:
    """A certificate whose claims have been checked.

    Attributes:
        folder: where it is.
        claims: each with its ``claim`` in words, its ``state`` (``"ok"``, ``"failed"``, or
            ``"searched"``: two solvers are said to say so, there is no proof; ``"unchecked"``: that
            would take too much work), and its ``detail``: how it was checked, or what is wrong.
        about: the machine, the collective, and the classes within which something is claimed to be
            optimal, in words.
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


@checked
def check_certificate(folder: str | PathLike[str]) -> Certificate:
    """Check every claim of a certificate, without trusting any solver.

    Args:
        folder: what ``.certify(folder)`` or ``sccl pareto --certify`` wrote.

    Raises:
        InputError: the folder holds no certificate.
    """
    case = read_case(Path(folder))
    about = (*case.lines(), *(f"optimal among {text}" for text in classes(case)))
    return Certificate(Path(folder), tuple(check(case)), about)
