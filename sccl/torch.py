"""For PyTorch jobs: ``import sccl.torch``, then ``torch.distributed.init_process_group("sccl")``.

A job needs the import only if TORCH_DEVICE_BACKEND_AUTOLOAD is 0. Otherwise torch loads the backend
by its name.
"""

from __future__ import annotations

from sccl.torch_backend.backend import register

register()


def step() -> None:
    """Mark the beginning of a training step for recordings.

    Recordings detect steps by optimizers or by repetition. A job that calls this function replaces
    the detection.
    """
    from sccl.torch_backend.session import current_session  # noqa: PLC0415 - it needs torch, which jobs load

    current_session().step()
