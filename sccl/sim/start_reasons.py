"""Reasons why a transfer does not start earlier."""

from __future__ import annotations

from enum import IntEnum


class StartReason(IntEnum):
    """The last event that a transfer waited for.

    ``RELEASE``: its release tick. ``ARRIVAL``: the arrival of its data. ``BARRIER``: the last
    arrival of the step before. ``START``: the start of another transfer, which sends the previous
    value of the same chunk at the same rank. ``ONWARD``: the previous link of the message's route.
    ``LINK``: another transfer that occupied its link, or a later link of its segment. ``LIMIT``:
    another transfer that released part of a budget, or a buffer place of a switch. ``ORDER``: the
    start of another transfer that precedes it in the service order of a link, budget or switch.
    """

    RELEASE = 0
    ARRIVAL = 1
    BARRIER = 2
    START = 3
    ONWARD = 4
    LINK = 5
    LIMIT = 6
    ORDER = 7
