"""What the ``cuda`` and ``hip`` targets share: all but the names of the runtime's functions."""

from __future__ import annotations

from collections.abc import Mapping

from sccl.emit.bundle import Bundle
from sccl.emit.shared import COMMON_FILES, VARIANTS, Options
from sccl.emit.text import TYPES, render, values_of

THREADS = 512
"""Threads of a block: enough 16-byte loads under way to fill a link (SCCL section 4)."""

SLOT_BYTES = 1024 * 1024

MEMORY_CONTRACT = """\
 *  - Buffers are memory of the calling rank's GPU. `stream` is a {stream}; the call returns when
 *    it is under way there, and with a NULL stream when it is done. Several threads may call at
 *    once on different communicators."""

_DEVICE = {"Half": "DeviceHalf", "BFloat": "DeviceBFloat"}
OWN = ("gpu.hpp", "machine.hpp", "combine.hpp", "memory.hpp", "communicator.cpp", "Makefile")


def files(
    bundle: Bundle, options: Options, target: Mapping[str, str], stream: str
) -> dict[str, str]:
    """Return the sources of a bundle by file name.

    Args:
        target: the texts in which CUDA and HIP differ, by the names that templates use.
        stream: the type of a stream, for the header.
    """
    values = {
        **values_of(bundle),
        **target,
        "slot_bytes": SLOT_BYTES,
        "threads": THREADS,
        "blocks_per_link": options.blocks_per_link,
        "memory_contract": MEMORY_CONTRACT.format(stream=stream),
        "stream_parameter": ", void *stream",
        "stream_argument": "stream",
        "bench_stream": ", nullptr",
        "variants": VARIANTS,
        "gpu_types": [
            {"name": name, "cpp": _DEVICE.get(cpp, cpp)} for name, (_, cpp, _) in TYPES.items()
        ],
    }
    found = {name: render(f"common/{name}.jinja", values) for name in COMMON_FILES}
    return found | {name: render(f"gpu/{name}.jinja", values) for name in OWN}
