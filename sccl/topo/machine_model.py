"""The machine that is synthesised for: lanes of one speed, and links instead of switches."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.core.topology import Topology
from sccl.topo.lane_speeds import unify_lane_speeds
from sccl.topo.switches import expand_switches


@dataclass(frozen=True, slots=True)
class MachineModel:
    """The machine model that synthesis, bounds and limits use.

    Attributes:
        topology: The model, which is the machine itself if all lanes are equally fast and it has
            no switches.
        notes: Description of the changes, which is also in its ``source``.
    """

    topology: Topology
    notes: tuple[str, ...]


def machine_model(topology: Topology) -> MachineModel:
    """Return the model of a machine for k-synchronous synthesis, with exactly the same rates.

    Raises:
        TopologyError: links with lanes of one speed and budgets cannot model the machine.
    """
    even, speeds = unify_lane_speeds(topology)
    direct, switches = expand_switches(even)
    return MachineModel(direct, tuple(filter(None, (speeds, switches))))
