"""Define the options, constants, template files, and MPI functions of all targets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CodegenOptions:
    """Options of code generation.

    Attributes:
        blocks_per_link: Number of thread blocks that share the work of one link (GPU targets).
            None: derive the number from each algorithm's use of its links.
        transport: ``kernel``, or ``dma`` for copy engines with one copy per transfer (GPU targets).
    """

    blocks_per_link: int | None = None
    transport: str = "kernel"


TRANSPORTS = ("kernel", "dma")

MAX_PER_LINK = 32
"""Maximum number of thread blocks that share the work of a link."""


SLOT_BYTES = 1024 * 1024
"""Maximum bytes of a scratch slot on a GPU."""

L2_BYTES = 40 * 1024 * 1024
"""Scratch bytes of one epoch. An H100 has 50 MB of L2 cache, which must also hold input and
output."""


def gpu_slot_bytes(slots: int) -> int:
    """Return the bytes of a scratch slot on GPUs.

    Args:
        slots: Maximum number of slots of a direct program, which is used for large buffers (126 on
            dgx-h100).
    """
    unit = 64 * 1024
    return max(unit, min(SLOT_BYTES, L2_BYTES // max(1, slots) // unit * unit))


COMMON_FILES = (
    "sccl.h",
    "steps.hpp",
    "tables.hpp",
    "selection.hpp",
    "selection.cpp",
    "call.hpp",
    "library.hpp",
    "meeting.hpp",
    "by_mpi.hpp",
    "shared_memory.hpp",
    "types.hpp",
    "plain.hpp",
    "api.cpp",
    "preload.cpp",
    "irregular.cpp",
    "passed.cpp",
    "bench.cpp",
)

VARIANTS = (
    {"suffix": "", "count": "int", "displacement": "int", "condition": "1"},
    {
        "suffix": "_c",
        "count": "MPI_Count",
        "displacement": "MPI_Aint",
        "condition": "MPI_VERSION >= 4",
    },
)
"""Variants of MPI's functions: the ordinary ones and those for large counts of MPI 4."""


_SEND = "const void *send, {count} send_count, MPI_Datatype send_type"
_RECV = "void *recv, {count} recv_count, MPI_Datatype recv_type"
_SEND_V = (
    "const void *send, const {count} *send_counts, const {displacement} *send_displacements, "
    "MPI_Datatype send_type"
)
_RECV_V = (
    "void *recv, const {count} *recv_counts, const {displacement} *recv_displacements, "
    "MPI_Datatype recv_type"
)
_REDUCING = "const void *send, void *recv, {count} count, MPI_Datatype type, MPI_Op op"
_ROOT = "int root"

_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "Allgather": (_SEND, _RECV),
    "Allgatherv": (_SEND, _RECV_V),
    "Allreduce": (_REDUCING,),
    "Alltoall": (_SEND, _RECV),
    "Alltoallv": (_SEND_V, _RECV_V),
    "Alltoallw": tuple(
        re.sub(r"MPI_Datatype (\w+)$", r"const MPI_Datatype *\1s", half)
        for half in (_SEND_V, _RECV_V)
    ),
    "Barrier": (),
    "Bcast": ("void *buffer, {count} count, MPI_Datatype type", _ROOT),
    "Exscan": (_REDUCING,),
    "Gather": (_SEND, _RECV, _ROOT),
    "Gatherv": (_SEND, _RECV_V, _ROOT),
    "Reduce": (_REDUCING, _ROOT),
    "Reduce_scatter": (_REDUCING.replace("{count} count", "const {count} *recv_counts"),),
    "Reduce_scatter_block": (_REDUCING,),
    "Scan": (_REDUCING,),
    "Scatter": (_SEND, _RECV, _ROOT),
    "Scatterv": (_SEND_V, _RECV, _ROOT),
}

_NEIGHBOR_COLLECTIVES = ("Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw")

_SERVED: dict[str, tuple[str, ...]] = {
    "allgather": ("Allgather",),
    "allreduce": ("Allreduce",),
    "alltoall": ("Alltoall",),
    "broadcast": ("Bcast",),
    "gather": ("Gather",),
    "reduce": ("Reduce",),
    "reducescatter": ("Reduce_scatter", "Reduce_scatter_block"),
    "scatter": ("Scatter",),
}
"""Functions that ``preload.cpp`` implements, by collective of a bundle."""

_IRREGULAR = {
    "allgather": "Allgatherv",
    "alltoall": "Alltoallv",
    "gather": "Gatherv",
    "scatter": "Scatterv",
}
"""Function that ``irregular.cpp`` implements, by collective of a bundle."""


def passthrough_functions(names: Iterable[str], *, barrier: bool) -> list[dict[str, object]]:
    """Return, for each variant, the functions that a project passes to MPI, and the reasons.

    Args:
        barrier: Whether the project implements MPI_Barrier.
    """
    served_names = [name for name in names if name in _SERVED]
    served = {function for name in served_names for function in _SERVED[name]}
    served |= {_IRREGULAR[name] for name in served_names if name in _IRREGULAR}
    served |= {"Barrier"} if barrier else set()
    forms: list[dict[str, object]] = []
    for variant in VARIANTS:
        forms.append(variant | {"functions": list(_unserved_functions(served, variant))})
        persistent = {"suffix": f"_init{variant['suffix']}", "condition": "MPI_VERSION >= 4"}
        forms.append(variant | persistent | {"functions": list(_persistent_functions(variant))})
    return forms


def _collective_functions(variant: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield MPI's collectives in a variant, with their parameters before the communicator."""
    for name, parameters in _FUNCTIONS.items():
        if parameters or not variant["suffix"]:  # a barrier has no count, so no large-count form
            yield name, parameters
    for name in _NEIGHBOR_COLLECTIVES:
        parameters = _FUNCTIONS[name]
        if name == "Alltoallw":  # displacements in bytes may exceed int
            parameters = tuple(half.replace("{displacement}", "MPI_Aint") for half in parameters)
        yield f"Neighbor_{name.lower()}", parameters


def _unserved_functions(served: set[str], variant: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for name, parameters in _collective_functions(variant):
        if name not in served:
            yield _function_entry(name, parameters, (), variant, "this project does not serve it")
        request = ("MPI_Request *request",)
        yield _function_entry(f"I{name.lower()}", parameters, request, variant, "it does not block")


def _persistent_functions(variant: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for name, parameters in _collective_functions(variant):
        after = ("MPI_Info info", "MPI_Request *request")
        yield _function_entry(name, parameters, after, variant, "it is persistent")


def _function_entry(
    name: str,
    before: Sequence[str],
    after: Sequence[str],
    variant: Mapping[str, str],
    why: str,
) -> dict[str, str]:
    declared = ", ".join((*before, "MPI_Comm comm", *after)).format(**variant)
    arguments = ", ".join(re.findall(r"(\w+)(?=,|$)", declared))
    return {"name": name, "parameters": declared, "arguments": arguments, "why": why}
