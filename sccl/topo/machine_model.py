"""The machine that is synthesised for: lanes of one speed, and links instead of switches."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.topology import Topology
from sccl.topo.speeds import of_one_speed
from sccl.topo.switches import without_switches


@dataclass(frozen=True, slots=True)
class MachineModel:
    """A machine as synthesis, bounds and limits take it.

    Attributes:
        topology: the machine; itself, if its lanes are equally fast and it has no switches.
        notes: what was done, in words. Its ``source`` says it too.
    """

    topology: Topology
    notes: tuple[str, ...]


def machine_model(topology: Topology) -> MachineModel:
    """Return a machine as k-synchronous synthesis takes it: the same rates, said exactly.

    Raises:
        TopologyError: links with lanes of one speed and budgets cannot say what the machine does.
    """
    even, speeds = of_one_speed(topology)
    direct, switches = without_switches(even)
    return MachineModel(direct, tuple(filter(None, (speeds, switches))))
