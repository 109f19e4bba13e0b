"""Start a command, and be interrupted when it runs but Popen has not returned: print its number."""

import os
import signal
import subprocess
import sys
from typing import Any

from sccl.runtime.command_sessions import run_session


class Interrupted(subprocess.Popen[Any]):
    """A Popen whose process runs when the interrupt comes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        print(self.pid, flush=True)
        os.kill(os.getpid(), signal.SIGINT)


signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
subprocess.Popen = Interrupted  # type: ignore[misc]
try:
    with run_session(["sleep", "600"], signal.Signals[sys.argv[1]]):
        pass
except KeyboardInterrupt:
    sys.exit(130)
