"""Jobs of PyTorch in the lab: recorded, planned and kept to their plans, beside gloo.

Each is started as its user would: nothing of it changes but the name of its backend. A period is
what rank 0 takes from the end of a step to the end of the next, the median of those after the
first, or of those that are planned.
"""

from __future__ import annotations

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

from sccl.core.workload import Workload
from sccl.errors import ToolError
from sccl.runtime.lab import channels_of
from sccl.tasks.enforce import enforced, run_job
from sccl.tasks.lab import lab_fabric
from sccl.tasks.planning import plan_training, write_training_plan

ROOT = Path(__file__).parent.parent
TORCH = ROOT / ".venv" / "torch-newest" / "bin" / "python"
RANKS = 4
RATES = "fast=100Mb,slow=50Mb"

GLOO, BOTH, ORDER, PLANNED = "gloo, fast", "gloo, both", "as called, fast", "planned"
"""Ways: gloo on its first interface, and on both; a plan that changes nothing, over the first;
a plan that was searched for."""


@dataclass(frozen=True, slots=True)
class EnforceCase:
    """A run of a job.

    Attributes:
        job: of ``benchmarks/jobs``.
        search: by what it is planned, as ``sccl plan --search``.
        steps: of training; the first of them count for nothing.
        small: whether the model is a toy, on two ranks that no rate limits.
    """

    part: str
    job: str
    way: str
    channels: str = RATES
    search: str = ""
    seed: int = 0
    steps: int = 7
    small: bool = False


@dataclass(frozen=True, slots=True)
class EnforceResult:
    """What a job took.

    Attributes:
        claimed_ms: by the plan; None: there is none.
        processor_ms: of a step, on average over ranks.
        losses: of the ranks, step by step, on average, with all of their digits.
        sums: of all parameters of all ranks, in the end, likewise.
        load: of the machine, when it had ended.
    """

    part: str
    job: str
    way: str
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
    """What a call of some bytes took, among 16 that are under way at once; processor of a rank."""

    part: str
    way: str
    size_bytes: int
    us: float
    processor_us: float
    load: float


Result = EnforceResult | OverheadResult


def _job(name: str) -> tuple[EnforceCase, ...]:
    return (
        EnforceCase(name, name, GLOO),
        EnforceCase(name, name, BOTH, steps=4),
        EnforceCase(name, name, ORDER, RATES.partition(",")[0], "fifo"),
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
"""With the plans of the three jobs, searched for and as called, these are 20."""

PARTS = {
    "dlrm": _job("dlrm"),
    "fsdp2": _job("fsdp2"),
    "moe": _job("moe"),
    "claims": CLAIMS,
    "overhead": tuple(
        EnforceCase("overhead", "calls", way, "fast=100Gb", search, steps=40)
        for way, search in ((GLOO, ""), ("no plan", ""), (ORDER, "fifo"))
    ),
}
SMOKE = tuple(
    EnforceCase("smoke", "dlrm", way, "fast=10Gb,slow=10Gb", search, steps=4, small=True)
    for way, search in ((GLOO, ""), (PLANNED, "ho"))
)


class JobLab:
    """Runs jobs, and keeps what was recorded of them."""

    def __init__(self, python: Path) -> None:
        if not python.is_file():
            raise ToolError(
                f"there is no torch ({python}): 'make test' installs it, or name a Python that has "
                "it with --torch"
            )
        self._python = python
        self._recorded: dict[tuple[str, bool], Workload] = {}

    def run(self, case: EnforceCase) -> list[Result]:
        """Return what a job takes in one of the ways, or each of the sizes of its calls.

        Raises:
            ToolError: it failed, or there are no namespaces here.
        """
        with tempfile.TemporaryDirectory(prefix="sccl-benchmark-") as name:
            folder, claimed = Path(name), None
            if case.search:
                claimed = self._plan(case, folder / "plan.json")
            self._start(case, folder, folder / "plan.json" if case.search else None)
            ranks = [json.loads(f.read_text()) for f in sorted(folder.glob("rank-*.json"))]
        if case.part == "overhead":
            return _overhead(case, ranks)
        return [_result(case, ranks, claimed)]

    def _plan(self, case: EnforceCase, file: Path) -> float:
        """Plan a job, and return the period that is claimed."""
        from sccl.train.planner import PlanSettings  # noqa: PLC0415 - loads NumPy

        workload = self._workload(case)
        settings = PlanSettings(case.search, 1.0, case.seed, 1 if case.way == ORDER else 16)
        fabric = lab_fabric(channels_of(case.channels), workload.ranks)
        plan = plan_training(workload, fabric, settings).plan
        write_training_plan(file, plan)
        return plan.period_ns / 1e6

    def _workload(self, case: EnforceCase) -> Workload:
        key = (case.job, case.small)
        if key not in self._recorded:
            with tempfile.TemporaryDirectory(prefix="sccl-benchmark-") as name:
                as_it_is = replace(case, channels=_rates(case), way=GLOO, steps=5)
                words = self._words(as_it_is, Path(name), "sccl")
                recorded = enforced(words, None, Path(name) / "w.json", aside=True)
            assert recorded is not None
            self._recorded[key] = recorded.read.workload
        return self._recorded[key]

    def _start(self, case: EnforceCase, folder: Path, plan: Path | None) -> None:
        backend = "gloo" if case.way in (GLOO, BOTH) else "sccl"
        words = self._words(case, folder, backend)
        try:
            if plan is None:
                run_job(words, {}, aside=True)
            else:
                enforced(words, plan, None, aside=True)
        except ToolError as error:
            said = " ".join((folder / "stderr").read_text(errors="replace").split())[-300:]
            raise ToolError(f"{case.job}, {case.way}: {error}: {said}") from error

    def _words(self, case: EnforceCase, folder: Path, backend: str) -> list[str]:
        """Return what starts a job; what it says goes into the folder."""
        small = ["small"] if case.small else []
        free = ["--by", "bucket"] if case.small or case.part == "overhead" else []
        both = ["GLOO_SOCKET_IFNAME=fast,slow"] if case.way == BOTH else []
        program = ROOT / "benchmarks" / "jobs" / f"{case.job}.py"
        paths = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
        settings = ["OMP_NUM_THREADS=1", "TORCH_CPP_LOG_LEVEL=ERROR", "PYTHONWARNINGS=ignore"]
        return [
            *("sh", "-c", 'exec "$@" 2>"$0"', str(folder / "stderr")),
            *("env", f"PYTHONPATH={paths}", *settings),
            *(sys.executable, "-m", "sccl", "lab", "--quiet", *free),
            *("--channels", case.channels, "--ranks", str(_ranks(case)), "--"),
            *("env", *both, str(self._python), str(program)),
            *(backend, str(case.steps), str(folder), *small),
        ]


def _ranks(case: EnforceCase) -> int:
    return 2 if case.small or case.part == "overhead" else RANKS


def _rates(case: EnforceCase) -> str:
    """Return the channels over which a job is recorded: what it computes is the same over all."""
    return case.channels if case.small or case.part == "overhead" else RATES


def _result(
    case: EnforceCase, ranks: Sequence[dict[str, Any]], claimed: float | None
) -> EnforceResult:
    ended = ranks[0]["ended_s"]
    skipped = min(1 if claimed is None else 2, len(ended) - 2)  # a plan is followed after a step
    periods = [1e3 * (b - a) for a, b in zip(ended[skipped:], ended[skipped + 1 :], strict=False)]
    worked = [(r["processor_s"][-1] - r["processor_s"][skipped]) / len(periods) for r in ranks]
    return EnforceResult(
        case.part,
        case.job,
        case.way,
        case.channels,
        case.search,
        case.seed,
        claimed,
        median(periods),
        tuple(periods),
        1e3 * fmean(worked),
        tuple(repr(fmean(own)) for own in zip(*(r["losses"] for r in ranks), strict=True)),
        repr(sum(sum(r["sums"]) for r in ranks)),
        os.getloadavg()[0],
    )


def _overhead(case: EnforceCase, ranks: Sequence[dict[str, Any]]) -> list[Result]:
    load = os.getloadavg()[0]
    return [
        OverheadResult("overhead", case.way, int(size), row["us"], row["processor_us"], load)
        for size, row in ranks[0]["sizes"].items()
    ]
