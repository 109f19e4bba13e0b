"""Read and write MSCCL programs: XML for MSCCL, Azure's executor, and RCCL up to ROCm 7.12.

There are three dialects. They spell one collective differently, interpret ``maxBytes`` differently,
and permit different numbers of thread blocks and steps. Every written file is read again, executed,
and checked against the rules of its runtime. Source: microsoft/msccl 2023-09,
Azure/msccl-executor-nccl 2024-12, ROCm/rccl 2024-10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from sccl.codegen.instances import Instances, replicate
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
from sccl.formats.common.program_check import find_faults, order_steps
from sccl.formats.msccl.msccl_graph import build_graph
from sccl.formats.msccl.msccl_lowering import alias_of, lower_to_gpus
from sccl.formats.msccl.msccl_program import (
    MAX_ELEMENTS,
    MscclGpu,
    MscclProgram,
    format_program,
    is_program,
    parse_program,
    split_to_single_chunks,
)
from sccl.formats.msccl.msccl_rules import MAX_OFFSET, RUNTIMES, Runtime, find_violations
from sccl.formats.msccl.msccl_steps import StepWriter

NAME = "msccl-xml"
ABOUT = "MSCCL programs for microsoft/msccl, Azure's executor and RCCL up to ROCm 7.12"
SOURCE = "microsoft/msccl 2023-09, Azure/msccl-executor-nccl 2024-12, ROCm/rccl 2024-10"
TAKES = (Algorithm,)
BY_SIZE = False
MIXES = True

COLLECTIVES = ("allgather", "allreduce", "alltoall", "broadcast", "reduce", "reducescatter")
"""Collectives that all three runtimes implement as NCCL defines them."""

MAX_NAME = 63
"""Maximum length of a name (microsoft/msccl)."""

MAX_BYTES = 2**40
"""``maxBytes`` for all sizes in microsoft/msccl, which has no special value for that."""

MAX_BYTES_WITH_SCRATCH = 2**30
"""``maxBytes`` of programs with scratch, which msccl allocates in advance for the largest call."""


MAX_INSTANCES = 32
"""Maximum number of instances: the number of channels, because each instance has its own."""


class Dialect(StrEnum):
    """Dialect of a runtime."""

    MSCCL = "msccl"
    AZURE = "azure"
    RCCL = "rccl"


class Transport(StrEnum):
    """NCCL's protocols for moving data."""

    SIMPLE = "Simple"
    LL = "LL"
    LL128 = "LL128"


class MscclOptions(FormatOptions, frozen=True, kw_only=True):
    """The options of the format."""

    dialect: Annotated[Dialect, "Runtime for which it is written: msccl, azure, or rccl."] = (
        Dialect.RCCL
    )
    protocol: Annotated[
        Transport, "How data moves: Simple, LL (small messages) or LL128 (NVLink)."
    ] = Transport.SIMPLE
    channels: Annotated[
        int, Meta(ge=1, le=32), "Smallest number of channels for the messages of a link."
    ] = 1
    instances: Annotated[
        int,
        Meta(ge=1, le=MAX_INSTANCES),
        "Number of parallel copies, each for a part of every chunk.",
    ] = 1


Options = MscclOptions


def write(plans: Sequence[SizedPlan], options: MscclOptions) -> WrittenFiles:
    """Return a file for each plan, or two for microsoft/msccl: in place and out of place.

    Raises:
        InputError: The runtime does not support the collective, or the plan exceeds its limits.
    """
    runtime = RUNTIMES[options.dialect]
    files: dict[str, bytes] = {}
    notes: list[str] = []
    for plan in plans:
        assert isinstance(plan.plan, Algorithm)
        instances = replicate(plan.plan, plan.together, options.instances)
        algorithm = instances.algorithm
        _check_supported(plan.name, algorithm, runtime)
        gpus = _valid_gpus(instances, runtime, options)
        scratch = max(gpu.scratch for gpu in gpus)
        for name, placed in _call_modes(algorithm, runtime).items():
            attributes = _attributes(plan, algorithm, runtime, options, gpus)
            program = MscclProgram(attributes | placed, _chunk_count(algorithm), gpus)
            files[f"{plan.name}{name}.xml"] = _checked_file(program, runtime)
        notes += _notes(plan, algorithm, runtime, scratch)
    if runtime.name != "msccl":
        notes.append("every file in MSCCL_ALGO_DIR must be a program: keep other files elsewhere")
    return WrittenFiles(files, _command(runtime, sorted(files)), tuple(dict.fromkeys(notes)))


sniff = is_program


def read(content: bytes, where: str) -> ForeignPlan:
    """Return the behavior of an MSCCL program, with the violations of each runtime's rules.

    Raises:
        InputError: It is no MSCCL program, or exceeds a limit.
    """
    program = parse_program(content, where)
    attrs = program.attributes
    about = (
        f"an MSCCL program of {program.ranks} ranks, {attrs.get('coll', 'no collective')[:20]}, "
        f"{program.chunks} chunks, {sum(1 for _ in program.blocks())} thread blocks"
    )
    broken = {
        name: find_violations(program, content, runtime) for name, runtime in RUNTIMES.items()
    }
    said = _violation_notes(broken)
    refused = all(broken.values())
    plan = build_graph(program)
    notes = [*([] if refused else said), *program.unused]
    if not order_steps(plan.call_modes[0].graph.steps)[1] and (stuck := _find_deadlocks(program)):
        notes.append(f"in calls so large that each chunk takes a place in a queue, {stuck[0]}")
    if plan.collective.name == "custom":
        notes = [NO_DEMAND_NOTE, *notes]
    return ForeignPlan(plan, about, tuple(notes), said if refused else ())


def _violation_notes(broken: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the violated rules, each with its runtimes."""
    runtimes: dict[str, list[str]] = {}
    for name, rules in broken.items():
        for text in rules:
            runtimes.setdefault(text, []).append(name)
    return tuple(f"{', '.join(names)}: {text}" for text, names in runtimes.items())


def _check_supported(name: str, algorithm: Algorithm, runtime: Runtime) -> None:
    """Check that the runtime supports the collective and its number of chunks.

    Raises:
        ParameterError: It does not.
    """
    collective = algorithm.collective
    if collective.name not in COLLECTIVES:
        raise ParameterError(
            f"{name}: {collective.name} is no collective that {runtime.about} serves; it serves "
            f"{', '.join(COLLECTIVES)}"
        )
    if _chunk_count(algorithm) > MAX_OFFSET:
        raise ParameterError(
            f"{name}: buffers of {_chunk_count(algorithm)} chunks, and {runtime.about} counts to "
            f"{MAX_OFFSET}: give an algorithm of fewer chunks, or fewer instances"
        )


def _chunk_count(algorithm: Algorithm) -> int:
    """Return the number of chunks of the larger buffer."""
    return algorithm.collective.chunks * larger_buffer_ratio(algorithm.collective)


def _call_modes(algorithm: Algorithm, runtime: Runtime) -> dict[str, dict[str, str]]:
    """Return suffixes of file names with the attributes of their call modes."""
    outside = {"inplace": "0", "outofplace": "1"}
    if algorithm.collective.name == "alltoall":  # never in place
        return {"": outside}
    if runtime.name == "msccl":  # it needs a file for each mode
        return {"": outside, "-in-place": {"inplace": "1", "outofplace": "0"}}
    return {"": {"inplace": "1", "outofplace": "1"}}


def _valid_gpus(
    instances: Instances, runtime: Runtime, options: MscclOptions
) -> tuple[MscclGpu, ...]:
    """Return the programs of ranks, with fused messages unless these could deadlock.

    Deadlocks are tested with one slot of a queue per chunk, as in calls of many bytes.
    """
    algorithm, collective = instances.algorithm, instances.algorithm.collective
    block = collective.chunks // (collective.ranks if collective.name == "reducescatter" else 1)
    modes = (False,) if collective.name == "alltoall" else (False, True)
    aliases = [alias_of(collective.name, block, in_place=is_in_place) for is_in_place in modes]
    writer = StepWriter(instances)
    for fuse in (True, False):
        gpus = lower_to_gpus(writer, runtime, aliases, options.channels, fuse=fuse)
        attributes = {"coll": collective.name, "proto": options.protocol, "inplace": "1"}
        if not fuse or not _find_deadlocks(MscclProgram(attributes, _chunk_count(algorithm), gpus)):
            break
    return gpus


def _attributes(
    plan: SizedPlan,
    algorithm: Algorithm,
    runtime: Runtime,
    options: MscclOptions,
    gpus: Sequence[MscclGpu],
) -> dict[str, str]:
    name = algorithm.collective.name
    spelt = "reduce_scatter" if (name, runtime.name) == ("reducescatter", "msccl") else name
    used = 1 + max(block.channel for gpu in gpus for block in gpu.blocks)
    min_bytes, max_bytes = _byte_limits(plan, runtime, max(gpu.scratch for gpu in gpus))
    return {
        "name": plan.name[:MAX_NAME],
        "proto": options.protocol.value,
        "nchannels": str(used),
        "nchunksperloop": str(_chunk_count(algorithm)),
        "ngpus": str(len(gpus)),
        "coll": spelt,
        "minBytes": str(min_bytes),
        "maxBytes": str(max_bytes),
    }


def _byte_limits(plan: SizedPlan, runtime: Runtime, scratch: int) -> tuple[int, int]:
    """Return ``minBytes`` and ``maxBytes`` of the larger buffer, by the runtime's convention.

    Raises:
        ParameterError: The maximum is 0 bytes, which the runtime would read as no limit.
    """
    min_bytes, max_bytes = plan.larger_buffer_range
    if max_bytes is not None:
        if runtime.last_byte and not max_bytes:
            raise ParameterError(
                f"{plan.name}: it applies to calls of 0 bytes only, and the format uses 0 for all "
                "sizes: leave this plan out"
            )
        return min_bytes, max_bytes if runtime.last_byte else max_bytes + 1
    if runtime.last_byte:
        return min_bytes, 0  # no limit
    return min_bytes, max(min_bytes + 1, MAX_BYTES_WITH_SCRATCH if scratch else MAX_BYTES)


def _checked_file(program: MscclProgram, runtime: Runtime) -> bytes:
    """Return a program's file after reading it again, executing it, and checking the rules.

    Raises:
        JudgeError: It is invalid, which is a defect of this module.
    """
    content = format_program(program).encode()
    again = parse_program(content, "the file")
    wrong = find_violations(again, content, runtime)
    wrong += [fault.message for fault in find_faults(build_graph(again))]
    wrong += _find_deadlocks(again)
    if wrong:
        raise JudgeError(
            f"the program for {runtime.about} is wrong: {wrong[0]}; please report it as a defect"
        )
    return content


def _find_deadlocks(program: MscclProgram) -> list[str]:
    """Return the steps that wait forever if each chunk takes a slot, as in calls of many bytes.

    Dependencies are the same for all call modes. Very large programs are not tested.
    """
    if sum(step.count for *_, block in program.blocks() for step in block.steps) > MAX_ELEMENTS:
        return []
    calling = build_graph(split_to_single_chunks(program)).call_modes[0]
    return [fault.message for fault in order_steps(calling.graph.steps)[1]]


def _notes(plan: SizedPlan, algorithm: Algorithm, runtime: Runtime, scratch: int) -> list[str]:
    chunks = _chunk_count(algorithm)
    notes = [
        (
            f"buffers must divide into {chunks} equal chunks; for other sizes the runtime silently "
            "uses its own algorithm"
        )
    ]
    if runtime.name == "rccl":
        notes.append("RCCL removed MSCCL in ROCm 7.13. ROCm 6.0 to 7.12 run it")
    if not runtime.last_byte and plan.max_bytes is None and scratch:
        notes.append(f"up to {MAX_BYTES_WITH_SCRATCH} bytes, for its scratch is as large")
    if algorithm.collective.root is not None:
        root = algorithm.collective.root
        notes.append(f"the runtime ignores the root: call it with root {root} only")
    return notes


def _command(runtime: Runtime, files: Sequence[str]) -> str:
    if runtime.name == "msccl":
        names = ["{path}"] if len(files) == 1 else ["{path}/" + name for name in files]
        return f"MSCCL_XML_FILES={':'.join(names)} NCCL_ALGO=MSCCL,RING,TREE PROGRAM"
    folder = "$(dirname {path})" if len(files) == 1 else "{path}"
    if runtime.name == "azure":
        library = "LD_PRELOAD=libmsccl-scheduler.so NCCL_MSCCL_ENABLE=1"
        return f"{library} MSCCL_ALGO_DIR={folder} PROGRAM"
    return f"RCCL_MSCCL_FORCE_ENABLE=1 MSCCL_ALGO_DIR={folder} PROGRAM"
