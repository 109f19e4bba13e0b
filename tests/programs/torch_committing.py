"""Commit plans to a job of torch_switching.py: ``torch_committing.py ADDRESS WORD ..``.

A separate process runs each word, with a coordinator without knowledge of the others:

    propose:FILE           a plan, by its script, and waits for the decision
    commit:FILE,FILE ..    waits until the job is under each before the next
    ask:FILE               waits for nothing
    dies:WHEN-WHAT:FILE    kills itself before or after a part of it: plan, log, tell
    finish                 waits until the job is under the last plan
    resume:LIFE/PHASE      lets a rank continue that has stopped there
    anew:GENERATION        waits until the job has restarted
    seen:VERSION           waits until all ranks report an iteration and motifs under it
    end                    lets the job end

It prints decisions and observations.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from sccl.torch_backend.control.coordinator import Coordinator
from sccl.torch_backend.control.feedback import FeedbackReader
from sccl.torch_backend.control.job_stores import connect_store
from sccl.torch_backend.control.ledger import Ledger, current_ledger

DEADLINE_S = 60.0
BRIEF_S = 0.5
"""Proposals that get no votes."""


class Committer:
    """A coordinator, and a test's entries in the job's store."""

    def __init__(self, address: str, deadline_s: float) -> None:
        self.shared = connect_store(address)
        host, _, port = address.rpartition(":")
        self.store = dist.TCPStore(host, int(port), is_master=False, timeout=timedelta(minutes=2))
        self.ledger: Ledger = current_ledger(self.shared)
        self.ledger.mark_watched()
        self.coordinator = Coordinator(self.ledger, time.monotonic, deadline_s=deadline_s)
        self.pause = threading.Event()  # nobody sets it

    def until(self, done: Callable[[], object]) -> None:
        """Look after plans until something is so."""
        while not done():
            for one in self.coordinator.advance():
                say(f"{one.version} {'committed' if one.committed else f'aborted: {one.why}'}")
            self.pause.wait(0.01)

    def propose(self, file: str) -> int:
        """Propose a plan, and return its version."""
        return self.coordinator.propose(Path(file).read_bytes())

    def under(self, version: int) -> None:
        """Wait until the job is under a version."""
        key = f"test/{self.ledger.job.generation}/under/{version}"
        self.until(lambda: self.store.check([key]))

    def seen(self, version: int) -> None:
        """Wait until all ranks report an iteration under a version, with motif times."""
        reader = FeedbackReader(self.ledger)
        self.until(lambda: any(one.version == version for one in reader.read()))
        self.until(lambda: bool(reader.read() and reader.motifs))
        say(f"seen under {version}")

    def resume(self, where: str) -> None:
        """Let a rank go on, once it has stopped."""
        pid = int(self.store.get(f"test/{where}"))
        stat = Path(f"/proc/{pid}/stat")
        self.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        os.kill(pid, signal.SIGCONT)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def let_die(when: str, what: str) -> None:
    """Let this process die before or after it does a part."""
    name = {"plan": "_write", "log": "log_decision", "tell": "announce_decision"}[what]
    whole = getattr(Ledger, name)

    def part(*words: object) -> None:
        if when == "after":
            whole(*words)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(Ledger, name, part)


def act(address: str, word: str) -> None:
    verb, _, rest = word.partition(":")
    one = Committer(address, BRIEF_S if verb.startswith("brief") else DEADLINE_S)
    match verb.removeprefix("brief-"):
        case "propose":
            version = one.propose(rest)
            one.until(lambda: one.ledger.announced_decision(version))
        case "commit":
            for file in rest.split(","):
                one.under(one.propose(file))
        case "ask":
            one.propose(rest)
        case "dies":
            phase, _, file = rest.partition(":")
            let_die(*phase.split("-"))
            version = one.propose(file)
            one.until(lambda: one.ledger.announced_decision(version))
        case "settle":
            one.until(lambda: one.ledger.announced_decision(one.ledger.latest_version()))
        case "finish":
            one.under(one.ledger.latest_version())
        case "resume":
            one.resume(rest)
        case "anew":
            one.until(lambda: current_ledger(one.shared).job.generation == int(rest))
        case "seen":
            one.seen(int(rest))
        case "end":
            one.store.set("test/end", "1")


def main() -> None:
    for word in sys.argv[2:]:
        pid = os.fork()
        if not pid:
            act(sys.argv[1], word)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        expected = -signal.SIGKILL if word.startswith("dies") else 0
        assert status == expected, f"{word} ended with {status}"


if __name__ == "__main__":
    main()
