"""Compute the remainder of a channel next to a motif, as a machine for other collectives.

For each link and each shared bandwidth it is the unused fraction. Around a switch, that of a rank's
port. Fractions are rounded down to eighths, and links with less are removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sccl.core.fabric import Fabric
from sccl.core.topology import Topology
from sccl.core.training_plan import WHOLE_LOAD
from sccl.errors import ParameterError
from sccl.topo.degrade import without
from sccl.train.resources import FabricPipes

Whole = NDArray[np.int64]

_EIGHTH = WHOLE_LOAD // 8


@dataclass(frozen=True, slots=True, eq=False)
class SpareChannel:
    """The remainder of a channel.

    Attributes:
        channel: Its number.
        machine: Remaining links with their remaining speed.
        left: Remaining load of each pipe of the fabric except streams, in thousandths.
    """

    channel: int
    machine: Topology
    left: Whole

    @property
    def key(self) -> tuple[object, ...]:
        """Return a key that identifies it."""
        return (self.channel, self.left.tobytes())

    def fitted(self, ns: int, loads: Whole) -> tuple[int, Whole]:
        """Return time and loads that fit the remainder, with the time stretched if necessary.

        Args:
            ns: Time without the limit.
            loads: Load of each pipe meanwhile.

        Raises:
            ParameterError: It loads a pipe without any remainder.
        """
        own = loads[: len(self.left)]
        if (own > 0)[self.left <= 0].any():
            raise ParameterError("it uses capacity that others occupy")
        over = own > self.left
        if not over.any():
            return ns, loads
        later = int((-(-own[over] * ns // self.left[over])).max())
        fewer = loads.copy()
        fewer[: len(self.left)] = -(-own * ns // later)
        return later, fewer


def spare_of(
    fabric: Fabric, pipes: FabricPipes, channel: int, loads: Sequence[Whole]
) -> SpareChannel | None:
    """Return the remainder of a channel next to any of several motifs. None: all or nothing.

    Args:
        loads: For each motif: load of each pipe.
    """
    links = pipes.first_stream[0]
    used = np.stack(loads).max(axis=0)[:links]
    left = np.maximum(WHOLE_LOAD - used, 0) // _EIGHTH * _EIGHTH
    machine = fabric.channels[channel].topology
    first = pipes.first_link[channel]
    own = left[first : first + len(machine.links)]
    if not own.any() or (own >= WHOLE_LOAD).all() or not used.any():
        return None
    gone = [link.edge for link, part in zip(machine.links, own.tolist(), strict=True) if not part]
    rest = without(machine, gone) if gone else machine
    part_of = {link.edge: part for link, part in zip(machine.links, own.tolist(), strict=True)}
    slower = tuple(
        replace(link, gb_per_s=link.gb_per_s * part_of[link.edge] / WHOLE_LOAD)
        for link in rest.links
    )
    return SpareChannel(channel, replace(rest, links=slower), left)
