"""Generate the common part of the ``cuda`` and ``hip`` targets.

The targets differ in the names of runtime functions.
"""

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
    passthrough_functions,
)
from sccl.codegen.targets.rendering import TYPES, render, template_values
from sccl.core.algorithm import Algorithm
from sccl.core.formatting import format_count

THREADS = 512
"""Number of threads of a block: enough outstanding 16-byte loads to saturate a link (SCCL section
4)."""

BLOCK_GB_PER_S = 14
"""Assumed rate of one thread block over a link, in GB/s. Published values for NVLink are 10 to 20.
The value is not measured. A lane of 25 or 27 GB/s has two blocks."""

PACKET_BYTES = 16 * 1024
"""Maximum bytes of a chunk in packets."""

PACKET_PART_BYTES = 8 * 1024
"""Maximum bytes of a part in packets. Up to this size, at tens of GB/s, sending twice the bytes is
estimated to cost less than a fence and a flag."""

MEMORY_CONTRACT = """\
 *  - Buffers are memory of the calling rank's GPU, and `stream` is a {stream} of its context. The
 *    communicator keeps the GPU and the context that are current at its first call. That call
 *    waits for all ranks without the limit of SCCL_TIMEOUT. Free the communicator before the
 *    context is destroyed ({api}DeviceReset).
 *  - A call with a stream returns when its work is enqueued. If its program is direct and its
 *    output is not registered, it first waits until all ranks make the call and, if it maps an
 *    output, until the previous call has ended. SCCL_TIMEOUT does not limit the wait for the
 *    previous call.
 *  - A call with a NULL stream waits for all work that its thread put on the default streams
 *    (legacy and per thread), but not for the legacy stream while a stream made without
 *    {api}StreamNonBlocking is captured. It returns when the collective is complete.
 *  - Calls from several threads need MPI_THREAD_MULTIPLE. Calls on one communicator must not
 *    overlap.
 *  - If the thread blocks of several communicators do not fit on the GPU together, use one of the
 *    communicators at a time, across all threads and streams. If they fit, all ranks must make
 *    the calls in the same order, because streams may share a queue of the GPU. SCCL_TIMEOUT
 *    starts with the kernel of a call, so a call that waits behind one of another communicator
 *    may take longer. The same holds for a refused call, because it starts a kernel that informs
 *    the other ranks.
 *  - If a stream runs fewer thread blocks at the same time than a call has, the call returns
 *    SCCL_UNSUPPORTED.
{captures}
 *  - A peer that is late by more than SCCL_TIMEOUT seconds (environment; default 600; 0: no
 *    limit) is an error on every rank: SCCL_FAILED. A peer that makes a different call, or the
 *    same call with another count, type or op, is the same error. The ranks detect it by a tag of
 *    16 bits: different programs have different tags, but a few pairs of sizes, types and ops
 *    share a tag.
 *  - A call on a stream returns before it can fail, so a later call returns SCCL_FAILED. To
 *    check without moving data, let all ranks synchronize, then make a call with count 0 on every
 *    rank: it returns SCCL_FAILED if an earlier call or replay failed.
 *  - The output of a failed call is undefined, and a peer may still write into it. Do not reuse
 *    or free it before all ranks have returned the error.
 *  - A call that all ranks refuse (SCCL_UNSUPPORTED, SCCL_INVALID) leaves the communicator
 *    usable. If only some ranks refuse it, it is SCCL_FAILED on all: at the next call for a rank
 *    that refused it on a stream or with SCCL_INVALID. Only the launch detects a stream that is
 *    too small, after the ranks met for a direct call. An earlier refusal takes precedence."""

CAPTURES_CONTRACT = """\
 *  - You can capture a call into a graph if all ranks capture it. All ranks must replay their
 *    graphs equally often. Each replay repeats the call with the same buffers. Replays report no
 *    errors: see the call with count 0 below. Order replays and calls of one communicator by one
 *    stream or by events. After a captured call, a refused call waits for all ranks. If a call is
 *    refused while its stream is captured, the graph repeats the refusal, and each replay informs
 *    the other ranks. With the dma transport a capture is SCCL_UNSUPPORTED."""

NO_CAPTURES = """\
 *  - A call on a stream in capture mode returns SCCL_UNSUPPORTED."""

_DEVICE = {"Half": "DeviceHalf", "BFloat": "DeviceBFloat"}
MACHINES = {"kernel": "gpu/machine.hpp.jinja", "dma": "gpu/dma.hpp.jinja"}
COUNTED_CONTRACT = """\
 * Arrays are in memory of the host or of a GPU. An algorithm of the project carries the blocks
 * through scratch memory. Hosts exchange all counts first, so a call synchronizes all ranks, and
 * waits until the previous one starts. If an array is in GPU memory, the call first waits for all
 * work on its stream. No stream may capture it (SCCL_UNSUPPORTED), and counts that contradict each
 * other are SCCL_INVALID on every rank."""

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


def files(bundle: Bundle, options: CodegenOptions, target: Mapping[str, str]) -> dict[str, str]:
    """Generate the sources of a bundle by file name.

    Args:
        target: Texts in which CUDA and HIP differ, by their names in the templates.
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
            stream=f"{target['api']}Stream_t",
            api=target["api"],
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

    The default depends on the busiest step. All links of a GPU may share its 18 lanes, so an
    algorithm may use, for example, two lanes of a link at a time. Such a link needs as many blocks
    as a link of two lanes.
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


def readme(target: Mapping[str, str], options: CodegenOptions) -> dict[str, str]:
    """Return the README's values for a target, with a description of the transport."""
    if options.transport == "dma":
        how = (
            "The copy engines move the chunks: every rank enqueues one copy into a peer's memory\n"
            "for each transfer, step by step. Streams set a flag for each transfer and wait for\n"
            "it (cuStreamWriteValue64, cuStreamWaitValue64). Small kernels replace these\n"
            "operations if the GPU or its driver lacks them, and with HIP, which supports them\n"
            "within one process only (`SCCL_STREAM_OPS=1`: try them, 0: never). Flags are in host\n"
            "memory. During calls, a thread of each rank looks there every 20 ms for dead or late\n"
            "peers, and then releases its waiting streams."
        )
    else:
        shared = (
            f"one thread\nblock per {BLOCK_GB_PER_S} GB/s of its busiest step"
            if options.blocks_per_link is None
            else format_count(options.blocks_per_link, "thread block")
        )
        how = (
            "One kernel per call runs the whole algorithm: every rank pushes chunks into its\n"
            "peers' memory and sets a flag there, one for each transfer. "
            f"Thread blocks of a link: {shared}\n"
            "(`sccl project new --blocks-per-link`; `SCCL_SLICES=N` in the environment limits\n"
            "them to N; one block sends a chunk of less than 64 KiB). Small chunks go in packets\n"
            "(`0p` below): eight bytes of data with the number of the call, without a flag."
        )
    return {**target, "how": how}
