"""A second opinion on DRAT proofs: drat-trim, where it is on the PATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_TIMEOUT_S = 600


def run_drat_trim(formula: Path, proof: Path) -> bool | None:
    """Return whether drat-trim verifies a proof, or None if it is not at hand, or gives up."""
    program = shutil.which("drat-trim")
    if program is None:
        return None
    command = [program, str(formula), str(proof), "-t", str(_TIMEOUT_S)]
    try:
        done = subprocess.run(  # noqa: S603 - its name is fixed, the files are ours to check
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S + 10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if "s TIMEOUT" in done.stdout:
        return None
    return "s VERIFIED" in done.stdout.splitlines()
