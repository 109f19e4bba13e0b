"""Problems with varying bandwidth, and the rows of their schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sccl.core.bandwidth import VariableBandwidth
from sccl.core.clock import Clock
from sccl.errors import ParameterError
from sccl.synth.intervals.posed import Posed
from sccl.synth.intervals.varied_ways import VariedWays
from sccl.synth.intervals.ways import holds_of, same_rooms
from sccl.synth.network.crossings import crossings_of
from sccl.synth.network.hops import Hops
from sccl.synth.network.sends import Sends


def varied(posed: Posed, bandwidth: VariableBandwidth) -> Posed:
    """Return a problem in ticks, with a bandwidth that varies.

    A message holds all links of a segment at the pace of the slowest at each moment, so no byte of
    it waits in a switch.

    Raises:
        TopologyError: its machine lacks a link.
        ParameterError: a switch copies.
    """
    if posed.copied:
        raise ParameterError(
            f"bandwidth varies, and a switch of topology {posed.topology.name!r} copies chunks, "
            "which then leave it at several paces: give --switch nocopy"
        )
    its = posed.clock
    clocks = [Clock.of(posed.topology, size, its.model, its.tick_ps) for size in its.sizes]
    crossings = tuple(crossings_of(posed.topology, clock, waits=False) for clock in clocks)
    pairs = list(zip(clocks, crossings, strict=True))
    holds, _ = same_rooms([holds_of(posed.topology, clock, ways) for clock, ways in pairs])
    return replace(
        posed,
        unit=1,
        crossings=crossings,
        costs=tuple(tuple(cost * posed.unit for cost in costs) for costs in posed.costs),
        holds=tuple(tuple(map(tuple, hops)) for hops in holds),
        varied=tuple(VariedWays(posed.topology, clock, ways, bandwidth) for clock, ways in pairs),
    )


def rows_of(posed: Posed, sends: Sends) -> Hops | None:
    """Return sends as the rows of a schedule, each for as long as its bytes take.

    Chunks through a switch are reduced at the end of their way. None: the bandwidth does not vary.
    """
    if not posed.varied:
        return None
    rows = []
    columns = (sends.start.tolist(), sends.chunk.tolist(), sends.link.tolist())
    for number, (start, chunk, way) in enumerate(zip(*columns, strict=True)):
        path, reduces = posed.paths[way], bool(sends.reduce[number])
        for i, (link, hop) in enumerate(zip(path, posed.held(chunk, way, start), strict=False)):
            begin, last = start + hop.offset, i == len(path) - 1
            rows.append((begin, chunk, link, begin + hop.busy, reduces and last, number))
    rows.sort()
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    return Hops(
        start=table[:, 0].copy(),
        end=table[:, 3].copy(),
        chunk=table[:, 1].astype(np.int32),
        link=table[:, 2].astype(np.int32),
        reduce=table[:, 4].astype(np.bool_),
        message=table[:, 5].astype(np.int32) if posed.topology.switches else None,
    )
