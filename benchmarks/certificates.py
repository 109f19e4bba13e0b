"""The certificates that are kept here, checked again; their proofs also by drat-trim where it is.

drat-trim is public (Wetzler, Heule, Hunt, SAT 2014; github.com/marijnheule/drat-trim), and no part
of this project.
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
from sccl.prove.check.drat import ProofError, check_refutation, parse_dimacs, parse_drat
from sccl.prove.check.drat_trim import run_drat_trim

KEPT = Path(__file__).parent / "certificates"


@dataclass(frozen=True, slots=True)
class ProofResult:
    """A formula with its refutation.

    Attributes:
        formula_bytes, proof_bytes: of the files.
        lemmas: of the proof, until it meets a conflict; None: our checker refuses it.
        seconds: of our checker, reading in it.
        trimmed: whether drat-trim verifies it; None: it is not at hand, or gave up.
        trim_seconds: of its process.
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
        """Return whether both say the same; None if only one speaks."""
        return None if self.trimmed is None else self.trimmed == (self.lemmas is not None)


@dataclass(frozen=True, slots=True)
class CertificateResult:
    """A folder of claims.

    Attributes:
        states: how many claims are ``ok``, ``failed`` and so on.
        seconds: to check all of them, drat-trim in it where it is at hand, the start of Python not.
    """

    name: str
    states: dict[str, int]
    seconds: float
    proofs: tuple[ProofResult, ...]


def with_program(program: Path | None) -> None:
    """Let drat-trim be found where ``program`` is.

    Raises:
        ParameterError: it is not there.
    """
    if program is None:
        return
    if program.name != "drat-trim" or not os.access(program, os.X_OK) or program.is_dir():
        raise ParameterError(
            f"{program} is not the program drat-trim: build it from its public source and name it"
        )
    os.environ["PATH"] = f"{program.resolve().parent}{os.pathsep}{os.environ.get('PATH', '')}"


def folders(root: Path) -> list[Path]:
    """Return every certificate's folder in a folder.

    Raises:
        InputError: there is none.
    """
    found = sorted(path.parent for path in root.rglob(CLAIMS))
    if not found:
        raise InputError(f"{root} holds no certificate: expected folders with a {CLAIMS}")
    return found


def check(root: Path, found: Sequence[Path]) -> Iterator[CertificateResult]:
    """Yield what checking each folder says and takes."""
    for folder in found:
        begin = time.perf_counter()
        states: Counter[str] = Counter(verdict.state for verdict in check_folder(folder))
        seconds = time.perf_counter() - begin
        proofs = tuple(_proof(path) for path in sorted(folder.glob("*.drat")))
        name = folder.relative_to(root).as_posix()
        yield CertificateResult(name, dict(states), seconds, proofs)


def _proof(path: Path) -> ProofResult:
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
    """Return what a certificate's check comes to: ``unknown`` where there is no proof to check."""
    if "failed" in result.states or any(p.agree is False for p in result.proofs):
        return "failed"
    return "sat" if set(result.states) == {"ok"} else "unknown"
