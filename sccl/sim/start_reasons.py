"""Why a transfer starts at its tick and not before."""

from __future__ import annotations

from enum import IntEnum


class StartReason(IntEnum):
    """The last thing that a transfer waited for.

    ``RELEASE``: its release. ``ARRIVAL``: the arrival of its data. ``BARRIER``: the last arrival of
    the step before. ``START``: the start of another, which sends the previous value of its place.
    ``ONWARD``: the link before, on the message's route. ``LINK``: another that occupied its link,
    or a later link of its segment. ``LIMIT``: another that returned part of a budget, or left a
    place in a switch. ``ORDER``: the start of another that its link, or a budget or switch, serves
    before it.
    """

    RELEASE = 0
    ARRIVAL = 1
    BARRIER = 2
    START = 3
    ONWARD = 4
    LINK = 5
    LIMIT = 6
    ORDER = 7
