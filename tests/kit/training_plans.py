"""Training plans made by hand, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sccl.core.files.json_text import to_text
from sccl.training.fabric_names import resolve_fabric
from sccl.training.files.training_plans import training_plan_to_wire
from sccl.training.timeline import simulate_timeline
from sccl.training.types.training_plan import (
    Issue,
    OfferedOptions,
    Option,
    OptionMotif,
    RefusedRecipe,
    TrainingPlan,
)
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    AnyOp,
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)
from tests.kit.workloads import prefetching

TABLE = "sha256:" + 64 * "0"
"""Name of a missing table of costs, so that the plan's times are trusted."""

RING = Option("whole", (OptionMotif("gpu", "ring", 4000, (("gpu: links", 1000),)),))
TCP = Option("whole", (OptionMotif("cpu", "direct", 6000, (("cpu: links", 600),)),))
HALVES = Option(
    "ring",
    (
        OptionMotif("gpu", "ring", 2500, (("gpu: links", 500),)),
        OptionMotif("gpu", "ring", 2500, (("gpu: links", 500),), (0,)),
    ),
    bitwise=False,
)


def planned(
    workload: Workload, options: Mapping[str, Option], shifts: Mapping[str, int], **more: object
) -> TrainingPlan:
    """Return a plan in the order of submission, which claims its computed period."""
    order = []
    for op in workload.ops:
        count = len(options[op.id].motifs) if isinstance(op, CommOp) else 1
        order += [Issue(op.id, k, shifts.get(op.id, 0)) for k in range(count)]
    chosen = tuple((op.id, options[op.id]) for op in workload.collectives())
    plan = TrainingPlan(
        workload,
        resolve_fabric("hgx2"),
        chosen,
        tuple(order),
        0,
        0,
        "by hand",
        "none",
        seed=3,
        costs=TABLE,
    )
    plan = replace(plan, **more)  # type: ignore[arg-type]
    return replace(plan, period_ns=simulate_timeline(plan).period_ns)


def prefetching_plan(**more: object) -> TrainingPlan:
    """Return a plan of two collectives, which exchanges the next batch during the computation.

    Computation takes 9.5 us. The gradients, two consecutive motifs, take 5 us between backward and
    the optimizer. An iteration takes 14.5 us.
    """
    workload = prefetching()
    first, second, third, gradients, batch = workload.ops
    ordered = replace(workload, ops=(batch, first, second, gradients, third))
    return planned(ordered, {"gradients": HALVES, "batch": TCP}, {}, **{"bound_ns": 9500, **more})


def prefetching_offers() -> OfferedOptions:
    """Return options for the same workload: the default and another one for the exchange."""
    plan = prefetching_plan()
    options = (("batch", RING), *plan.options)
    refused = (("gradients", RefusedRecipe("sag", "sag is of broadcast, reduce")),)
    return OfferedOptions(plan.workload, plan.fabric, options, refused, costs=TABLE, bitwise=True)


def layered_plan(layers: int, us: float = 900.0) -> TrainingPlan:
    """Return a plan of two collectives a layer, gathered ahead and scattered after, of 8 ranks."""
    ops: list[AnyOp] = []
    deps: list[Dependency] = []
    ranks = tuple(range(8))
    back: list[AnyOp] = []
    for layer in range(layers):
        gather = CommOp(f"gather-{layer}", "allgather", ranks, 1 << 22, "bfloat16")
        ops += [gather, ComputeOp(f"forward-{layer}", "all", "7", us)]
        scatter = CommOp(
            f"scatter-{layer}", "reducescatter", ranks, 1 << 22, "bfloat16", reduce="sum"
        )
        back = [ComputeOp(f"backward-{layer}", "all", "7", 2 * us), scatter, *back]
        deps += [
            Dependency(f"gather-{layer}", f"forward-{layer}"),
            Dependency(f"backward-{layer}", f"scatter-{layer}"),
            Dependency(f"scatter-{layer}", f"gather-{layer}", 1),
        ]
    ops += back
    deps.append(Dependency(f"forward-{layers - 1}", f"backward-{layers - 1}"))
    names = [op.id for op in ops if isinstance(op, CommOp)]
    workload = Workload(
        name=f"{layers} layers",
        ranks=8,
        roles=(Role("all", ranks),),
        ops=tuple(ops),
        deps=tuple(deps),
        submits=(HostProgram("all", tuple(HostEvent(HostAction.SUBMIT, name) for name in names)),),
    )
    scale = round(us * 1000)
    options: dict[str, Option] = {}
    for k, name in enumerate(names):
        lanes: Sequence[tuple[str, str]] = (("gpu", "ring"), ("gpu", "ring"), ("cpu", "direct"))
        motifs = tuple(
            OptionMotif(channel, carrier, scale // 2, ((f"{channel}: links", 1000),))
            for channel, carrier in lanes[: 1 + k % 3]
        )
        options[name] = Option(f"seg({len(motifs)})" if len(motifs) > 1 else "whole", motifs)
    return planned(workload, options, {})


def plan_file(plan: TrainingPlan, path: Path) -> Path:
    """Write a plan to a file, and return where it is."""
    path.write_text(to_text(training_plan_to_wire(plan)))
    return path
