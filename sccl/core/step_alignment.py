"""Stepping: how the steps of an algorithm become times."""

from __future__ import annotations

from enum import StrEnum


class StepAlignment(StrEnum):
    """When the messages of a step start.

    ``BARRIER``: when all of the step before have arrived, wherever. ``PIPELINED``: each as soon as
    the data that it sends are there. Every link keeps the order of steps, as a thread block does.
    """

    BARRIER = "barrier"
    PIPELINED = "pipelined"
