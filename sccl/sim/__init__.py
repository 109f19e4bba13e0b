"""Times of transfers on a machine, by simulation: whole ticks, the same on every computer."""

from __future__ import annotations

from sccl.core.stepping import Stepping
from sccl.sim.messages import Messages, together
from sccl.sim.run import replay, simulate
from sccl.sim.timeline import CriticalStep, Timeline
from sccl.sim.why import Why

__all__ = [
    "CriticalStep",
    "Messages",
    "Stepping",
    "Timeline",
    "Why",
    "replay",
    "simulate",
    "together",
]
