"""Ctrl-C, SIGTERM, and SIGHUP: KeyboardInterrupt in a verb, elsewhere the end of the process.

This module is loaded before any other, and loads only modules that are loaded at the start anyway.
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import time
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
_VERB = "run_verb"  # the function of report.py that runs a verb
_FOREIGN = ("<frozen importlib", "-packages", "weakref.py", ":__del__")  # may swallow exceptions
_FOREIGN_S, _SAME_S, _DEAF_S, _TICK_S = 0.7, 1.0, 2.0, 0.05  # "timeout" sends two signals at once


class _State:
    number, since, is_raised = 0, 0.0, False
    foreign: FrameType | None = None  # the outermost foreign call in which it was raised


def install_handlers() -> None:
    """Handle signals from now on. Signals that the parent process ignores stay ignored."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _SIGNALS:
        if number == signal.SIGALRM or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)
    atexit.register(lambda: [signal.signal(number, signal.SIG_IGN) for number in _SIGNALS])
    try:  # noqa: SIM105 - contextlib takes its time to load
        _thread.start_new_thread(_watch_main_thread, (reader, _thread.get_ident()))
    except RuntimeError:  # the system has no thread left
        pass


def exit_code() -> int:
    """Return 128 and the number of the first signal, or 0 if none has come."""
    return 128 + _State.number if _State.number else 0


def _handle(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt in the verb, in foreign code only if it does not return."""
    if not _State.number:
        _State.number, _State.since = number, time.monotonic()
    calls = []
    while frame is not None and frame.f_code.co_name != _VERB:
        calls.append((frame, f"{frame.f_code.co_filename}:{frame.f_code.co_name}"))
        frame = frame.f_back
    foreign = [call for call, name in calls if any(part in name for part in _FOREIGN)]
    if _State.is_raised and (_State.foreign not in foreign or sys.exc_info()[0]):
        return  # foreign code has not swallowed it
    is_late = time.monotonic() > _State.since + _FOREIGN_S
    if frame is None or (is_late and any(_FOREIGN[0] in name for _, name in calls)):
        _end_process(_State.number)  # exceptions abort modules in C++ that are being loaded
    if is_late or not foreign:
        _State.is_raised, _State.foreign = True, [None, *foreign][-1]
        raise KeyboardInterrupt


def _watch_main_thread(reader: int, main: int) -> None:
    """Repeat the first signal until a second comes or the main thread does not handle it."""
    number, since = os.read(reader, 1)[0], time.monotonic()
    while _State.is_raised or time.monotonic() < since + _DEAF_S:
        time.sleep(_TICK_S)
        signal.pthread_kill(main, signal.SIGALRM)
        second = os.read(reader, 64).strip(bytes([signal.SIGALRM]))
        if second and time.monotonic() > since + _SAME_S:
            _end_process(second[0])
    _end_process(number)


def _end_process(number: int) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)
