"""Simulate transfers on a machine, in integer ticks: results are the same on every computer."""

from __future__ import annotations

from sccl.core.clock import StepAlignment
from sccl.sim.fair_sharing import FluidSpan, FluidTask, fair_speeds, run_fair_sharing
from sccl.sim.message_routes import MessageRoutes
from sccl.sim.messages import Messages, concatenate
from sccl.sim.simulation import replay, simulate
from sccl.sim.start_reasons import StartReason
from sccl.sim.timeline import CriticalStep, Timeline

__all__ = [
    "CriticalStep",
    "FluidSpan",
    "FluidTask",
    "MessageRoutes",
    "Messages",
    "StartReason",
    "StepAlignment",
    "Timeline",
    "concatenate",
    "fair_speeds",
    "replay",
    "run_fair_sharing",
    "simulate",
]
