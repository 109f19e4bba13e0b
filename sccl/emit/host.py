"""The ``host`` target: C++17, ranks are MPI processes of one machine."""

from __future__ import annotations

from typing import Any

from sccl.emit.bundle import Bundle
from sccl.emit.functions import passed_on
from sccl.emit.shared import COMMON_FILES, VARIANTS, EmitOptions
from sccl.emit.switch_points import Protocols
from sccl.emit.text import render, values_of

SERIAL = True
PROTOCOLS: Protocols = (("a", 0),)
"""From which size on one copy by the system beats two through shared memory depends on the machine:
from some KiB to never. Ranks measure it when they first use a communicator.
"""

SLOT_BYTES = 128 * 1024

MEMORY_CONTRACT = """\
 *  - Buffers are ordinary memory of the process. The call returns when the buffers may be used
 *    again. Several threads may call at once on different communicators."""

COUNTED_CONTRACT = """\
 * By no algorithm: every rank reaches every other, so each block goes straight to its rank."""

OWN = (
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


def files(made: Bundle, _options: EmitOptions) -> dict[str, str]:
    """Return the sources of a bundle by file name."""
    common = values_of(made)
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
        "straight": True,  # blocks may go from rank to rank by no program
        "counted_contract": COUNTED_CONTRACT,
        "any_root": "true",  # in shared memory, ranks are alike
        "variants": VARIANTS,
        "passed": passed_on(common["names"], barrier=True),
    }
    found = {name: render(f"common/{name}.jinja", values) for name in COMMON_FILES}
    return found | {name: render(f"host/{name}.jinja", values) for name in OWN}


def readme(_options: EmitOptions) -> dict[str, str]:
    """Return what the README says of this target."""
    return {"target": "host"}
