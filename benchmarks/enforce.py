"""Run PyTorch jobs in the lab: recorded, planned, and under their plans, compared with gloo.

Each job starts as its user would start it, and only the name of its backend changes. A period is
the time of rank 0 from the end of a step to the end of the next. The results have the median of the
periods after the first one, or of the planned ones.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.lab import parse_channels
from benchmarks.lab.fabric import build_lab_fabric
from sccl.errors import ToolError
from sccl.torch_backend.jobs.run_job import run_under_plan
from sccl.torch_backend.script import SCRIPT, format_script
from sccl.training.plan_step import plan_training, write_training_plan
from sccl.training.types.workload import Workload
from sccl.training.workload_outputs import ImportedWorkload

ROOT = Path(__file__).parent.parent
TORCH = ROOT / ".venv" / "torch-newest" / "bin" / "python"
RANKS = 4
RATES = "fast=100Mb,slow=50Mb"
SWITCHES = 50
FREE = "fast=100Gb"
"""A rate that limits nothing between two ranks without namespaces."""

GLOO, BOTH, ORDER, PLANNED = "gloo, fast", "gloo, both", "as called, fast", "planned"
"""Ways to run a job: gloo on its first interface, gloo on both, a plan in the order of the calls
over the first interface, and a plan from a search."""


@dataclass(frozen=True, slots=True)
class EnforceCase:
    """A run of a job.

    Attributes:
        job: Name of a job in ``benchmarks/jobs``.
        search: Search that plans the job, as in ``sccl train plan --search``.
        steps: Number of training steps. The first ones are not counted.
        small: Whether the model is a toy, on two ranks without limited rates.
    """

    part: str
    job: str
    method: str
    channels: str = RATES
    search: str = ""
    seed: int = 0
    steps: int = 7
    small: bool = False


@dataclass(frozen=True, slots=True)
class EnforceResult:
    """Times of a job.

    Attributes:
        claimed_ms: Period that the plan claims. None: there is no plan.
        processor_ms: Processor time of a step, the mean over ranks.
        losses: Mean loss of the ranks after each step, with all digits.
        sums: Final sum of all parameters of all ranks, with all digits.
        load: Load of the machine at the end.
    """

    part: str
    job: str
    method: str
    channels: str
    search: str
    seed: int
    claimed_ms: float | None
    period_ms: float
    periods_ms: tuple[float, ...]
    processor_ms: float
    losses: tuple[str, ...]
    sums: str
    load: float


@dataclass(frozen=True, slots=True)
class OverheadResult:
    """Time of a call of some bytes among 16 concurrent ones, and processor time of a rank."""

    part: str
    method: str
    channels: str
    size_bytes: int
    us: float
    processor_us: float
    load: float


@dataclass(frozen=True, slots=True)
class SwitchResult:
    """Times of a job that switched to other plans while it ran.

    Attributes:
        switches: Number of switches to plans that were committed during the run.
        period_ms: Median period.
        longest_ms: Longest period from the first switch on.
        versions: Version of the plan at the end of each period.
    """

    part: str
    job: str
    channels: str
    switches: int
    period_ms: float
    longest_ms: float
    periods_ms: tuple[float, ...]
    versions: tuple[int, ...]
    load: float


Result = EnforceResult | OverheadResult | SwitchResult


def _job(name: str) -> tuple[EnforceCase, ...]:
    return (
        EnforceCase(name, name, GLOO, steps=6),
        EnforceCase(name, name, BOTH, steps=4),
        EnforceCase(name, name, ORDER, RATES.partition(",")[0], "fifo", steps=6),
        EnforceCase(name, name, PLANNED, RATES, "sgs"),
    )


def _claim(job: str, search: str, channels: str = RATES, seed: int = 0) -> EnforceCase:
    return EnforceCase("claims", job, PLANNED, channels, search, seed, steps=6)


_EQUAL, _WIDE = "fast=100Mb,slow=100Mb", "fast=150Mb,slow=75Mb"

CLAIMS = (
    _claim("dlrm", "sgs", seed=1),
    _claim("dlrm", "ho"),
    _claim("dlrm", "lifo"),
    _claim("dlrm", "s-sched"),
    _claim("dlrm", "sgs", _EQUAL),
    _claim("dlrm", "sgs", _WIDE),
    _claim("fsdp2", "lifo"),
    _claim("fsdp2", "mcmc"),
    _claim("fsdp2", "sgs", _EQUAL),
    _claim("fsdp2", "sgs", _WIDE),
    _claim("moe", "sgs", seed=1),
    _claim("moe", "p3"),
    _claim("moe", "sgs", _EQUAL),
    _claim("moe", "sgs", _WIDE),
)
"""Together with the plans of the three jobs, from a search and in call order, these are 20."""

PARTS = {
    "dlrm": _job("dlrm"),
    "fsdp2": _job("fsdp2"),
    "moe": _job("moe"),
    "claims": CLAIMS,
    "switches": (EnforceCase("switches", "moe", PLANNED, RATES, "sgs"),),
    "overhead": tuple(
        EnforceCase("overhead", "calls", method, FREE, search, steps=30)
        for method, search in ((GLOO, ""), ("no plan", ""), (ORDER, "fifo"))
    ),
    "overhead at 100 Mb/s": tuple(
        EnforceCase("overhead at 100 Mb/s", "calls", method, "fast=100Mb", search, steps=12)
        for method, search in ((GLOO, ""), (ORDER, "fifo"))
    ),
}
SMOKE = tuple(
    EnforceCase("smoke", "dlrm", method, "fast=10Gb,slow=10Gb", search, steps=4, small=True)
    for method, search in ((GLOO, ""), (PLANNED, "ho"))
)


class JobLab:
    """Runs jobs, and stores their recordings."""

    def __init__(self, python: Path) -> None:
        if not python.is_file():
            raise ToolError(
                f"there is no torch ({python}): 'make test-rest' installs it, or name a Python "
                "that has it with --torch"
            )
        self._python = python
        self._recorded: dict[tuple[str, bool], Workload] = {}

    def run(self, batch: Sequence[EnforceCase]) -> list[Result]:
        """Start all jobs of a batch together, and return their times.

        If no job of the batch has a plan, the same start also records the job.

        Raises:
            ToolError: A job failed, or the machine has no namespaces.
        """
        first = batch[0]
        with tempfile.TemporaryDirectory(prefix="sccl-benchmark-") as name:
            folder, runs = Path(name), []
            claims = [self._plan(case, _folder(folder, k)) for k, case in enumerate(batch)]
            for k, case in enumerate(batch):
                script = folder / str(k) / "script.json"
                environment = {SCRIPT: str(script)} if case.search and len(batch) > 1 else {}
                runs.append(_run(case, folder / str(k), environment))
                if case.part == "switches":
                    runs[-1]["words"] += self._commit_command(case, folder)
            if first.search:
                plan = folder / "0" / "plan.json" if len(batch) == 1 else None
                self._start(first, folder, runs, plan=plan)
            else:
                self._record(first, folder, runs)
            ranks = [
                [json.loads(f.read_text()) for f in sorted((folder / str(k)).glob("rank-*.json"))]
                for k in range(len(batch))
            ]
        results: list[Result] = []
        for case, rows, claimed in zip(batch, ranks, claims, strict=True):
            if case.job == "calls":
                results += _overhead(case, rows)
            elif case.part == "switches":
                results.append(switches(case, rows[0]))
            else:
                results.append(_result(case, rows, claimed))
        return results

    def _commit_command(self, case: EnforceCase, folder: Path) -> list[str]:
        """Return the command that commits another plan and the job's own in turns while it runs."""
        self._plan(replace(case, search="lifo"), _folder(folder, 1))
        plans = [str(folder / str(k) / "plan.json") for k in (1, 0)]
        words = [str(self._python), "-m", "benchmarks.jobs.committing", "STORE", str(SWITCHES)]
        return [*words, *plans]

    def _plan(self, case: EnforceCase, folder: Path) -> float | None:
        """Plan a job, and return its claimed period in milliseconds. None: it has no plan."""
        if not case.search:
            return None
        from sccl.torch_backend.jobs.compile_plan import compile_plan  # noqa: PLC0415 - loads synthesisers
        from sccl.training.planner import PlanSettings  # noqa: PLC0415 - loads NumPy

        workload = self._workload(case)
        settings = PlanSettings(case.search, 1.0, case.seed, 1 if case.method == ORDER else 16)
        fabric = build_lab_fabric(parse_channels(case.channels), workload.ranks)
        plan = plan_training(workload, fabric, settings).plan
        write_training_plan(folder / "plan.json", plan)
        (folder / "script.json").write_text(format_script(compile_plan(plan)))
        return plan.period_ns / 1e6

    def _workload(self, case: EnforceCase) -> Workload:
        if (case.job, case.small) not in self._recorded:
            as_it_is = replace(case, channels=_rates(case), search="")
            with tempfile.TemporaryDirectory(prefix="sccl-benchmark-") as name:
                self._record(as_it_is, Path(name), [])
        return self._recorded[case.job, case.small]

    def _record(self, case: EnforceCase, folder: Path, runs: list[dict[str, Any]]) -> None:
        """Run jobs, and then record the job if it has no recording yet."""
        if (case.job, case.small) in self._recorded:
            self._start(case, folder, runs)
            return
        recording = replace(case, method="recorded", steps=5)
        runs = [*runs, _run(recording, _folder(folder, len(runs)), {})]
        recorded = self._start(case, folder, runs, record=folder / "w.json")
        assert recorded is not None
        self._recorded[case.job, case.small] = recorded.read.workload

    def _start(
        self,
        case: EnforceCase,
        folder: Path,
        runs: Sequence[dict[str, Any]],
        *,
        plan: Path | None = None,
        record: Path | None = None,
    ) -> ImportedWorkload | None:
        """Start runs of jobs as their user would."""
        (folder / "runs.json").write_text(json.dumps(runs))
        try:
            return run_under_plan(self._start_command(case, folder), plan, record, aside=True)
        except ToolError as error:
            output = " ".join((folder / "stderr").read_text(errors="replace").split())[-300:]
            raise ToolError(f"{case.job}, {case.method}: {error}: {output}") from error

    def _start_command(self, case: EnforceCase, folder: Path) -> list[str]:
        """Return the command that starts the runs of a folder, with their output in the folder."""
        free = ["--by", "bucket"] if _is_free(case) else []
        paths = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
        settings = ["OMP_NUM_THREADS=1", "TORCH_CPP_LOG_LEVEL=ERROR", "PYTHONWARNINGS=ignore"]
        program = str(ROOT / "benchmarks" / "jobs" / "runs.py")
        return [
            *("sh", "-c", 'exec "$@" 2>"$0"', str(folder / "stderr")),
            *("env", f"PYTHONPATH={paths}", *settings),
            *(sys.executable, "-m", "benchmarks.lab", "--quiet", *free),
            *("--channels", case.channels, "--ranks", str(2 if _is_free(case) else RANKS)),
            *("--", str(self._python), program, str(folder / "runs.json")),
        ]


def batches(cases: Sequence[EnforceCase]) -> list[list[EnforceCase]]:
    """Return batches of cases that can start together.

    A batch has cases without a plan, or claims over the same channels. Batches save time, because
    four processes take longer to load torch than most cases take for their steps.
    """
    groups: dict[object, list[EnforceCase]] = {}
    for number, case in enumerate(cases):
        shared = not case.search or case.part == "claims"
        key = (case.part, case.channels, bool(case.search)) if shared else number
        groups.setdefault(key, []).append(case)
    return list(groups.values())


def _run(case: EnforceCase, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Return the start of a job: only its backend's name and gloo's interfaces differ."""
    interfaces = "fast,slow" if case.method == BOTH else "lo" if _is_free(case) else "fast"
    backend = "gloo" if case.method in (GLOO, BOTH) else "sccl"
    return {
        "job": case.job,
        "words": [backend, str(case.steps), str(folder), *(["small"] if case.small else [])],
        "environment": {"GLOO_SOCKET_IFNAME": interfaces, **environment},
    }


def _folder(folder: Path, number: int) -> Path:
    subfolder = folder / str(number)
    subfolder.mkdir()
    return subfolder


def _is_free(case: EnforceCase) -> bool:
    """Return whether no rate limits a job, so that two ranks suffice."""
    return case.small or case.channels == FREE


def _rates(case: EnforceCase) -> str:
    """Return the channels for the recording. The computation is the same over all channels."""
    return case.channels if _is_free(case) or case.job == "calls" else RATES


def _result(
    case: EnforceCase, ranks: Sequence[dict[str, Any]], claimed: float | None
) -> EnforceResult:
    ends = ranks[0]["ended_s"]
    skipped = min(1 if claimed is None else 2, len(ends) - 2)  # a plan takes effect after a step
    periods = [1e3 * (b - a) for a, b in zip(ends[skipped:], ends[skipped + 1 :], strict=False)]
    processor_ms = [
        (r["processor_s"][-1] - r["processor_s"][skipped]) / len(periods) for r in ranks
    ]
    return EnforceResult(
        case.part,
        case.job,
        case.method,
        case.channels,
        case.search,
        case.seed,
        claimed,
        median(periods),
        tuple(periods),
        1e3 * fmean(processor_ms),
        tuple(repr(fmean(losses)) for losses in zip(*(r["losses"] for r in ranks), strict=True)),
        repr(sum(sum(r["sums"]) for r in ranks)),
        os.getloadavg()[0],
    )


def switches(case: EnforceCase, rank: dict[str, Any]) -> SwitchResult:
    """Return a job's times from the first switch on, as written by a rank."""
    ends, versions = rank["ended_s"], rank["versions"]
    switched = [a != b for a, b in itertools.pairwise(versions)]
    first = switched.index(True)
    periods = [1e3 * (b - a) for a, b in itertools.pairwise(ends)][first:]
    return SwitchResult(
        case.part,
        case.job,
        case.channels,
        sum(switched),
        median(periods),
        max(periods),
        tuple(periods),
        tuple(versions[first + 1 :]),
        os.getloadavg()[0],
    )


def _overhead(case: EnforceCase, ranks: Sequence[dict[str, Any]]) -> list[Result]:
    load = os.getloadavg()[0]
    return [
        OverheadResult(
            case.part, case.method, case.channels, int(size), row["us"], row["processor_us"], load
        )
        for size, row in ranks[0]["sizes"].items()
    ]
