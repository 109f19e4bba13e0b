"""Run commands that end together with all processes that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sccl.errors import ToolError

MAX_ERROR_LINES = 15
"""Lines of a failed command that are shown."""


@contextmanager
def run_session(
    words: Sequence[str], end: signal.Signals, **settings: Any
) -> Iterator[subprocess.Popen[Any]]:
    """Start a command in its own session. If the block exits with an exception, end the session.

    A thread starts it: the main thread may be interrupted at any moment, and a process that began
    before Popen returned would otherwise survive.

    Args:
        words: Command.
        end: Signal for all processes of the session.
        settings: Further arguments of Popen.

    Raises:
        OSError: It cannot be started.
    """
    begun: list[subprocess.Popen[Any]] = []
    errors: list[BaseException] = []
    tried, left = threading.Event(), threading.Event()
    starting = threading.Lock()

    def begin() -> None:
        """Start the command, unless the caller has left, and store the process."""
        try:
            with starting:
                if not left.is_set():
                    begun.append(
                        subprocess.Popen(  # noqa: S603 - words, no shell
                            words, start_new_session=True, **settings
                        )
                    )
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            errors.append(error)
        finally:
            tried.set()

    try:
        threading.Thread(target=begin, name="sccl-start", daemon=True).start()
        tried.wait()
        if errors:
            raise errors[0]  # noqa: TRY301 - there is nothing to end then
        yield begun[0]
    except BaseException:
        left.set()
        with starting:  # wait for processes that are starting
            for process in begun:
                with suppress(ProcessLookupError):  # all of them have ended
                    os.killpg(process.pid, end)
        raise
    finally:
        for process in begun:
            if process.stdout is not None:
                process.stdout.close()
            process.wait()


def iterate_lines(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    failed: Callable[[int], str],
    begin: str = "",
) -> Generator[str, None, None]:
    """Run a command in a folder and yield each line of its output.

    If the caller stops early, all processes of the command end. For example, make's compilers would
    otherwise continue.

    Args:
        failed: Function from the exit code to the beginning of the error.
        begin: Prefix of the lines to yield. Others are shown only if the command fails: if a rank
            dies, mpirun prints between the lines of the program.

    Raises:
        ToolError: The command failed. The message has its output.
    """
    aside = deque[str](maxlen=MAX_ERROR_LINES)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        with run_session(
            words,
            signal.SIGTERM,  # not SIGKILL: no half of a file stays
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            errors="replace",
            env=dict(environment),
            cwd=os.fspath(folder),
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(begin):
                    yield line
                else:
                    aside.append(line)
        if process.returncode:
            said.seek(0)
            output = said.read().strip() + "\n" + "".join(aside).strip()
            end = "\n".join(output.strip().splitlines()[-MAX_ERROR_LINES:])
            raise ToolError(f"{failed(process.returncode)}:\n{end}")
