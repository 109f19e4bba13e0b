"""Commands that end with what is done meanwhile, and all that they have started with them."""

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

LINES = 15
"""Lines of a failed command that are shown."""


@contextmanager
def running(
    words: Sequence[str], end: signal.Signals, **settings: Any
) -> Iterator[subprocess.Popen[Any]]:
    """Start a command in a session of its own; if it is left by an exception, end the session.

    A thread starts it: an interrupt, which the main thread gets alone, may come at any moment, and
    what had begun by then would go on if it came before Popen returned.

    Args:
        words: the command.
        end: what all processes of the session get.
        settings: more for Popen.

    Raises:
        OSError: it cannot be started.
    """
    begun: list[subprocess.Popen[Any]] = []
    errors: list[BaseException] = []
    tried, left = threading.Event(), threading.Event()
    starting = threading.Lock()

    def begin() -> None:
        """Start it, unless it is no longer wanted, and keep what comes of it."""
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
        with starting:  # what is being started is waited for
            for process in begun:
                with suppress(ProcessLookupError):  # all of them have ended
                    os.killpg(process.pid, end)
        raise
    finally:
        for process in begun:
            if process.stdout is not None:
                process.stdout.close()
            process.wait()


def lines_of(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    failed: Callable[[int], str],
    begin: str = "",
) -> Generator[str, None, None]:
    """Run a command in a folder and yield each line that it prints, as it comes.

    If it is left before its end, whatever the command has started ends with it: make's compilers
    would go on by themselves.

    Args:
        failed: how the error begins, by the exit code.
        begin: with what the lines begin that are meant. Others are only told if it fails: where a
            rank dies, mpirun says so between the lines of the program.

    Raises:
        ToolError: it failed; the error says how, and in what words it did.
    """
    aside = deque[str](maxlen=LINES)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        with running(
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
            told = said.read().strip() + "\n" + "".join(aside).strip()
            end = "\n".join(told.strip().splitlines()[-LINES:])
            raise ToolError(f"{failed(process.returncode)}:\n{end}")
