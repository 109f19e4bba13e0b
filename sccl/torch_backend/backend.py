"""Register the backend ``sccl`` with torch. It is fast, because every import of torch calls it."""

from __future__ import annotations

import atexit
import sys
from typing import Any

BACKEND = "sccl"


def register() -> None:
    """Register the backend once. Without process groups in torch, do nothing."""
    import torch.distributed as dist  # noqa: PLC0415 - torch itself is being loaded

    if dist.is_available() and not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(
            BACKEND, _create_group, extended_api=True, devices=["cpu", "cuda"]
        )
        atexit.register(_end_groups)  # after a job's own handlers, which may still call


def _end_groups() -> None:
    """Close groups that a job left open, if it created any."""
    if (group := sys.modules.get("sccl.torch_backend.group")) is not None:
        group.end_all_groups()


def _create_group(*options: Any) -> Any:
    """Create a group for torch. Its module is loaded on first use.

    Raises:
        ToolError: This release of torch is not supported.
    """
    import torch  # noqa: PLC0415 - loaded long since

    from sccl.torch_backend.torch_releases import check_release  # noqa: PLC0415 - when it is used

    check_release(torch.__version__)
    from sccl.torch_backend.group import create_group  # noqa: PLC0415 - it needs a supported release

    return create_group(*options)
