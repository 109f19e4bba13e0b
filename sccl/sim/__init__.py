"""Times of transfers on a machine, by simulation: whole ticks, the same on every computer."""

from __future__ import annotations

from sccl.core.stepping import Stepping
from sccl.sim.fluid import FluidSpan, FluidTask, fair_speeds, run_fluid
from sccl.sim.messages import Messages, together
from sccl.sim.routes import MessageRoutes
from sccl.sim.run import replay, simulate
from sccl.sim.timeline import CriticalStep, Timeline
from sccl.sim.why import Why

__all__ = [
    "CriticalStep",
    "FluidSpan",
    "FluidTask",
    "MessageRoutes",
    "Messages",
    "Stepping",
    "Timeline",
    "Why",
    "fair_speeds",
    "replay",
    "run_fluid",
    "simulate",
    "together",
]
