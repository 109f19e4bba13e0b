"""Ctrl-C and SIGTERM at every moment: exit code 130 or 143, no traceback, no partial output."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S

COMMANDS = {
    "help": ("--help",),
    "pareto": ("pareto", "--collective", "allgather", "--topo", "ring:4", "--no-store"),
    "limits": ("limits", "--collective", "allgather", "--topo", "ring:4"),
    "bounds": ("bound", "--collective", "alltoall", "--topo", "ring:4"),
    "codegen": ("project", "new", "--help"),
}


def signalled(number: int, moment: int | str, command: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tests.programs.signalled", str(number), str(moment)]
    return subprocess.run(
        [*program, *COMMANDS[command]],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=ROOT,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("number", "moment", "command"),
    [
        (signal.SIGINT, 1, "help"),
        (signal.SIGTERM, 1, "help"),
        (signal.SIGTERM, 2, "pareto"),
        (signal.SIGINT, 200, "codegen"),
        (signal.SIGTERM, 600, "limits"),
        (signal.SIGINT, 500, "bounds"),
        (signal.SIGINT, 700, "pareto"),
        (signal.SIGTERM, 700, "pareto"),
    ],
)
def test_signals_while_modules_are_loaded(number: int, moment: int, command: str) -> None:
    found = signalled(number, moment, command)
    assert found.returncode == 128 + number
    assert "interrupted" in f"{found.stdout}{found.stderr}".lower()
    assert "Traceback" not in found.stderr
    assert "defect" not in found.stderr


def test_signals_while_the_interpreter_ends() -> None:
    ended = signalled(signal.SIGINT, "exit", "bounds")
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")
    last = signalled(signal.SIGINT, "last", "bounds")
    assert (last.returncode, last.stderr) == (0, "")
    assert last.stdout == ended.stdout
    assert last.stdout.endswith("\n")


def test_signal_that_python_swallows_is_told_all_the_same() -> None:
    """A KeyboardInterrupt in a finalizer is lost, but the command ends as interrupted later."""
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWS], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "all of it\n", "interrupted\n")


SWALLOWS = """
import os, signal
import typer
from sccl.cli import report, signals
class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
app = typer.Typer()
@app.command()
@report.report_errors
def work():
    Lost()
    print("all of it")
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # in threads that are started, too:
signals.install_handlers()  # on a busy machine it might come before the last line is printed
app([])
"""


def test_ignored_signals_stay_ignored() -> None:
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "from sccl.cli.signals import install_handlers; install_handlers(); os.kill(os.getpid(), "
        "signal.SIGINT)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


def test_main_thread_that_is_lost_in_native_code_does_not_keep_the_process() -> None:
    code = (
        "import ctypes, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from sccl.cli.signals import install_handlers; install_handlers(); libc = "
        "ctypes.CDLL(None); "
        "print('deaf', flush=True); "
        "[libc.pause() for _ in range(10**9)]"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "deaf\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130


VERB = """
import signal, sys, time
import typer
from sccl.cli import report, signals
app = typer.Typer()
call = {"signals": signals, "clean_up": lambda: None}
exec(compile(sys.argv.pop(), sys.argv.pop(), "exec"), call)
@app.command()
@report.report_errors
def work():
    try:
        call["work"]()
        time.sleep(600)
    except KeyboardInterrupt:
        print("partial results", flush=True)
        call["clean_up"]()
        raise
signal.signal(signal.SIGINT, signal.default_int_handler)
signals.install_handlers()
app([])
"""
"""A verb that runs code of a file, which does not exist."""

SLOW_IMPORT = """
import importlib.abc, importlib.util, sys
class Slow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, *_):
        return importlib.util.spec_from_loader(name, self) if name == "slow" else None
    def exec_module(self, _):
        print("ready", flush=True)
        sys.modules["time"].sleep(600)
sys.meta_path.insert(0, Slow())
import time
def work():
    import slow
"""
SHORT_CALL = """
import time
def work():
    print("ready", flush=True)
    for _ in range(30):
        time.sleep(0.01)
    print("result of the call", flush=True)
"""
SWALLOWS_TWICE = """
import time
def work():
    print("ready", flush=True)
    caught = 0
    while True:
        try:
            time.sleep(600)
        except BaseException:
            caught += 1
            if caught > 2:
                raise
"""
SLOW_CLEANUP = """
import os, signal, time
class Clock:
    now, turns = 0.0, 0
    def monotonic(self):
        return self.now
    def sleep(self, seconds):
        self.turns += 1
        time.sleep(seconds)
signals.time = clock = Clock()
def work():
    print("ready", flush=True)
    time.sleep(600)
def clean_up():
    os.kill(os.getpid(), signal.SIGINT)
    turns = clock.turns
    while clock.turns < turns + 2:
        time.sleep(0.01)
    clock.now = 1.1
    print("a second later", flush=True)
    time.sleep(600)
"""
"""A repeated signal within a second of the first, by a clock that stands. The thread that watches
the main thread reads it between two turns."""


def start_verb(code: str, file: str) -> subprocess.Popen[str]:
    """Start a verb that runs ``work()`` of the code, and interrupt it there."""
    process = subprocess.Popen(
        [sys.executable, "-c", VERB, file, code],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    return process


@pytest.mark.parametrize(
    ("code", "file", "printed"),
    [
        pytest.param(SHORT_CALL, "/site-packages/a.py", "result of the call\n", id="short-call"),
        pytest.param(SWALLOWS_TWICE, "/site-packages/a.py", "", id="swallows"),
        pytest.param(SHORT_CALL, "/ours/a.py", "", id="own-code"),
    ],
)
def test_signal_interrupts_foreign_code_that_does_not_return(
    code: str, file: str, printed: str
) -> None:
    process = start_verb(code, file)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, "interrupted\n")
    assert out == f"{printed}partial results\n"


def test_signal_ends_the_process_during_a_slow_import() -> None:
    process = start_verb(SLOW_IMPORT, "/ours/a.py")
    assert process.communicate(timeout=PATIENCE_S) == ("", "interrupted\n")
    assert process.returncode == 130


def test_second_signal_ends_the_process_at_once() -> None:
    process = start_verb(SLOW_CLEANUP, "/ours/a.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "partial results\n"
    assert process.stdout.readline() == "a second later\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE_S) == ("", "interrupted\n")
    assert process.returncode == 143
