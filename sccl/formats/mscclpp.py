"""Read and write MSCCL++ execution plans: JSON for the executor of MSCCL++ 0.9 and later.

It is the only format that a maintained runtime executes. Communication is one-sided: a rank writes
into buffers of its peers and signals them, over memory channels within a node, and over port
channels, which a proxy serves, across nodes. Every written plan is read again, executed, and
checked against all limits of the executor, which itself checks few of them. Source:
microsoft/mscclpp v0.9.0 and 1f5f065 (2026-08). See ``mscclpp_plan`` for the limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from sccl.codegen.instances import replicate
from sccl.core.algorithm import Algorithm
from sccl.errors import JudgeError, ParameterError
from sccl.formats.common.contract import (
    NO_DEMAND_NOTE,
    ForeignPlan,
    FormatOptions,
    SizedPlan,
    WrittenFiles,
    larger_buffer_ratio,
)
from sccl.formats.common.program_check import find_faults
from sccl.formats.mscclpp_plans.executor_rules import (
    MAX_MIN_SIZE,
    MAX_OFFSET_BYTES,
    find_crashes,
    find_violations,
)
from sccl.formats.mscclpp_plans.plan_file import (
    ALIGNMENT,
    GpuPart,
    PlanPart,
    format_plan,
    is_other_form,
    parse_plan,
)
from sccl.formats.mscclpp_plans.plan_graph import build_graph, find_unflushed
from sccl.formats.mscclpp_plans.plan_lowering import MAX_BLOCKS, LoweringOptions, lower_to_gpus
from sccl.topo.importers.common.unused_fields import decoded_json, unused_field_paths, unused_names

NAME = "mscclpp"
ABOUT = "MSCCL++ execution plans, one file per algorithm, for its executor"
SOURCE = "microsoft/mscclpp v0.9.0 and 1f5f065 (2026-08), src/core/executor"
TAKES = (Algorithm,)
BY_SIZE = False
MIXES = True

COLLECTIVES = ("allgather", "allreduce", "alltoall", "reducescatter")
"""Collectives that the executor's own test runs."""


_PACKED = 4
"""Ratio of scratch to data: packets are twice as long as their data, and calls alternate between
two halves.
"""


class Version(StrEnum):
    """Version of the executor. The plan has no field for it."""

    V09 = "0.9"
    HEAD = "head"


WRITTEN_FOR = {
    Version.V09: "MSCCL++ 0.9.0",
    Version.HEAD: "MSCCL++ 1f5f065 (2026-08)",
}
"""Version of the code that a plan was checked against. The executor ignores unknown fields."""

_TRIAL_CHUNKS = 1024
"""Number of words of a chunk in the suggested test size."""


class PlanProtocol(StrEnum):
    """Protocols of the executor for moving data."""

    SIMPLE = "Simple"
    LL = "LL"


class MscclppOptions(FormatOptions, frozen=True, kw_only=True):
    """The options of the format."""

    version: Annotated[
        Version, "MSCCL++ version: 0.9, or head (2026-08), with correct small slices."
    ] = Version.HEAD
    protocol: Annotated[
        PlanProtocol, "How data moves: Simple, or LL (packets: small messages)."
    ] = PlanProtocol.SIMPLE
    in_place: Annotated[bool, "Whether calls have input and output in one buffer."] = False
    blocks: Annotated[
        int,
        Meta(ge=1, le=MAX_BLOCKS),
        "Smallest number of thread blocks per GPU and instance, if possible.",
    ] = 16
    instances: Annotated[
        int, Meta(ge=1, le=MAX_BLOCKS), "Number of parallel copies, each for a part of every chunk."
    ] = 1


Options = MscclppOptions


def write(plans: Sequence[SizedPlan], options: MscclppOptions) -> WrittenFiles:
    """Return a file for each plan.

    Raises:
        InputError: The executor does not support the collective, or the plan exceeds its limits.
    """
    files: dict[str, bytes] = {}
    notes: list[str] = []
    commands: list[str] = []
    for plan in plans:
        algorithm = plan.plan
        assert isinstance(algorithm, Algorithm)
        if algorithm.collective.name not in COLLECTIVES:
            raise ParameterError(
                f"{plan.name}: {algorithm.collective.name} is no collective of MSCCL++'s "
                f"executor: it runs {', '.join(COLLECTIVES)}"
            )
        instances = replicate(algorithm, plan.together, options.instances)
        flushes = options.version is Version.V09  # whose pwsf does not flush
        packets = options.protocol is PlanProtocol.LL
        lowering = LoweringOptions(options.blocks, packets, flushes)
        gpus, slices = lower_to_gpus(instances, lowering)
        part = _build_plan(plan, algorithm, gpus, slices, options)
        files[f"{plan.name}.json"] = _checked_file(part, plan.name)
        notes += _notes(part)
        size = plan.size_bytes and plan.size_bytes * larger_buffer_ratio(algorithm.collective)
        if size and (remainder := size % _size_unit(part)):
            notes.append(
                f"{plan.name}: the executor refuses {size} bytes, which are {remainder} bytes "
                f"above a multiple of {_size_unit(part)}: for other sizes, search for an algorithm "
                "of another C, for example by 'sccl pareto --max-chunks 32'"
            )
            size = None
        path = "{path}" if len(plans) == 1 else "{path}/" + f"{plan.name}.json"
        commands.append(_command(path, part, size))
    return WrittenFiles(files, commands[0], tuple(dict.fromkeys(notes)))


def sniff(content: bytes) -> bool:
    """Return whether content looks like a plan."""
    if content.lstrip()[:1] != b"{" or b'"gpus"' not in content:
        return False
    return b'"threadblocks"' in content or is_other_form(content)


def read(content: bytes, where: str) -> ForeignPlan:
    """Return the behavior of a plan, with the violations of the executor's rules.

    Raises:
        InputError: It is no MSCCL++ plan, or exceeds a limit.
    """
    plan = parse_plan(content, where)
    blocks = sum(len(gpu.threadblocks) for gpu in plan.gpus)
    made_for = f", written for {plan.written_for[:40]}" if plan.written_for else ""
    about = (
        f"an MSCCL++ plan of {len(plan.gpus)} ranks, {plan.collective[:20]}, {plan.protocol[:20]}, "
        f"{blocks} thread blocks{made_for}"
    )
    program, ended = build_graph(plan), tuple(find_crashes(plan))
    notes = (*find_violations(plan), *find_unflushed(plan))
    if unread := unused_names(unused_field_paths(decoded_json(content), PlanPart)):
        notes = (*notes, f"fields that the executor does not read: {unread}")
    if program.collective.name == "custom":
        notes = (NO_DEMAND_NOTE, *notes)
    return ForeignPlan(program, about, () if ended else notes, ended)


def _build_plan(
    plan: SizedPlan,
    algorithm: Algorithm,
    gpus: Sequence[GpuPart],
    slices: int,
    options: MscclppOptions,
) -> PlanPart:
    packets = options.protocol is PlanProtocol.LL
    min_bytes, last = plan.larger_buffer_range
    max_bytes = _max_bytes(gpus, _PACKED if packets else 1)
    if options.version is Version.V09 and slices > 1:  # it omits words if slices are empty
        min_bytes = max(min_bytes, ALIGNMENT * slices * _larger_buffer_chunks(gpus))
    if last is not None:
        max_bytes = min(max_bytes, last)
    if min_bytes > MAX_MIN_SIZE or min_bytes > max_bytes:
        raise ParameterError(
            f"{plan.name}: it is for {min_bytes} bytes on, and the executor's plans begin at up to "
            f"{MAX_MIN_SIZE} bytes and end at {max_bytes}: leave this plan out"
        )
    return PlanPart(
        name=plan.name,
        collective=algorithm.collective.name,
        protocol=options.protocol,
        inplace=options.in_place,
        gpus=list(gpus),
        use_double_scratch_buffer=packets,
        written_for=WRITTEN_FOR[options.version],
        min_message_size=min_bytes,
        max_message_size=max_bytes,
    )


def _max_bytes(gpus: Sequence[GpuPart], factor: int) -> int:
    """Return the largest size of the larger buffer at which all offsets have 32 bits.

    Args:
        factor: Ratio of scratch to its data.
    """
    size = _larger_buffer_chunks(gpus)
    scratch = factor * max(gpu.scratch_chunks for gpu in gpus)
    return MAX_OFFSET_BYTES // max(size, scratch) * size


def _checked_file(plan: PlanPart, name: str) -> bytes:
    """Return a plan's file after reading it again, executing it, and checking the rules.

    Raises:
        ParameterError: In place, its writes would overwrite data before they are read.
        JudgeError: It is invalid, which is a defect of this module.
    """
    content = format_plan(plan)
    again = parse_plan(content, "the file")
    wrong = [*find_violations(again), *find_unflushed(again)]
    wrong += [fault.message for fault in find_faults(build_graph(again))]
    if wrong and plan.inplace:
        raise ParameterError(
            f"{name}: in place it overwrites data before they are read ({wrong[0]}): leave "
            "in_place out"
        )
    if wrong:
        raise JudgeError(f"{name}: the plan is wrong: {wrong[0]}; please report it as a defect")
    return content


def _notes(plan: PlanPart) -> list[str]:
    blocks = max(len(gpu.threadblocks) for gpu in plan.gpus)
    room = (
        f"{plan.name}: {blocks} thread blocks of a GPU; the larger buffer has "
        f"{plan.min_message_size} to {plan.max_message_size} bytes, a multiple of "
        f"{_size_unit(plan)}: others are refused"
    )
    notes = [room, f"for {plan.written_for}; MSCCL++'s executor supports sum only"]
    if any(channel.channel_type == "port" for gpu in plan.gpus for channel in gpu.channels):
        notes.append(
            "transfers between nodes use port channels, which need MSCCL++'s proxy and InfiniBand"
        )
    return notes


def _larger_buffer_chunks(gpus: Sequence[GpuPart]) -> int:
    return max(max(gpu.input_chunks, gpu.output_chunks) for gpu in gpus)


def _size_unit(plan: PlanPart) -> int:
    """Return the number of bytes of which all sizes of the larger buffer are multiples."""
    return ALIGNMENT * _larger_buffer_chunks(plan.gpus)


def _command(path: str, plan: PlanPart, size: int | None) -> str:
    """Return the command that runs a plan: at a size, or at about 16 KiB per chunk if possible."""
    unit = _size_unit(plan)
    min_count = -(-plan.min_message_size // unit)
    count = max(min_count, min(_TRIAL_CHUNKS, plan.max_message_size // unit))
    if size is not None and plan.min_message_size <= size <= plan.max_message_size:
        count = size // unit
    inside = " --in_place" if plan.inplace else ""
    return (
        f"mpirun -np {len(plan.gpus)} python3 python/test/executor_test.py -path {path} "
        f"--size {count * unit}{inside}"
    )
