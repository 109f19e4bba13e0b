"""Compare the completion times of the simulator and of ASTRA-sim for the same messages."""

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
from sccl.formats.common.contract import WrittenFiles
from sccl.judge import violations
from sccl.sim import Messages, Timeline, simulate

NAME = "AstraSim_Analytical_Congestion_Aware"
TIMEOUT_S = 300.0

_FINISHED = re.compile(r"sys\[(\d+)\] finished, (\d+) cycles")


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """Messages for both simulators.

    Attributes:
        chunk_bytes: Bytes of a chunk, one number for all chunks or one for each.
        messages: Messages for sccl's simulator.
        parts: Runs of ASTRA-sim, one after the other: all messages, or one step each.
    """

    name: str
    network: Network
    topology: Topology
    chunk_bytes: int | tuple[int, ...]
    messages: Messages
    parts: tuple[Messages, ...]

    @property
    def clock(self) -> Clock:
        """Return the clock, in nanoseconds as in ASTRA-sim."""
        return Clock.from_topology(self.topology, self.chunk_bytes, tick_ps=1000)


@dataclass(frozen=True, slots=True)
class AstraResult:
    """Arrival times of the last message, in nanoseconds.

    Attributes:
        transfers: Number of transfers over links.
        astra_ns: Time of ASTRA-sim. None: a rank never ended.
        ours_ns: Time of sccl, with costs rounded up to nanoseconds as everywhere in sccl.
        rounded_down_ns: Time of sccl, with costs rounded down as in ASTRA-sim.
        ties: Number of transfers that reach a link in the same nanosecond as another one. The
            simulator of sccl orders them by number, and ASTRA-sim by the order of a hash table.
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
        """Return whether both agree. With ties they may differ."""
        if self.astra_ns is None:
            return "failed"
        return "sat" if self.ties or self.astra_ns == self.rounded_down_ns else "unsat"


def find(binary: Path | None) -> str:
    """Return the path of the named program, or of the one on the path.

    Raises:
        ParameterError: The program cannot be run.
    """
    if path := shutil.which(str(binary or NAME)):
        return path
    where = f"--binary is {str(binary)!r}" if binary else f"no {NAME} on the path"
    raise ParameterError(
        f"{where}, expected a program that can be run: build ASTRA-sim with its analytical backend "
        "that is aware of congestion, and name what comes out with --binary"
    )


def measure(cases: Iterable[Case], binary: str) -> Iterator[AstraResult]:
    """Yield both times of each case.

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
            astra_ns=_run_parts(case, binary),
            ours_ns=simulate(case.messages, case.topology, clock).finish,
            rounded_down_ns=down.finish,
            ties=ties(down),
        )


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Results for an algorithm without its last send.

    Attributes:
        violation: Message of the first violation.
    """

    case: str
    astra_ns: int | None
    ours_ns: int
    violation: str


def incomplete(algorithm: Algorithm, binary: str) -> Incomplete:
    """Return both times and the first violation of an algorithm without its last send.

    Raises:
        ScclError: ASTRA-sim failed.
    """
    shortened = replace(algorithm, sends=algorithm.sends[:-1])
    messages = order_by_arrival(Messages.from_algorithm(shortened))
    case = Case("", Network.PAIRS, algorithm.topology, 2**16, messages, (messages,))
    return Incomplete(
        case=f"{algorithm.collective.name} on {algorithm.topology.name}, {len(shortened.sends)} of "
        f"{len(algorithm.sends)} sends",
        astra_ns=_run_parts(case, binary),
        ours_ns=simulate(messages, algorithm.topology, case.clock).finish,
        violation=violations(shortened)[0].message,
    )


def order_by_arrival(messages: Messages) -> Messages:
    """Return messages that links serve in the order of arrival, as in the traces."""
    return replace(messages, step=np.full_like(messages.step, -1))


def rounded_down(clock: Clock, topology: Topology) -> Clock:
    """Return a machine's clock with transmission times rounded down. It has no shared budgets."""
    rates = [link.lanes * Fraction(str(link.gb_per_s)) for link in topology.links]
    beta = tuple(
        tuple(math.floor(size * 1000 / rate / clock.tick_ps) for rate in rates)
        for size in clock.sizes
    )
    return replace(clock, beta=beta)


def ties(timeline: Timeline) -> int:
    """Return the number of transfers that reach a link at the same tick as another one."""
    pairs = np.stack((timeline.link, timeline.ready))
    return len(timeline.link) - int(np.unique(pairs, axis=1).shape[1])


def _run_parts(case: Case, binary: str) -> int | None:
    """Return ASTRA-sim's time for all parts together. None: a rank never ended."""
    total = 0
    for part in case.parts:
        ns = finish_ns(part, case.topology, case.clock, case.network, binary)
        if ns is None:
            return None
        total += ns
    return total


def finish_ns(
    messages: Messages, topology: Topology, clock: Clock, network: Network, binary: str
) -> int | None:
    """Return ASTRA-sim's time for messages. None: a rank never ended.

    Raises:
        ParameterError: ASTRA-sim's files cannot express the messages.
        ScclError: ASTRA-sim failed.
    """
    return run_ns(folder(messages, topology, clock, network), binary, topology.ranks)


def run_ns(written: WrittenFiles, binary: str, ranks: int) -> int | None:
    """Run written files by their command, and return when the last rank ends. None: one never ends.

    Raises:
        ScclError: ASTRA-sim failed.
    """
    with tempfile.TemporaryDirectory(prefix="sccl-astra-") as path:
        for name, content in written.files.items():
            Path(path, name).write_bytes(content)
        words = shlex.split(written.command.partition(" && ")[2])
        done = subprocess.run(
            [binary, *words[1:]],
            cwd=path,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ScclError(
            f"{binary} ended with {done.returncode}: {lines[-1] if lines else 'silent'}"
        )
    ends = [int(cycles) for _, cycles in _FINISHED.findall(done.stdout)]
    return max(ends) if len(ends) == ranks else None
