"""Scripts of plans for small jobs: every collective by every rule, carried in every way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

from sccl.topo import resolve_topology
from sccl.training.motifs import apply_recipe, parse_recipe
from sccl.training.options.carriers import CARRIERS
from sccl.training.options.option_enumeration import original_motifs
from sccl.training.types.fabric import Channel, Fabric
from sccl.training.types.merges import merge_collectives
from sccl.training.types.training_plan import Issue, Option, OptionMotif, TrainingPlan
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    COMBINING,
    ROOTED,
    CommOp,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)

BLOCK = 12

RECIPES: Mapping[str, Sequence[str]] = {
    "allreduce": ("whole", "seg(3)", "ring", "tree(2)", "levels(2)", "ring.seg(2)"),
    "allgather": ("whole", "seg(2)", "sources(2)", "levels(2)"),
    "alltoall": ("whole", "seg(2)", "spline(2)", "levels(2)"),
    "broadcast": ("whole", "seg(2)", "sag"),
    "gather": ("whole", "seg(2)"),
    "reduce": ("whole", "sag"),
    "reducescatter": ("whole", "seg(2)", "levels(2)"),
    "scatter": ("whole", "seg(2)"),
}


def build_ops(ranks: int) -> list[tuple[CommOp, str]]:
    """Return operations, one for each rule, with their recipes."""
    found = []
    for collective, recipes in RECIPES.items():
        for number, recipe in enumerate(recipes):
            op = CommOp(
                id=f"{collective}-{number}",
                collective=collective,
                group=tuple(range(ranks)),
                count=BLOCK * ranks,
                dtype="int64" if number == 1 else "float32",
                root=ranks - 1 if collective in ROOTED else None,
                reduce="sum" if collective in COMBINING else None,
            )
            found.append((op, recipe))
    return found


def build_plan(
    given: Sequence[tuple[CommOp, str]],
    ranks: int,
    *,
    first: int = 0,
    ahead: Mapping[str, int] | None = None,
    rows: Mapping[tuple[str, ...], str] | None = None,
) -> TrainingPlan:
    """Return a plan of operations by recipes, over two channels in turn.

    Args:
        rows: ids of operations that are merged, and by which recipe.
        first: which carrier of those that there are is taken first, as all are in turn, and a
            synthesiser after them.
        ahead: operations that are issued so many iterations ahead.
    """
    channels = tuple(
        Channel(name, resolve_topology(f"full:{ranks}"), streams=2) for name in ("a", "b")
    )
    asked = Workload(
        name="all",
        ranks=ranks,
        roles=(Role("all", tuple(range(ranks))),),
        ops=tuple(op for op, _ in given),
        deps=(),
        submits=(
            HostProgram("all", tuple(HostEvent(HostAction.SUBMIT, op.id) for op, _ in given)),
        ),
    )
    workload = merge_collectives(asked, list(rows or ()))
    recipes = {op.id: recipe for op, recipe in given}
    recipes |= {
        op.id: rows[tuple(one.id for one in op.merged)]
        for op in workload.collectives()
        if rows and op.merged
    }
    turn = cycle("ab")
    options = []
    for number, op in enumerate(workload.collectives()):
        recipe = recipes[op.id]
        motifs = []
        for motif in apply_recipe(original_motifs(op), parse_recipe(recipe), 1):  # type: ignore[arg-type]
            names = [one.name for one in CARRIERS if motif.collective in one.collectives]
            names.append("tacos")
            name = names[(first + number) % len(names)]
            motifs.append(OptionMotif(next(turn), name, 1000, (), motif.after))
        options.append((op.id, Option(recipe, tuple(motifs))))
    order = [
        Issue(name, k, (ahead or {}).get(name, 0))
        for name, option in options
        for k in range(len(option.motifs))
    ]
    order.sort(key=lambda issue: -issue.shift)
    return TrainingPlan(
        workload,
        Fabric("pair", channels),
        tuple(options),
        tuple(order),
        period_ns=1000,
        bound_ns=0,
        binding="",
        search="by hand",
        planned_by="tacos",
        unmerged_workload=asked if rows else None,
    )
