"""Schedules turned round in time, and put one after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.synth.network.sends import Sends


def turned(
    sends: Sends,
    finish: int,
    takes: NDArray[np.int64],
    back: NDArray[np.int64],
    *,
    reduce: bool,
) -> Sends:
    """Return the sends of a dual on the reversed machine as those of what it is the dual of.

    A transfer that starts at s is away from its sender until s, and at its receiver from
    s + busy + lag on. Read backwards from the finish F, the receiver sends from F - (s + busy +
    lag), so the link is busy until F - (s + lag), and what is sent arrives at F - s. What a rank
    received at t or before, and passed on at s >= t, it now gets at F - s or before, and sends on
    at F - t or after. Each link's times are shifted by one constant, so they still do not overlap.
    (That is for an alpha that travels; where it occupies, lag is 0.) A rank was sent each chunk
    once, so it sends its sum once: each contribution is counted once.

    Args:
        takes: of each transfer: ticks from its start until it has arrived.
        back: which link goes against each link of the reversed machine.
    """
    start = finish - (sends.start + takes)
    link = back[sends.link].astype(np.int32)
    return Sends(start, sends.chunk, link, np.full_like(sends.reduce, reduce)).ordered()


def joined(first: Sends, finish: int, then: Sends) -> Sends:
    """Return one schedule after another: for allreduce.

    (Little of the second can begin sooner: as all ranks send first what they hold, read backwards
    all get last what completes their sums. Moving each transfer of TACOS to when it could begin was
    tried on eight machines, and changed no finish; TE-CCL's chunks go on by themselves.)
    """
    return Sends(
        np.concatenate([first.start, then.start + finish]),
        np.concatenate([first.chunk, then.chunk]),
        np.concatenate([first.link, then.link]),
        np.concatenate([first.reduce, then.reduce]),
    )
