"""Check the stored certificates again, and their proofs also by drat-trim if it is installed.

drat-trim is public (Wetzler, Heule, Hunt, SAT 2014, github.com/marijnheule/drat-trim) and is not
part of this project.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import Verdict
from sccl.core.files.claims import CLAIMS
from sccl.core.files.disk import read_text
from sccl.errors import InputError, ParameterError
from sccl.prove.check.certificate import check_folder
from sccl.prove.check.drat import (
    ProofError,
    check_refutation,
    parse_dimacs,
    parse_drat,
    run_drat_trim,
)

KEPT = Path(__file__).parent / "certificates"


@dataclass(frozen=True, slots=True)
class ProofResult:
    """A formula with its refutation.

    Attributes:
        formula_bytes, proof_bytes: Sizes of the files.
        lemmas: Number of lemmas up to the first conflict. None: sccl's checker refuses the proof.
        seconds: Time of sccl's checker, reading included.
        trimmed: Whether drat-trim verifies the proof. None: it is not installed, or gave up.
        trim_seconds: Time of drat-trim's process.
    """

    name: str
    formula_bytes: int
    proof_bytes: int
    lemmas: int | None
    seconds: float
    trimmed: bool | None
    trim_seconds: float

    @property
    def agree(self) -> bool | None:
        """Return whether both checkers agree. None: only one of them answered."""
        return None if self.trimmed is None else self.trimmed == (self.lemmas is not None)


@dataclass(frozen=True, slots=True)
class CertificateResult:
    """A folder of claims.

    Attributes:
        states: Number of claims by state, for example ``ok`` or ``failed``.
        seconds: Time to check all claims, drat-trim included, without the start of Python.
    """

    name: str
    states: dict[str, int]
    seconds: float
    proofs: tuple[ProofResult, ...]


def with_program(program: Path | None) -> None:
    """Add the folder of ``program`` to the path, so that it is the drat-trim in use.

    Raises:
        ParameterError: The path does not name drat-trim.
    """
    if program is None:
        return
    if program.name != "drat-trim" or not os.access(program, os.X_OK) or program.is_dir():
        raise ParameterError(
            f"{program} is not the program drat-trim: build it from its public source and name it"
        )
    os.environ["PATH"] = f"{program.resolve().parent}{os.pathsep}{os.environ.get('PATH', '')}"


def folders(root: Path) -> list[Path]:
    """Return the folders of all certificates in a folder.

    Raises:
        InputError: There is no certificate.
    """
    certificates = sorted(path.parent for path in root.rglob(CLAIMS))
    if not certificates:
        raise InputError(f"{root} holds no certificate: expected folders with a {CLAIMS}")
    return certificates


def check(root: Path, certificates: Sequence[Path]) -> Iterator[CertificateResult]:
    """Yield the result and the time of checking each folder."""
    for folder in certificates:
        begin = time.perf_counter()
        states: Counter[str] = Counter(verdict.state for verdict in check_folder(folder))
        seconds = time.perf_counter() - begin
        proofs = tuple(_check_proof(path) for path in sorted(folder.glob("*.drat")))
        name = folder.relative_to(root).as_posix()
        yield CertificateResult(name, dict(states), seconds, proofs)


def _check_proof(path: Path) -> ProofResult:
    formula = path.with_suffix(".cnf")
    begin = time.perf_counter()
    try:
        clauses = parse_dimacs(read_text(formula))
        lemmas: int | None = check_refutation(clauses, parse_drat(read_text(path)))
    except ProofError:
        lemmas = None
    middle = time.perf_counter()
    trimmed = run_drat_trim(formula, path)
    end = time.perf_counter()
    sizes = formula.stat().st_size, path.stat().st_size
    return ProofResult(path.stem, *sizes, lemmas, middle - begin, trimmed, end - middle)


def verdict(result: CertificateResult) -> Verdict:
    """Return the verdict about a certificate: ``unknown`` if a claim has no proof."""
    if "failed" in result.states or any(p.agree is False for p in result.proofs):
        return "failed"
    return "sat" if set(result.states) == {"ok"} else "unknown"
