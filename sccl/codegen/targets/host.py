"""The ``host`` target: C++17 for ranks that are MPI processes of one machine."""

from __future__ import annotations

from typing import Any

from sccl.codegen.bundle import Bundle
from sccl.codegen.switch_points import Protocols
from sccl.codegen.targets.codegen_options import (
    COMMON_FILES,
    VARIANTS,
    CodegenOptions,
    passthrough_functions,
)
from sccl.codegen.targets.rendering import render, template_values

SERIAL = True
PROTOCOLS: Protocols = (("a", 0),)
"""The faster protocol is measured at the first use of a communicator. The size from which one copy
by the system is faster than two copies through shared memory depends on the machine: from some KiB
to never."""

SLOT_BYTES = 128 * 1024

MEMORY_CONTRACT = """\
 *  - Buffers are ordinary memory of the process. The call returns when the buffers may be used
 *    again. Several threads may call at once on different communicators. Those of MPI then need
 *    MPI_THREAD_MULTIPLE."""

COUNTED_CONTRACT = """\
 * This uses no algorithm: every rank reaches every other, so each block is sent directly."""

HOST_FILES = (
    "window.hpp",
    "machine.hpp",
    "exchange.hpp",
    "combine.hpp",
    "memory.hpp",
    "attach.hpp",
    "serving.cpp",
    "communicator.cpp",
    "joined.cpp",
    "Makefile",
)


def files(bundle: Bundle, _options: CodegenOptions) -> dict[str, str]:
    """Generate the sources of a bundle by file name."""
    common = template_values(bundle)
    values: dict[str, Any] = {
        **common,
        "slot_bytes": SLOT_BYTES,
        "packet_bytes": 0,
        "protocols": "ade",
        "memory_contract": MEMORY_CONTRACT,
        "stream_parameter": "",
        "stream_argument": "nullptr",
        "bench_stream": "",
        "without_mpi": True,
        "straight": True,  # blocks may go from rank to rank without a program
        "counted_contract": COUNTED_CONTRACT,
        "any_root": "true",  # in shared memory all ranks are equal
        "variants": VARIANTS,
        "passed": passthrough_functions(common["names"], barrier=True),
    }
    sources = {name: render(f"common/{name}.jinja", values) for name in COMMON_FILES}
    return sources | {name: render(f"host/{name}.jinja", values) for name in HOST_FILES}


def readme(_options: CodegenOptions) -> dict[str, str]:
    """Return the README's values for this target."""
    return {"target": "host"}
