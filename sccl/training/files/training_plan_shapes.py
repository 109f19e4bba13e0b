"""The shapes of files of training plans: operations of a workload on a fabric, with times."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.files.shapes import NonNegative
from sccl.training.files.fabric_shapes import FabricWire
from sccl.training.files.workload_shapes import WorkloadWire
from sccl.training.types.workload_ops import MAX_NAME_LENGTH

_Named = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
_Load = Annotated[int, Meta(ge=1, le=1000, description="Share in thousandths.")]
_Costs = Annotated[
    str,
    Meta(
        pattern="^(sha256:[0-9a-f]{64})?$",
        description="Digest of the cost table with the measured times; empty: all times come from "
        "the model.",
    ),
]
_MaxMotifs = Annotated[int, Meta(ge=1, description="Largest number of motifs of an option.")]
_Bitwise = Annotated[
    bool, Meta(description="Whether all options reduce in the order of the unsplit collective.")
]
_PlannedBy = Annotated[
    str, Meta(description="Synthesizer that supplied additional options; or empty.")
]


class _PlanPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class OptionMotifWire(_PlanPart, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a collective that is issued as one, with its channel and carrier."""

    channel: _Named
    carrier: Annotated[str, Meta(min_length=1), "Carrier on the channel."]
    ns: Annotated[NonNegative, "Nanoseconds from launch to arrival without other traffic."]
    loads: Annotated[dict[str, _Load], "Used share of each fabric resource, by name."]
    after: Annotated[tuple[NonNegative, ...], "Indices of motifs that must end first."] = ()


class OptionWire(_PlanPart, frozen=True, kw_only=True):
    """An option for a collective: its recipe and the carrier of each motif."""

    recipe: Annotated[str, Meta(min_length=1), "Recipe: the rules that split the collective."]
    motifs: Annotated[tuple[OptionMotifWire, ...], Meta(min_length=1)]
    bitwise: Annotated[bool, "Whether it reduces in the order of the unsplit collective."]


class PlannedOpWire(_PlanPart, frozen=True, kw_only=True):
    """A collective of the workload, and the index of its option in the plan."""

    op: _Named
    option: NonNegative


class TrainingPlanWire(_PlanPart, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule of a training step on a fabric."""

    schema: Annotated[Literal[1], "Version of this format."] = 1
    kind: Literal["training-plan"] = "training-plan"
    digest: Annotated[str | None, "sha256 of the content without this field; or null."] = None
    search: Annotated[str, Meta(min_length=1), "Search that produced the plan."]
    seed: NonNegative = 0
    memory_bytes: Annotated[NonNegative, "Limit on memory for stored results; 0: none."] = 0
    costs: _Costs = ""
    max_motifs: _MaxMotifs = 16
    bitwise: _Bitwise = False
    planned_by: _PlannedBy = ""
    merge_bytes: Annotated[
        NonNegative, "Largest size of merged collectives in bytes; 0: no merging."
    ] = 0
    merges: Annotated[
        tuple[Annotated[tuple[_Named, ...], Meta(min_length=2)], ...],
        "Merged collectives of the workload, by id. The merged collective is named by the ids "
        "joined with '+', or by the first and the last of more than three.",
    ] = ()
    period_ns: Annotated[NonNegative, "Time from one iteration to the next."]
    bound_ns: Annotated[NonNegative, "Lower bound on the period over all plans with these options."]
    binding: Annotated[str, "Constraint that gives the bound."]
    options: tuple[OptionWire, ...]
    ops: Annotated[
        tuple[PlannedOpWire, ...], "Collectives in the workload's order; merged ones count as one."
    ]
    order: Annotated[
        tuple[tuple[str, NonNegative, NonNegative], ...],
        "Rows [operation, motif, iterations ahead] in the order of issue in a window; a "
        "computation has motif 0.",
    ]
    workload: WorkloadWire
    fabric: FabricWire


class TimelineWire(_PlanPart, frozen=True, kw_only=True, omit_defaults=True):
    """A training plan as it runs: when each computation and each motif starts and ends."""

    schema: Annotated[Literal[1], "Version of this format."] = 1
    kind: Literal["timeline"] = "timeline"
    digest: Annotated[str | None, "sha256 of the content without this field; or null."] = None
    period_ns: Annotated[NonNegative, "Nanoseconds between iterations in the steady state."]
    prologue_ns: Annotated[
        int,
        "Extra nanoseconds of the first iterations compared with the same number of periods; may "
        "be negative.",
    ]
    steady: Annotated[bool, "Whether the simulated iterations repeat."]
    first: Annotated[NonNegative, "First iteration that repeats."]
    lanes: Annotated[tuple[str, ...], "Computation streams of the roles, and channels."]
    spans: Annotated[
        tuple[tuple[str, NonNegative, NonNegative, NonNegative, NonNegative, NonNegative], ...],
        Meta(min_length=1),
        "Rows [operation, motif, iteration, lane index, start, end], sorted by start; nanoseconds "
        "from the beginning. The plan's options give the links that a motif uses.",
    ]
    plan: TrainingPlanWire


class RefusedRecipeWire(_PlanPart, frozen=True, kw_only=True):
    """A recipe without an option."""

    recipe: _Named
    why: Annotated[
        str,
        "Reason: the recipe does not apply, no carrier supports it, or other options are better.",
    ]


class OfferedOpWire(_PlanPart, frozen=True, kw_only=True):
    """A collective of the workload, with its options and rejected recipes, by index."""

    op: _Named
    options: Annotated[
        tuple[NonNegative, ...], Meta(min_length=1), "Options by index, the default first."
    ]
    refused: tuple[NonNegative, ...]


class OfferedOptionsWire(_PlanPart, frozen=True, kw_only=True, omit_defaults=True):
    """The options that a fabric offers for the collectives of a workload, before any plan."""

    schema: Annotated[Literal[1], "Version of this format."] = 1
    kind: Literal["option"] = "option"
    digest: Annotated[str | None, "sha256 of the content without this field; or null."] = None
    seed: Annotated[NonNegative, "Seed of the motif search."] = 0
    costs: _Costs = ""
    max_motifs: _MaxMotifs = 16
    bitwise: _Bitwise = False
    planned_by: _PlannedBy = ""
    options: Annotated[tuple[OptionWire, ...], "Largest size of the collectives."]
    refused: Annotated[tuple[RefusedRecipeWire, ...], "Likewise."]
    ops: Annotated[tuple[OfferedOpWire, ...], "In the workload's order."]
    workload: WorkloadWire
    fabric: FabricWire
