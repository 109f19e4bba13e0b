"""Schedules turned round in time, and put one after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sccl.synth.network.transfers import Sends


def reverse_schedule(
    sends: Sends,
    finish: int,
    takes: NDArray[np.int64],
    back: NDArray[np.int64],
    *,
    reduce: bool,
) -> Sends:
    """Return the sends of a dual on the reversed machine as sends of its original.

    A transfer that starts at s leaves its sender at s, and is at its receiver from s + busy + lag
    on. Reversed in time from the finish F, the receiver sends from F - (s + busy + lag), so the
    link is busy until F - (s + lag), and the data arrive at F - s. Data that a rank received by t,
    and forwarded at s >= t, now arrive by F - s, and leave at F - t or later. Each link's times are
    shifted by one constant, so they still do not overlap. (This is for an alpha that travels. If it
    occupies, lag is 0.) A rank received each chunk once, so it sends its sum once: each
    contribution is counted once.

    Args:
        takes: Ticks of each transfer from its start to its arrival.
        back: For each link of the reversed machine, the link in the opposite direction.
    """
    start = finish - (sends.start + takes)
    link = back[sends.link].astype(np.int32)
    return Sends(start, sends.chunk, link, np.full_like(sends.reduce, reduce)).sorted_sends()


def concatenate_schedules(first: Sends, finish: int, then: Sends) -> Sends:
    """Return one schedule after another: for allreduce.

    Hardly any transfer of the second could begin sooner: all ranks first send their own data, so in
    reverse all ranks receive last the data that complete their sums. Starting each TACOS transfer
    as early as possible changed no finish on eight machines.
    """
    return Sends(
        np.concatenate([first.start, then.start + finish]),
        np.concatenate([first.chunk, then.chunk]),
        np.concatenate([first.link, then.link]),
        np.concatenate([first.reduce, then.reduce]),
    )
