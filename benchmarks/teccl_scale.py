"""TE-CCL on many chassis and on process groups: time and memory of whole ``sccl`` processes.

Published times are those of TE-CCL (SIGCOMM 2024), Table 4, on machines that are not public, and
section 6.3 (350 GB of memory for alltoall). For process groups they are those of "PCCL" (arXiv
2606.07019): alltoall of 512 ranks in 11.7 minutes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.process import measure

GB = 10**9

CHASSIS = (2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class LargeCase:
    """Command to measure, with its target and published results.

    Attributes:
        series: Chart line of the case. Empty: none.
        ranks: Number of ranks of the machine.
        words: Words of the command.
        target_s: Target for the process, in seconds. None: There is none.
        published: Published results for as many ranks.
    """

    series: str
    ranks: int
    words: tuple[str, ...]
    target_s: float | None = None
    published: str = ""


@dataclass(frozen=True, slots=True)
class LargeResult:
    """Result of a case.

    Attributes:
        finish_us: Finish of the verified schedule, in microseconds.
        bound_us: Lower bound over all schedules of such chunks, in microseconds.
        transfers: Number of transfers over links.
        seconds: Wall-clock time of the whole process.
        user_seconds: Processor time. Other load on the machine changes it less than wall-clock
            time.
        memory_mb: Peak memory, in MB of 10^6 bytes.
    """

    case: LargeCase
    finish_us: float
    bound_us: float | None
    transfers: int
    seconds: float
    user_seconds: float
    memory_mb: float


def _chassis(collective: str, counts: Sequence[int], *model: str) -> tuple[LargeCase, ...]:
    """Return cases of NDv2 chassis around a switch, with an output of 1 GB."""
    published = {
        ("alltoall", 64): "500 s (Internal 1)",
        ("alltoall", 128): "800 s (Internal 1, EM 2), 2,600 s (Internal 2)",
        ("alltoall", 256): "1,500 s (Internal 2, EM 4)",
        ("allgather", 64): "3,000 s (Internal 1, A*)",
        ("allgather", 128): "7 h (Internal 1, A*), 1,300 s (Internal 2, A*)",
        ("allgather", 256): "2.8 h (Internal 2, A*, EM 2)",
    }
    return tuple(
        LargeCase(
            " ".join((collective, *model[1:])),
            ranks,
            _words("teccl", collective, f"ndv2:{count}",
                   GB if collective == "alltoall" else GB // ranks, *model, "--effort", "2"),
            60.0 if ranks <= 128 else None,
            published.get((collective, ranks), ""),
        )
        for count in counts
        for ranks in (8 * count,)
    )  # fmt: skip


def _words(verb: str, collective: str, topology: str, size: int, *more: str) -> tuple[str, ...]:
    named = ("--collective", collective, "--topo", topology, "--size", str(size))
    return (verb, *named, *more, "--json")


_GROUPED = 1_024_000
"""Buffer size in bytes that is divisible by 512 ranks."""

_GROUPS = "702 s (alltoall of 512)"

CASES = {
    "allgather": _chassis("allgather", CHASSIS),
    "alltoall": _chassis("alltoall", CHASSIS),
    "alltoall-lp": _chassis("alltoall", CHASSIS[:-1], "--model", "lp"),
    "groups": tuple(
        LargeCase("", 512, _words(verb, collective, "mesh:16x32", size, *more), 120.0, _GROUPS)
        for verb, collective, size, more in (
            ("tacos", "alltoall@64x8", 8 * _GROUPED, ()),
            ("teccl", "alltoall@64x8", 8 * _GROUPED, ("--effort", "2")),
            ("tacos", "alltoall", _GROUPED, ()),
        )
    ),
}


def measure_case(case: LargeCase) -> LargeResult:
    """Measure a case.

    Raises:
        ScclError: The command failed.
    """
    run = measure(*case.words)
    output = json.loads(run.text)
    return LargeResult(
        case,
        output["finish_us"],
        output["bound_us"],
        output["sends"],
        run.seconds,
        run.user_seconds,
        run.memory_mb,
    )
