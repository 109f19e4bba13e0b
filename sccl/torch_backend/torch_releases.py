"""List the supported releases of torch, and the names of collectives in each of them.

Python code and the C++ code of DistributedDataParallel call a process group under old and new
names, so it supports all of them in every release.
"""

from __future__ import annotations

import re

from sccl.errors import ToolError

OLDEST, BELOW = (2, 13), (2, 15)
"""Supported releases, as in the extra ``torch`` of pyproject.toml. Tests use both ends."""

METHOD_NAMES = {
    "all_gather": ("allgather",),
    "all_gather_single": ("all_gather_single", "_allgather_base"),
    "all_gather_coalesced": ("allgather_coalesced",),
    "all_gather_single_coalesced": (
        "all_gather_single_coalesced",
        "allgather_into_tensor_coalesced",
    ),
    "all_reduce": ("allreduce",),
    "all_reduce_coalesced": ("allreduce_coalesced",),
    "all_to_all": ("alltoall",),
    "all_to_all_single": ("all_to_all_single", "alltoall_base"),
    "barrier": ("barrier",),
    "broadcast": ("broadcast",),
    "gather": ("gather",),
    "reduce": ("reduce",),
    "reduce_scatter": ("reduce_scatter",),
    "reduce_scatter_single": ("reduce_scatter_single", "_reduce_scatter_base"),
    "reduce_scatter_single_coalesced": (
        "reduce_scatter_single_coalesced",
        "reduce_scatter_tensor_coalesced",
    ),
    "scatter": ("scatter",),
    "send": ("send",),
    "recv": ("recv",),
    "recv_anysource": ("recv_anysource",),
}
"""Methods of process groups by their operation, the newest names first."""


POINT_TO_POINT = frozenset({"send", "recv", "recv_anysource"})
"""Operations of :data:`METHOD_NAMES` that are not collectives."""


def is_supported(release: str) -> bool:
    """Return whether this version works with a release of torch, such as ``2.13.0+cpu``."""
    matched = re.match(r"(\d+)\.(\d+)", release)
    return matched is not None and OLDEST <= (int(matched[1]), int(matched[2])) < BELOW


def check_release(release: str) -> None:
    """Raise a ToolError unless a release of torch is supported."""
    if not is_supported(release):
        low, high = (".".join(map(str, ends)) for ends in (OLDEST, BELOW))
        raise ToolError(
            f"torch is {release}, and this version of sccl works with {low} up to below {high}: "
            "install 'sccl[torch]', or initialise the process group with gloo"
        )
