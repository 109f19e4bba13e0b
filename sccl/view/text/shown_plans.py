"""Convert algorithms and schedules to the output of ``sccl show --json``, with link loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import Algorithm, KSynchronousPlan
from sccl.core.clock import AlphaText
from sccl.core.files.outputs import Output, build_output, plan_digests
from sccl.core.files.shapes import FileText, FractionText, NonNegative, Part
from sccl.core.symmetric import AnyAlgorithm
from sccl.errors import TooLargeError
from sccl.formats.files.plans import LoadedPlan
from sccl.judge import violations
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.training.files.training_plan_shapes import OfferedOptionsWire
from sccl.training.files.training_plans import offered_options_to_wire
from sccl.training.offered_options import LoadedOptions, option_digests
from sccl.training.plan_files import LoadedTraining, training_digests
from sccl.training.plan_summary import ShownTrainingPart, training_part
from sccl.view.text.plan_text import utilization_rows

if TYPE_CHECKING:
    from sccl.core.packed_schedule import AnySchedule

MAX_SENDS = 100_000
"""Maximum number of sends of an algorithm that is shown or drawn send by send."""

MAX_TRANSFERS = 100_000
"""Maximum number of transfers in JSON output. Longer schedules are exported as a table."""

MAX_LISTED = 1_000_000
"""Maximum number of transfers of a schedule whose first rows and busiest links are printed."""


class StepPart(Part, frozen=True, kw_only=True):
    """The utilization of links in a step."""

    step: Annotated[int | None, "Null: all steps together."]
    rounds: int
    sends: NonNegative
    utilisation: Annotated[str, "A share such as 75.0%."]


class ShownPart(Part, frozen=True, kw_only=True):
    """An algorithm."""

    file: FileText
    digest_matches: Annotated[bool, "The file is as sccl wrote it."]
    violations: Annotated[int, "Violations: see sccl check."]
    topology: str
    collective: str
    chunks: int
    steps: int
    rounds: int
    rounds_per_step: tuple[int, ...]
    bandwidth_cost: FractionText
    proved: Annotated[tuple[str, ...], "Empty if the file was edited or is rejected."]
    scope: str
    sends: Annotated[
        tuple[tuple[int, int, int, int, int], ...], "[step, chunk, src, dst, 1 if it reduces]."
    ]
    utilisation: tuple[StepPart, ...]


class TransferredPart(Part, frozen=True, kw_only=True):
    """The load of a link."""

    link: Annotated[tuple[int, int], "[src, dst]; switches are numbered after ranks."]
    transfers: NonNegative
    busy_us: Annotated[float, Meta(ge=0)]


class ShownSchedulePart(Part, frozen=True, kw_only=True):
    """A schedule."""

    file: FileText
    digest_matches: Annotated[bool, "The file is as sccl wrote it."]
    violations: Annotated[int, "Violations: see sccl check."]
    topology: str
    collective: str
    chunks: int
    alpha: AlphaText
    finish_us: Annotated[float, Meta(ge=0), "When the last chunk arrives."]
    transfers: Annotated[
        tuple[tuple[float, float, float, int, int, int, int], ...],
        "[start us, end us, arrival us, chunk, src, dst, 1 if it reduces].",
    ]
    links: tuple[TransferredPart, ...]


class ShowOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl show'."""

    kind: Literal["show"] = "show"
    files: Annotated[tuple[ShownPart, ...], "Algorithms."]
    schedules: tuple[ShownSchedulePart, ...]
    training: Annotated[tuple[ShownTrainingPart, ...], "Training plans."] = ()
    options: Annotated[tuple[OfferedOptionsWire, ...], "Options offered for workloads."] = ()


def check_can_show(file: str, plan: AnyAlgorithm) -> None:
    """Check that an algorithm has at most :data:`MAX_SENDS` sends, before it is expanded.

    Raises:
        TooLargeError: the algorithm has more sends.
    """
    if plan.num_sends > MAX_SENDS:
        raise TooLargeError(
            f"{file} has {plan.num_sends} sends, more than can be shown (at most {MAX_SENDS}); "
            "give a smaller algorithm, or verify this one with 'sccl check'"
        )


def check_can_list(file: str, schedule: AnySchedule) -> None:
    """Check that a schedule has at most :data:`MAX_LISTED` transfers.

    Raises:
        TooLargeError: the schedule has more transfers.
    """
    if schedule.num_sends > MAX_LISTED:
        raise TooLargeError(
            f"{file} has {schedule.num_sends} transfers, more than can be shown (at most "
            f"{MAX_LISTED}); 'sccl check' and 'sccl simulate' take it, and "
            "'sccl export --format csv' writes a table of all"
        )


def show_output(
    loaded: Sequence[LoadedPlan],
    training: Sequence[LoadedTraining] = (),
    options: Sequence[LoadedOptions] = (),
) -> ShowOutput:
    """Return the JSON output for plans, with all sends of algorithms.

    Raises:
        TooLargeError: A plan has too many sends or transfers.
    """
    for loaded_plan in loaded:
        if isinstance(loaded_plan.plan, KSynchronousPlan):
            check_can_show(str(loaded_plan.file), loaded_plan.plan)
    return ShowOutput(
        inputs=plan_digests({str(loaded_plan.file): loaded_plan.plan for loaded_plan in loaded})
        | training_digests(training)
        | option_digests(options),
        files=tuple(
            _algorithm_part(loaded_plan, expand_algorithm(loaded_plan.plan))
            for loaded_plan in loaded
            if isinstance(loaded_plan.plan, KSynchronousPlan)
        ),
        schedules=tuple(
            _schedule_part(str(loaded_plan.file), loaded_plan.plan, intact=loaded_plan.intact)
            for loaded_plan in loaded
            if not isinstance(loaded_plan.plan, KSynchronousPlan)
        ),
        training=tuple(map(training_part, training)),
        options=tuple(offered_options_to_wire(loaded_plan.offered) for loaded_plan in options),
    )


def _schedule_part(file: str, plan: AnySchedule, *, intact: bool) -> ShownSchedulePart:
    from sccl.core.packed_schedule import link_usage, transfer_rows  # noqa: PLC0415 - NumPy is slow to load

    if plan.num_sends > MAX_TRANSFERS:
        raise TooLargeError(
            f"{file}: it has {plan.num_sends} transfers, and --json shows up to {MAX_TRANSFERS}: "
            "'sccl export --format csv' writes a table of all"
        )
    edges = [link.edge for link in plan.topology.links]
    return build_output(
        ShownSchedulePart,
        plan,
        file=file,
        digest_matches=intact,
        violations=len(violations(plan)),
        chunks=plan.collective.chunks,
        alpha=plan.model.text,
        finish_us=plan.clock.us(plan.finish),
        transfers=((*row[:-1], int(row[-1])) for row in transfer_rows(plan)),
        links=[
            TransferredPart(link=edges[link], transfers=count, busy_us=busy)
            for count, link, busy in link_usage(plan)
        ],
    )


def _algorithm_part(loaded_plan: LoadedPlan, algorithm: Algorithm) -> ShownPart:
    wrong = len(violations(algorithm))
    return build_output(
        ShownPart,
        algorithm,
        file=loaded_plan.file,
        digest_matches=loaded_plan.intact,
        violations=wrong,
        chunks=algorithm.collective.chunks,
        proved=algorithm.proved if loaded_plan.intact and not wrong else (),
        sends=((s.step, s.chunk, s.src, s.dst, int(s.reduce)) for s in algorithm.sends),
        utilisation=[
            StepPart(
                step=step if isinstance(step, int) else None,
                rounds=rounds,
                sends=sends,
                utilisation=share,
            )
            for step, rounds, sends, share in utilization_rows(algorithm)
        ],
    )
