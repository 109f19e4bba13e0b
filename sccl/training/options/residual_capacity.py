"""Compute the remainder of a channel next to a motif, as a machine for other collectives.

For each link and each shared bandwidth it is the unused fraction. Around a switch, that of a rank's
port. Fractions are rounded down to eighths, and links with less are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sccl.core.arrays import IntArray
from sccl.core.fabric import Fabric
from sccl.core.topology import Topology
from sccl.core.training_plan import FULL_LOAD
from sccl.errors import ParameterError
from sccl.topo.degrade import remove_parts
from sccl.training.options.fabric_resources import FabricPipes

_EIGHTH = FULL_LOAD // 8


@dataclass(frozen=True, slots=True, eq=False)
class ResidualChannel:
    """The remainder of a channel.

    Attributes:
        channel: Its number.
        machine: Remaining links with their remaining speed.
        residual: Remaining load of each pipe of the fabric except streams, in thousandths.
    """

    channel: int
    machine: Topology
    residual: IntArray

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that identifies it."""
        return (self.channel, self.residual.tobytes())

    def fit_load(self, ns: int, loads: IntArray) -> tuple[int, IntArray]:
        """Return time and loads that fit the remainder, with the time stretched if necessary.

        Args:
            ns: Time without the limit.
            loads: Load of each pipe meanwhile.

        Raises:
            ParameterError: It loads a pipe without any remainder.
        """
        link_loads = loads[: len(self.residual)]
        if (link_loads > 0)[self.residual <= 0].any():
            raise ParameterError("it uses capacity that others occupy")
        over = link_loads > self.residual
        if not over.any():
            return ns, loads
        later = int((-(-link_loads[over] * ns // self.residual[over])).max())
        fewer = loads.copy()
        fewer[: len(self.residual)] = -(-link_loads * ns // later)
        return later, fewer


def residual_channel(
    fabric: Fabric, pipes: FabricPipes, channel: int, loads: Sequence[IntArray]
) -> ResidualChannel | None:
    """Return the remainder of a channel next to any of several motifs. None: all or nothing.

    Args:
        loads: For each motif: load of each pipe.
    """
    links = pipes.first_stream[0]
    used = np.stack(loads).max(axis=0)[:links]
    left = np.maximum(FULL_LOAD - used, 0) // _EIGHTH * _EIGHTH
    machine = fabric.channels[channel].topology
    first = pipes.first_link[channel]
    free_loads = left[first : first + len(machine.links)]
    if not free_loads.any() or (free_loads >= FULL_LOAD).all() or not used.any():
        return None
    gone = [
        link.edge for link, part in zip(machine.links, free_loads.tolist(), strict=True) if not part
    ]
    rest = remove_parts(machine, gone) if gone else machine
    part_of = {
        link.edge: part for link, part in zip(machine.links, free_loads.tolist(), strict=True)
    }
    slower = tuple(
        replace(link, gb_per_s=link.gb_per_s * part_of[link.edge] / FULL_LOAD)
        for link in rest.links
    )
    return ResidualChannel(channel, replace(rest, links=slower), left)
