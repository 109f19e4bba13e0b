"""Stepping: how the steps of an algorithm become times."""

from __future__ import annotations

from enum import StrEnum


class Stepping(StrEnum):
    """When the messages of a step start.

    ``BARRIER``: when all of the step before have arrived, wherever. ``PIPELINED``: each as soon as
    what it sends is there.
    """

    BARRIER = "barrier"
    PIPELINED = "pipelined"
