"""Compare iteration times of exported training plans in ASTRA-sim with those of the simulator.

ASTRA-sim runs each trace twice: with the trace's durations, and with collectives of its own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.astra import NAME, run_ns
from benchmarks.timing import Verdict
from sccl import formats
from sccl.formats.common.astra_networks import choose_network
from sccl.formats.common.contract import VerifiedTrainingPlan, WrittenFiles
from sccl.training.fabric_names import resolve_fabric
from sccl.training.models import generate_workload
from sccl.training.plan_step import plan_training
from sccl.training.planner import PlanSettings
from sccl.training.scheduling.workload_problem import all_waits
from sccl.training.timeline import simulate_timeline
from sccl.training.types.training_plan import StepTimeline, TrainingPlan

FABRIC = "hgx2"
_DIRECT = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_SIZE = {"hidden": 1024, "heads": 16}


@dataclass(frozen=True, slots=True)
class StepCase:
    """A model whose step is planned.

    Attributes:
        parameters: Parameters of the model's family.
        preset: Name of a published job that ``parameters`` overrides. Empty: none.
    """

    name: str
    family: str
    parameters: Mapping[str, Any]
    preset: str = ""


@dataclass(frozen=True, slots=True)
class StepResult:
    """Completion times of a single iteration, in nanoseconds.

    Attributes:
        nodes: Number of nodes of the rank with the most nodes.
        alike: Whether ASTRA-sim can follow the plan. It needs computation on one stream, one
            collective at a time, and no sends, because its replay does not wait for receivers.
        period_ns: Claimed period from one iteration to the next.
        alone_ns: Time of sccl's simulator.
        replayed_ns: Time of ASTRA-sim with the trace's durations, in whole microseconds.
        simulated_ns: Time of ASTRA-sim with its own collectives (direct, through one switch).
    """

    case: str
    ranks: int
    nodes: int
    alike: bool
    period_ns: int
    alone_ns: int
    replayed_ns: int | None
    simulated_ns: int | None

    @property
    def verdict(self) -> Verdict:
        """Return whether both agree within half a microsecond per node, if they have to."""
        if self.replayed_ns is None or self.simulated_ns is None:
            return "failed"
        close = abs(self.replayed_ns - self.alone_ns) <= 500 * self.nodes
        return "sat" if close or not self.alike else "unsat"


def cases(*, smoke: bool) -> Iterator[StepCase]:
    """Yield models of several kinds."""
    if smoke:
        small = {"layers": 2, "hidden": 64, "heads": 2}
        yield StepCase("data-parallel", "transformer", {**small, "dp": 8})
        yield StepCase("pipeline", "transformer", {**small, "pp": 2, "dp": 4, "microbatches": 2})
        return
    yield StepCase("transformer, data-parallel", "transformer", {"layers": 4, **_SIZE, "dp": 8})
    parameters = {"layers": 3, **_SIZE, "tp": 2, "dp": 4, "zero": 3}
    yield StepCase("transformer, tensors and ZeRO-3", "transformer", parameters)
    parameters = {"layers": 4, **_SIZE, "pp": 2, "dp": 4, "microbatches": 2}
    yield StepCase("transformer, pipeline", "transformer", parameters)
    parameters = {"layers": 2, "hidden": 512, "heads": 8, "experts": 8, "ep": 8, "dp": 8}
    yield StepCase("MoE", "moe", parameters)
    yield StepCase("DLRM A1 on 8 ranks", "dlrm", {"ranks": 8}, "A1")


def measure(case: StepCase, binary: str) -> StepResult:
    """Return both times of a case.

    Raises:
        ScclError: ASTRA-sim failed.
    """
    workload = generate_workload(case.family, case.parameters, case.preset or None).workload
    plan = plan_training(workload, resolve_fabric(FABRIC), PlanSettings(search="fifo")).plan
    timeline = simulate_timeline(plan)
    stepped = VerifiedTrainingPlan(
        "step", plan, timeline, all_waits(plan.workload, plan.memory_bytes)
    )
    written = formats.step_writer("chakra")(stepped)
    ranks = workload.ranks
    ends = [
        run_ns(_folder(written, plan, replay=replay), binary, ranks) for replay in (True, False)
    ]
    members = [name for op in workload.collectives() for name in op.members]
    streams: dict[str, int] = defaultdict(int)
    for op in workload.computation():
        streams[op.role] += 1
    return StepResult(
        case=case.name,
        ranks=ranks,
        nodes=max(map(members.count, set(members))) + max(streams.values()),
        alike=_is_alike(plan, timeline),
        period_ns=plan.period_ns,
        alone_ns=timeline.finish_ns(1),
        replayed_ns=ends[0],
        simulated_ns=ends[1],
    )


def _is_alike(plan: TrainingPlan, timeline: StepTimeline) -> bool:
    workload = plan.workload
    streams = {(op.role, op.stream) for op in workload.computation()}
    sends = any(op.collective == "broadcast" for op in workload.collectives())
    spans = sorted((s for s in timeline.spans if s.iteration == 0), key=lambda s: s.start_ns)
    calls = [span for span in spans if not span.computes]
    until: dict[str, int] = {}
    for span in calls:
        if any(end > span.start_ns for op, end in until.items() if op != span.op):
            return False
        until[span.op] = max(span.end_ns, until.get(span.op, 0))
    return len(streams) == len({role for role, _ in streams}) and not sends


def _folder(written: WrittenFiles, plan: TrainingPlan, *, replay: bool) -> WrittenFiles:
    """Return the files of a step, with the configuration files of ASTRA-sim."""
    network = choose_network(plan.fabric.channels[0].topology, "Switch")
    system = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "active-chunks-per-dimension": 1,
        "local-mem-bw": 900,  # GB/s of a V100
        **{f"{name}-implementation": ["direct"] for name in _DIRECT},
        **({"replay-only": 1} if replay else {}),
    }
    files = {
        "system.json": json.dumps(system).encode(),
        "memory.json": b'{"memory-type": "NO_MEMORY_EXPANSION"}',
        "network.yml": network.file_text().encode(),
    }
    groups = "comm_groups.json" if "comm_groups.json" in written.files else "empty"
    command = (
        f"cd {{path}} && {NAME} --workload-configuration=step --system-configuration=system.json "
        "--remote-memory-configuration=memory.json --network-configuration=network.yml "
        f"--comm-group-configuration={groups}"
    )
    return WrittenFiles({**written.files, **files}, command, ())
