"""What was started ends with who started it, at whatever moment that is left."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sccl.runtime.processes import running
from tests.kit.processes import wait_for_end


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_before_popen_has_returned_ends_what_it_began(
    end: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    popen = subprocess.Popen

    def interrupted(*arguments: Any, **settings: Any) -> subprocess.Popen[Any]:
        process = popen(*arguments, **settings)
        started.append(process.pid)
        os.kill(os.getpid(), signal.SIGINT)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), running(["sleep", "600"], end):
        pass
    wait_for_end(started[0])


def test_what_cannot_be_started_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match="nothing"),
        running([str(tmp_path / "nothing")], signal.SIGTERM),
    ):
        pass
