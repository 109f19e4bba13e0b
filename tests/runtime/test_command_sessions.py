"""Started processes end with their parent, whenever it leaves."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sccl.runtime.command_sessions import run_session
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S, wait_for_end


@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL"])
def test_interrupt_before_popen_has_returned_ends_what_it_began(end: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "tests.programs.interrupted_start", end],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert process.returncode == 130
    wait_for_end(int(process.stdout))


def test_failed_start_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match="nothing"),
        run_session([str(tmp_path / "nothing")], signal.SIGTERM),
    ):
        pass
