"""Run commands, and end all processes that they started together with them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from sccl.errors import ToolError

MAX_ERROR_LINES = 15
"""Number of output lines of a failed command in its error message."""


@contextmanager
def run_session(
    words: Sequence[str], end: signal.Signals, **settings: Any
) -> Iterator[subprocess.Popen[Any]]:
    """Start a command in its own session. If the block exits with an exception, end the session.

    A separate thread starts the command. If an interrupt of the main thread came between the start
    of the process and the return of Popen, the process would otherwise survive.

    Args:
        end: Signal that ends all processes of the session.

    Raises:
        OSError: The command cannot be started.
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
            raise errors[0]  # noqa: TRY301 - no process has started
        yield begun[0]
    except BaseException:
        left.set()
        with starting:  # wait for processes that are starting
            for process in begun:
                with suppress(ProcessLookupError):  # raised if all processes have ended
                    os.killpg(process.pid, end)
        raise
    finally:
        for process in begun:
            if process.stdout is not None:
                process.stdout.close()
            process.wait()


def run_make(
    folder: Path,
    words: Sequence[str],
    environment: Mapping[str, str],
    failed: str,
    notify: Callable[[str], None] = lambda _: None,
) -> None:
    """Run make in a folder.

    Args:
        failed: Start of the error message.
        notify: Progress callback: a line of the output.

    Raises:
        ToolError: make is missing, or failed.
    """
    make = shutil.which("make")
    if make is None:
        raise ToolError("make is missing: install it (Debian, Ubuntu: apt-get install make)")
    run_command([make, "-s", *words], folder, environment, failed, notify)


def run_command(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    failed: str,
    notify: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a command in a folder, and pass each line of its output to a callback.

    Raises:
        ToolError: The command failed. The message starts with ``failed``.
    """
    with closing(iterate_lines(words, folder, environment, lambda _: failed)) as lines:
        for line in lines:
            notify(line.rstrip())


def iterate_lines(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    failed: Callable[[int], str],
    begin: str = "",
) -> Generator[str, None, None]:
    """Run a command in a folder and yield each line of its output.

    If the caller stops early, all processes of the command end. For example, the compilers that
    make started would otherwise continue.

    Args:
        failed: Function from the exit code to the start of the error message.
        begin: Prefix of the lines to yield. Other lines appear only in the error message: if a rank
            dies, mpirun prints between the lines of the program.

    Raises:
        ToolError: The command failed. The message contains its output.
    """
    aside = deque[str](maxlen=MAX_ERROR_LINES)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        with run_session(
            words,
            signal.SIGTERM,  # unlike SIGKILL, it lets tools remove incomplete files
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
