"""Common part of the ``cuda`` and ``hip`` targets, which differ in names of runtime functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from sccl.codegen.bundle import Bundle
from sccl.codegen.switch_points import Protocols
from sccl.codegen.targets.codegen_options import (
    COMMON_FILES,
    MAX_PER_LINK,
    VARIANTS,
    CodegenOptions,
)
from sccl.codegen.targets.mpi_functions import passthrough_functions
from sccl.codegen.targets.rendering import TYPES, render, template_values
from sccl.core.algorithm import Algorithm
from sccl.core.formatting import format_count

THREADS = 512
"""Threads of a block: enough outstanding 16-byte loads to saturate a link (SCCL section 4)."""

BLOCK_GB_PER_S = 14
"""Assumed rate of one thread block over a link. Published values for NVLink are 10 to 20, and we
measured none. A lane of 25 or 27 GB/s gets two blocks."""

PACKET_BYTES = 16 * 1024
"""Maximum bytes of a chunk that is sent at once in packets."""

PACKET_PART_BYTES = 8 * 1024
"""Maximum bytes of a part in packets: twice the bytes then cost less, at tens of GB/s, than a fence
and a flag. This is an estimate."""

MEMORY_CONTRACT = """\
 *  - Buffers are memory of the calling rank's GPU, and `stream` is a {stream} of its context:
 *    those that were current at the communicator's first call. That call waits for all ranks to
 *    make it, whatever SCCL_TIMEOUT is. A call returns when it is under way on the stream. Before
 *    that it may wait for all ranks to make it, if its program is direct and its output is not
 *    registered. With a NULL stream the call waits for all work that its thread put on the GPU's
 *    default streams (the legacy one and the thread's own), and returns when it is done. Calls
 *    belong on one communicator at a time, in all threads and streams, where their thread blocks do
 *    not all fit on the GPU together. Where they do, all ranks make the calls in the same order, as
 *    streams may share a queue of the GPU. SCCL_TIMEOUT counts from when a kernel starts, so that
 *    calls, refused ones too, take longer behind those of another communicator. A stream that runs
 *    fewer thread blocks at the same time than a call has is SCCL_UNSUPPORTED.
{captures}
 *  - A peer that is missing for longer than SCCL_TIMEOUT seconds of the environment (600; 0: for
 *    ever) is an error on every rank: SCCL_FAILED, of calls on a stream at the next call. What such
 *    a call was to write is undefined. A peer that makes another call, or one of another count,
 *    type or op, is the same error, noticed nearly always, and mostly at once.
 *  - A call that all ranks refuse (SCCL_UNSUPPORTED, SCCL_INVALID) leaves the communicator as it
 *    was. If others make it, it is SCCL_FAILED on all: at the next call for a rank that refused it
 *    on a stream or with SCCL_INVALID. The launch shows that a stream is too
 *    small, after ranks have met for a direct call. A refusal before that is the error then."""

CAPTURES_CONTRACT = """\
 *  - A stream may be captured, on every rank alike: then the graph repeats the call, with the same
 *    buffers, as often as all ranks replay it. Replays and calls of one communicator follow one
 *    another, on one stream or by events. Once a call was captured, a refused one waits for all
 *    ranks. If a call is refused while its stream is captured, the graph repeats the refusal, which
 *    tells the ranks that make the call. With the dma transport it is SCCL_UNSUPPORTED."""

NO_CAPTURES = """\
 *  - A stream that is being captured is SCCL_UNSUPPORTED."""

_DEVICE = {"Half": "DeviceHalf", "BFloat": "DeviceBFloat"}
MACHINES = {"kernel": "gpu/machine.hpp.jinja", "dma": "gpu/dma.hpp.jinja"}
COUNTED_CONTRACT = """\
 * Arrays lie in memory of the host or of a GPU. An algorithm of the bundle carries the blocks, by
 * way of scratch, whether it is direct or passes them on: hosts tell one another all counts before.
 * So a call meets all ranks, and waits until the one before it begins. No stream may capture it
 * (SCCL_UNSUPPORTED), and counts that do not fit together are SCCL_INVALID on every rank."""

GPU_FILES = (
    "gpu.hpp",
    "emulated.hpp",
    "view.hpp",
    "group.hpp",
    "work.hpp",
    "counted.hpp",
    "combine.hpp",
    "memory.hpp",
    "communicator.cpp",
    "Makefile",
)


def without_packets(protocols: Protocols) -> Protocols:
    """Return the protocols of a target without packets, for copy engines."""
    first, *others = [(letter, at) for letter, at in protocols if letter != "p"]
    return (first[0], 0), *others


def files(
    bundle: Bundle, options: CodegenOptions, target: Mapping[str, str], stream: str
) -> dict[str, str]:
    """Generate the sources of a bundle by file name.

    Args:
        bundle: Bundle of the project.
        options: Code generation options.
        target: Texts in which CUDA and HIP differ, by their names in the templates.
        stream: Type of a stream in the header.
    """
    slices = {
        lowered.label: link_slices(lowered.algorithm, options)
        for entry in bundle.entries
        for lowered in entry.algorithms
    }
    common = template_values(bundle, slices)
    values = {
        **common,
        **target,
        "slot_bytes": bundle.slot_bytes,
        "packet_bytes": PACKET_BYTES if options.transport == "kernel" else 0,
        "protocols": "edp" if options.transport == "kernel" else "ed",
        "threads": THREADS,
        "slices": max(slices.values()),
        "memory_contract": MEMORY_CONTRACT.format(
            stream=stream,
            captures=CAPTURES_CONTRACT if target["captures"] == "true" else NO_CAPTURES,
        ),
        "stream_parameter": ", void *stream",
        "stream_argument": "stream",
        "bench_stream": ", nullptr",
        "any_root": "false",  # links differ between GPUs, so an algorithm serves only its root
        "without_mpi": False,
        "straight": False,
        "counted_contract": COUNTED_CONTRACT,
        "variants": VARIANTS,
        "passed": passthrough_functions(common["names"], barrier=False),
        "gpu_types": [
            {"name": name, "cpp": _DEVICE.get(cpp, cpp)} for name, (_, cpp, _) in TYPES.items()
        ],
    }
    sources = {name: render(f"common/{name}.jinja", values) for name in COMMON_FILES}
    sources["machine.hpp"] = render(MACHINES[options.transport], values)
    return sources | {name: render(f"gpu/{name}.jinja", values) for name in GPU_FILES}


def link_slices(algorithm: Algorithm, options: CodegenOptions) -> int:
    """Return the number of thread blocks that share the work of a link.

    The default follows the busiest step. All links of a GPU may share its 18 lanes, so an algorithm
    uses for example two lanes of a link at a time. Such a link needs as many blocks as one of two
    lanes.
    """
    if options.transport == "dma":
        return 1
    if options.blocks_per_link is not None:
        return options.blocks_per_link
    speed = {link.edge: link.gb_per_s for link in algorithm.topology.links}
    rates = (
        chunks
        * speed.get((src, dst), algorithm.topology.gb_per_s)
        / algorithm.rounds_per_step[step]
        for (step, src, dst), chunks in Counter(
            (send.step, send.src, send.dst) for send in algorithm.sends
        ).items()
    )
    return min(MAX_PER_LINK, math.ceil(max(rates, default=1) / BLOCK_GB_PER_S))


def readme(options: CodegenOptions) -> dict[str, str]:
    """Return the README's description of the transport."""
    if options.transport == "dma":
        how = (
            "The copy engines move the chunks: every rank enqueues one copy into a peer's memory\n"
            "for each transfer, step by step. The streams set and await a flag for each by\n"
            "themselves (cuStreamWriteValue64, cuStreamWaitValue64), or else by small kernels:\n"
            "where the GPU or its driver cannot, and with HIP, which promises it for memory of\n"
            "one process only (`SCCL_STREAM_OPS=1` has it try, 0 never). Flags lie in memory of\n"
            "the host, where a thread of each rank looks every 20 ms, while calls are under way,\n"
            "for peers that are dead or late, and lets its streams go on to their end."
        )
    else:
        shared = (
            f"as many thread\nblocks as its busiest step asks for, at {BLOCK_GB_PER_S} GB/s each,"
            if options.blocks_per_link is None
            else format_count(options.blocks_per_link, "thread block")
        )
        how = (
            "One kernel per call runs the whole algorithm: every rank pushes chunks into its\n"
            "peers' memory and sets a flag there, one for each transfer; "
            f"{shared} share a link\n"
            "(`--blocks-per-link` of `sccl codegen`; `SCCL_SLICES=N` in the environment: at most\n"
            "N, and chunks of less than 64 KiB are not shared). Small chunks go in packets (`0p`\n"
            "below): every eight bytes with the number of the call beside them, and no flag behind."
        )
    return {"how": how}
