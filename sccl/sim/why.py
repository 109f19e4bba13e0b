"""Why a transfer starts at its tick and not before."""

from __future__ import annotations

from enum import IntEnum


class Why(IntEnum):
    """What a transfer had to wait for last.

    ``RELEASE``: its release. ``ARRIVAL``: another that brought what it sends. ``BARRIER``: the last
    arrival of the step before. ``START``: the start of another, which sends what was at its place
    before. ``ONWARD``: the link before, on the message's own way. ``LINK``: another that its link,
    or a later one of its segment, was busy with. ``LIMIT``: another that gave back of a budget, or
    left a place in a switch. ``ORDER``: the start of another that its link, or a budget or switch,
    serves before it.
    """

    RELEASE = 0
    ARRIVAL = 1
    BARRIER = 2
    START = 3
    ONWARD = 4
    LINK = 5
    LIMIT = 6
    ORDER = 7
