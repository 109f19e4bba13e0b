"""The simulator's clock beside that of ASTRA-sim, on the same messages and the same links."""

from __future__ import annotations

import math
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.astra_traces import Network, folder
from benchmarks.timing import Verdict
from sccl.core.algorithm import Algorithm
from sccl.core.clock import Clock
from sccl.core.topology import Topology
from sccl.errors import ParameterError, ScclError
from sccl.formats import WrittenFiles
from sccl.judge import violations
from sccl.sim import Messages, Timeline, simulate

NAME = "AstraSim_Analytical_Congestion_Aware"
TIMEOUT_S = 300.0

_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """What both are asked.

    Attributes:
        chunk_bytes: of every chunk, or of each.
        messages: as ours simulates them.
        parts: what ASTRA-sim runs one after the other: these, or each of their steps.
    """

    name: str
    network: Network
    topology: Topology
    chunk_bytes: int | tuple[int, ...]
    messages: Messages
    parts: tuple[Messages, ...]

    @property
    def clock(self) -> Clock:
        """Return the clock, in nanoseconds as ASTRA-sim has them."""
        return Clock.from_topology(self.topology, self.chunk_bytes, tick_ps=1000)


@dataclass(frozen=True, slots=True)
class AstraResult:
    """When the last message arrives, nanoseconds.

    Attributes:
        transfers: over links.
        astra_ns: None: a rank never ended.
        ours_ns: costs rounded up to whole nanoseconds, as all of the house has them.
        rounded_down_ns: costs rounded down, as ASTRA-sim has them.
        ties: transfers that came to a link at the nanosecond at which another one did. Ours takes
            them by their numbers, and ASTRA-sim in the order in which a hash table has them.
    """

    case: str
    topology: str
    network: Network
    transfers: int
    astra_ns: int | None
    ours_ns: int
    rounded_down_ns: int
    ties: int

    @property
    def verdict(self) -> Verdict:
        """Return whether both agree; where there are ties they need not."""
        if self.astra_ns is None:
            return "failed"
        return "sat" if self.ties or self.astra_ns == self.rounded_down_ns else "unsat"


def find(binary: Path | None) -> str:
    """Return the program to run: the one that is named, or else the one on the path.

    Raises:
        ParameterError: it cannot be run.
    """
    if found := shutil.which(str(binary or NAME)):
        return found
    where = f"--binary is {str(binary)!r}" if binary else f"no {NAME} on the path"
    raise ParameterError(
        f"{where}, expected a program that can be run: build ASTRA-sim with its analytical backend "
        "that is aware of congestion, and name what comes out with --binary"
    )


def measure(cases: Iterable[Case], binary: str) -> Iterator[AstraResult]:
    """Yield what both say of each case.

    Raises:
        ScclError: ASTRA-sim failed.
    """
    for case in cases:
        clock = case.clock
        down = simulate(case.messages, case.topology, rounded_down(clock, case.topology))
        yield AstraResult(
            case=case.name,
            topology=case.topology.name,
            network=case.network,
            transfers=len(down.link),
            astra_ns=_of_parts(case, binary),
            ours_ns=simulate(case.messages, case.topology, clock).finish,
            rounded_down_ns=down.finish,
            ties=ties(down),
        )


@dataclass(frozen=True, slots=True)
class Incomplete:
    """What is said of an algorithm of which the last send is taken out.

    Attributes:
        violation: the first that the judge finds.
    """

    case: str
    astra_ns: int | None
    ours_ns: int
    violation: str


def incomplete(whole: Algorithm, binary: str) -> Incomplete:
    """Return what both clocks and the judge say of an algorithm without its last send.

    Raises:
        ScclError: ASTRA-sim failed.
    """
    lacking = replace(whole, sends=whole.sends[:-1])
    messages = as_they_come(Messages.from_algorithm(lacking))
    case = Case("", Network.PAIRS, whole.topology, 2**16, messages, (messages,))
    return Incomplete(
        case=f"{whole.collective.name} on {whole.topology.name}, {len(lacking.sends)} of "
        f"{len(whole.sends)} sends",
        astra_ns=_of_parts(case, binary),
        ours_ns=simulate(messages, whole.topology, case.clock).finish,
        violation=violations(lacking)[0].message,
    )


def as_they_come(messages: Messages) -> Messages:
    """Return messages that links serve in the order of coming, as the traces here have them."""
    return replace(messages, step=np.full_like(messages.step, -1))


def rounded_down(clock: Clock, topology: Topology) -> Clock:
    """Return the clock of a machine without budgets that rounds down what a chunk takes to pass."""
    rates = [link.lanes * Fraction(str(link.gb_per_s)) for link in topology.links]
    beta = tuple(
        tuple(math.floor(size * 1000 / rate / clock.tick_ps) for rate in rates)
        for size in clock.sizes
    )
    return replace(clock, beta=beta)


def ties(timeline: Timeline) -> int:
    """Return how many transfers came to a link at the tick at which another one did."""
    pairs = np.stack((timeline.link, timeline.ready))
    return len(timeline.link) - int(np.unique(pairs, axis=1).shape[1])


def _of_parts(case: Case, binary: str) -> int | None:
    """Return what ASTRA-sim says of all parts together; None: a rank never ended."""
    whole = 0
    for part in case.parts:
        ns = finish_ns(part, case.topology, case.clock, case.network, binary)
        if ns is None:
            return None
        whole += ns
    return whole


def finish_ns(
    messages: Messages, topology: Topology, clock: Clock, network: Network, binary: str
) -> int | None:
    """Return what ASTRA-sim says of some messages; None: a rank never ended.

    Raises:
        ParameterError: they cannot be told in its files.
        ScclError: it failed.
    """
    return run_ns(folder(messages, topology, clock, network), binary, topology.ranks)


def run_ns(written: WrittenFiles, binary: str, ranks: int) -> int | None:
    """Return when the last rank ends of a folder that is run as it is told; None: one never does.

    Raises:
        ScclError: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="sccl-astra-") as path:
        for name, content in written.files.items():
            Path(path, name).write_bytes(content)
        told = shlex.split(written.command.partition(" && ")[2])
        done = subprocess.run(
            [binary, *told[1:]],
            cwd=path,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ScclError(f"{binary} ended with {done.returncode}: {said[-1] if said else 'silent'}")
    ends = [int(cycles) for _, cycles in _FINISHED.findall(done.stdout)]
    return max(ends) if len(ends) == ranks else None
