"""Ctrl-C, SIGTERM and SIGHUP, handled from the first line on, and output without a reader.

While a verb works, a signal is a KeyboardInterrupt in it, and results so far are printed. Before
and after that (imports, help, the end of the interpreter) nothing would be lost, and much code
swallows exceptions or prints a traceback: there the process ends immediately. This module is loaded
before any other and loads no other module.
"""

from __future__ import annotations

import _thread
import atexit
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn, TypeVar

    T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REPEAT_S = 1.0
"""Signals that follow the first within this time are the same wish: ``timeout`` sends two."""
_BEAR_S = 0.5
"""For foreign code to come to an end before it is interrupted."""
_LOADED_S = 0.9
"""For modules to be loaded. After that the process ends there."""
_LATER_S = 0.02
_DEAF_S = 2.0
"""For the main thread to hear a signal. If it does not, it is lost in native code."""


class _State:
    """The state of signal handling.

    Attributes:
        number: the first signal. None: none yet.
        since: its time, by the monotonic clock.
        raised: whether it has been raised as KeyboardInterrupt.
        verb_frame: the outermost foreign call that it was raised in. None: not in one.
        wakeup_fd: the end of a pipe into which the system writes signals, and from which the
            handler
            takes them.
    """

    number: int | None = None
    since = 0.0
    raised = False
    verb_frame: FrameType | None = None
    wakeup_fd = -1


def install_handlers() -> None:
    """Handle signals from now on. Signals that the parent process ignores stay ignored."""
    _State.wakeup_fd, writer = os.pipe()
    for end in (_State.wakeup_fd, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)
    atexit.register(_ignore_signals)  # the first to be registered is the last to run
    try:
        _thread.start_new_thread(_watch_main_thread, ())
    except RuntimeError:  # no thread to be had: then without
        signal.set_wakeup_fd(-1)


def run_interruptible(work: Callable[[], T]) -> T:
    """Return ``work()``, during which signals raise KeyboardInterrupt."""
    return work()


def is_interrupted() -> bool:
    """Return whether a signal has come, even if the verb did not receive it."""
    return _State.number is not None


def leave_if_interrupted() -> None:
    """End the process if a signal has come, since libraries may take long to exit.

    Results have been printed by now, and files, processes and connections are closed.
    """
    if is_interrupted():
        try:  # noqa: SIM105 - contextlib takes its time to load
            sys.stdout.flush()
        except (OSError, ValueError):  # the reader has closed the pipe
            pass
        os._exit(exit_code())


def exit_code() -> int:
    """Return the exit code of a command that was interrupted: 128 and the number of the signal."""
    return 128 + (_State.number or signal.SIGINT)


def _handle(number: int, frame: FrameType | None) -> None:
    """Hear a signal of the user's."""
    _read_signals()
    if _State.number is None:
        _State.number, _State.since = number, time.monotonic()
        signal.signal(signal.SIGALRM, _repeat_interrupt)
    elif time.monotonic() - _State.since > _REPEAT_S:
        _end_process(number)  # a second signal ends the process at once
    if not _State.raised:
        _interrupt(frame)


def _repeat_interrupt(_: int, frame: FrameType | None) -> None:
    """Raise the interrupt again in code that could not be interrupted, or swallowed it."""
    _read_signals()
    if not _State.raised or (
        _State.verb_frame in _verb_frames(frame) and not _is_handling_interrupt()
    ):
        _interrupt(frame)


def _interrupt(frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt where it will reach the verb. Otherwise later, or end here."""
    calls = _verb_frames(frame)
    if not any(call.f_code is run_interruptible.__code__ for call in calls):
        _end_process(_State.number or signal.SIGINT)
    _State.verb_frame = next((call for call in calls if _is_foreign(call)), None)
    if _State.verb_frame is not None:
        signal.setitimer(signal.ITIMER_REAL, _LATER_S)
        waited = time.monotonic() - _State.since
        if waited < _BEAR_S:
            return
        if any(_is_import(call) for call in calls):  # exceptions abort C++ modules
            if waited < _LOADED_S:
                return
            _end_process(_State.number or signal.SIGINT)
    _State.raised = True
    raise KeyboardInterrupt


def _verb_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the active frames from the verb's call on, or all if there is none."""
    calls = []
    while frame is not None:
        calls.append(frame)
        if frame.f_code is run_interruptible.__code__:
            break
        frame = frame.f_back
    return calls[::-1]


def _is_foreign(call: FrameType) -> bool:
    """Return whether an exception may get lost in a call.

    It does in finalizers and callbacks, and in modules in C, above all while they are loaded.
    """
    file = call.f_code.co_filename
    return (
        _is_import(call)
        or "-packages" in file
        or file.endswith("weakref.py")
        or call.f_code.co_name == "__del__"
    )


def _is_import(call: FrameType) -> bool:
    return call.f_code.co_filename.startswith("<frozen importlib")


def _is_handling_interrupt() -> bool:
    """Return whether someone is about to clean up after a KeyboardInterrupt."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _end_process(number: int) -> NoReturn:
    """End the process and its child processes."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def _read_signals() -> bytes:
    """Return the signals that have not been heard yet."""
    try:
        return os.read(_State.wakeup_fd, 64)
    except BlockingIOError:
        return b""


def _watch_main_thread() -> None:
    """End the process if the main thread does not handle a signal (runs in a thread)."""
    while select.select([_State.wakeup_fd], [], []):
        deadline = time.monotonic() + _DEAF_S
        while time.monotonic() < deadline and select.select([_State.wakeup_fd], [], [], 0)[0]:
            time.sleep(_LATER_S)
        if time.monotonic() >= deadline and (left := _read_signals()):
            _end_process(_State.number or left[0])


def _ignore_signals() -> None:
    """Let the last moments of the interpreter pass: all that was to be said has been said."""
    signal.set_wakeup_fd(-1)
    for number in (*_SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


def detach_stdout() -> None:
    """Discard the buffered output, so that Python does not report an error at exit.

    Its reader has closed the pipe, or the disk is full.
    """
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # in tests, stdout is no file
        pass
