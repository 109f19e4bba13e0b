"""Supervise the ranks of a lab, as the first process of its PID namespace.

When the supervisor ends, the system kills every process in its namespace, so no process that a rank
started survives. The file is started by its path and uses only the standard library. It reads its
job, a line of JSON, from stdin. It ends when stdin closes, which means that its parent has ended.
It prints a line of JSON for each event.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import Any, NoReturn

GRACE_S = 5.0
"""Seconds that the other ranks have to end after one has failed."""

LAST_S = 0.3
"""Seconds that all ranks have to end after the supervisor has terminated them."""

_LINE = 1 << 16  # maximum bytes of a line in one event
_PIECES = 64  # reads from a pipe after its rank has ended, since child processes may write on
_BEGIN = 'echo >&0; read -r _ && exec "$@" </dev/null'


def report(**message: Any) -> None:
    """Print an event for the parent. If the parent has ended, exit."""
    text = (json.dumps(message) + "\n").encode()
    try:
        while text:
            text = text[os.write(1, text) :]
    except OSError:
        os._exit(1)


def fail(why: str) -> NoReturn:
    """Report why the lab cannot start, and exit."""
    report(failed=why)
    sys.exit(1)


def run_batch(words: list[str], text: str) -> None:
    """Run a tool with commands on its stdin."""
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.split())[-200:] or "nothing"
        fail(f"{' '.join(words[-3:])} ended with exit code {done.returncode}, it printed: {said}")


class SupervisedRank:
    """The process of a rank, with its incomplete lines of output."""

    def __init__(self, number: int, job: dict[str, Any]) -> None:
        self.number = number
        self.door: socket.socket | None = None
        self.words = job["words"]
        stdin: Any = subprocess.DEVNULL
        if job["net"]:
            self.door, stdin = socket.socketpair()
            self.words = ["unshare", "--net", "--", "sh", "-c", _BEGIN, "sh", *self.words]
        self.process = subprocess.Popen(
            [*job["before"], *self.words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | job["environments"][number],
            start_new_session=True,
        )
        self.left = {"out": b"", "err": b""}
        if self.door is not None:
            stdin.close()

    def namespace_pid(self) -> str:
        """Wait until the rank's process is in its own network namespace, and return its pid."""
        if self.door is None or not self.door.recv(1):
            fail(f"rank {self.number} does not get a network of its own")
        return str(self.process.pid)

    def start_command(self) -> None:
        """Let the rank's process execute the command."""
        if self.door is not None:
            self.door.sendall(b"\n")
            self.door.close()

    def report_lines(self, stream: str, piece: bytes) -> None:
        """Report the complete lines of the rank's output.

        Args:
            stream: ``"out"`` or ``"err"``.
            piece: New output. Empty: the stream has ended, so report the rest of the last line.
        """
        *lines, rest = (self.left[stream] + piece).split(b"\n")
        if rest and (not piece or len(rest) > _LINE):
            lines, rest = [*lines, rest], b""
        self.left[stream] = rest
        for line in lines:
            report(rank=self.number, stream=stream, text=line.decode(errors="replace"))

    def signal_session(self, number: signal.Signals) -> None:
        """Send a signal to all processes of the rank's session, if any are left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class Supervisor:
    """The ranks of a lab and their states."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.watch = selectors.DefaultSelector()
        self.ranks: list[SupervisedRank] = []
        self.running: set[SupervisedRank] = set()
        self.deadline: float | None = None

    def start(self) -> None:
        """Start all ranks, connected to their networks."""
        job = self.job
        for number in range(len(job["environments"])):
            try:
                self.ranks.append(SupervisedRank(number, job))
            except OSError as error:
                fail(f"{job['words'][0]} does not start ({error.strerror or error})")
        if job["net"]:
            pids = [rank.namespace_pid() for rank in self.ranks]
            run_batch(["ip", "-batch", "-"], job["net"]["bridges"])
            run_batch(["ip", "-batch", "-"], job["net"]["links"].format(*pids))
            run_batch(["tc", "-batch", "-"], job["net"]["bridge_limits"])
            for pid, addresses in zip(pids, job["net"]["addresses"], strict=True):
                inside = ["nsenter", "--target", pid, "--net", "--"]
                run_batch([*inside, "ip", "-batch", "-"], addresses)
                run_batch([*inside, "tc", "-batch", "-"], job["net"]["limits"])
        for rank in self.ranks:
            rank.start_command()

    def watch_all(self) -> None:
        """Register the output and the end of each rank, and stdin, for :meth:`relay_until_end`."""
        self.watch.register(0, selectors.EVENT_READ, None)
        for rank in self.ranks:
            for stream in ("out", "err"):
                pipe = rank.process.stdout if stream == "out" else rank.process.stderr
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                self.watch.register(pipe, selectors.EVENT_READ, (rank, stream))
            handle = os.pidfd_open(rank.process.pid)
            self.watch.register(handle, selectors.EVENT_READ, (rank, "end"))
            self.running.add(rank)

    def relay_until_end(self) -> bool:
        """Forward events until all ranks have ended or the deadline after a failure.

        Returns:
            False if the parent closed stdin, which aborts the lab.
        """
        while self.running:
            wait = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
            events = self.watch.select(wait)
            if wait == 0.0:
                return True
            for key, _ in events:
                if key.data is None:
                    if not os.read(0, 4096):
                        return False
                elif key.data[1] == "end":
                    self.on_rank_end(key)
                else:
                    self.read_output(key)
        return True

    def read_output(self, key: selectors.SelectorKey) -> None:
        """Read and report a piece of a rank's output."""
        rank, stream = key.data
        try:
            piece = os.read(key.fd, _LINE)
        except BlockingIOError:
            return
        rank.report_lines(stream, piece)
        if not piece:
            self.watch.unregister(key.fileobj)

    def on_rank_end(self, key: selectors.SelectorKey) -> None:
        """Report the rest of a rank's output, then its end. If it failed, terminate the others."""
        rank: SupervisedRank = key.data[0]
        self.watch.unregister(key.fileobj)
        os.close(key.fd)
        for pipe in [entry for entry in self.watch.get_map().values() if entry.data]:
            if pipe.data[0] is rank:
                self.drain_pipe(pipe)
        code = rank.process.wait()
        self.running.discard(rank)
        report(rank=rank.number, code=code if code >= 0 else 128 - code)
        if code and self.deadline is None:
            self.deadline = time.monotonic() + GRACE_S
            for left in self.running:
                left.signal_session(signal.SIGTERM)

    def drain_pipe(self, key: selectors.SelectorKey) -> None:
        """Read the rest of a pipe. Child processes of a rank may still hold it open."""
        rank, stream = key.data
        with contextlib.suppress(BlockingIOError):
            for _ in range(_PIECES):
                if not (piece := os.read(key.fd, _LINE)):
                    break
                rank.report_lines(stream, piece)
        rank.report_lines(stream, b"")

    def end_all(self) -> None:
        """Terminate the remaining ranks, and then kill all processes that ranks started."""
        for rank in self.running:
            rank.signal_session(signal.SIGTERM)
        last = time.monotonic() + LAST_S
        while self.running and time.monotonic() < last:
            self.running = {rank for rank in self.running if rank.process.poll() is None}
            time.sleep(0.01)
        for rank in self.ranks:
            rank.signal_session(signal.SIGKILL)


def main() -> None:
    """Run the job that stdin describes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        job = json.loads(stdin.readline())
    keeper = Supervisor(job)
    try:
        keeper.start()
        keeper.watch_all()
        wanted = keeper.relay_until_end()
    finally:
        keeper.end_all()
    if wanted:
        report(done=True)


if __name__ == "__main__":
    main()
