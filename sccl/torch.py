"""For PyTorch jobs: ``import sccl.torch``, then ``torch.distributed.init_process_group("sccl")``.

Where torch loads extensions by itself, as it does unless TORCH_DEVICE_BACKEND_AUTOLOAD is 0, the
import is not needed: a job needs nothing but the name of the backend.
"""

from __future__ import annotations

from sccl.torch_backend.backend import register

register()


def step() -> None:
    """Say that a step of training begins, where recordings can't see it by themselves.

    They tell steps by optimizers, or by what repeats. A job that says it is recorded by its word.
    """
    from sccl.torch_backend.session import current_session  # noqa: PLC0415 - it needs torch, which jobs load

    current_session().step()
