"""Read schedules of TE-CCL: transfers over links by epoch.

Source: microsoft/TE-CCL (SIGCOMM 2024), files of ``examples/schedules`` and of its experiments:
``7-Flows`` or ``6-Flows`` has a sentence for each transfer, and ``8-Chunk paths`` or ``7-chunk
paths`` has one for each satisfied demand. Nodes that never send their own chunks are switches.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sccl.collectives import named_spec
from sccl.core.collective import Collective
from sccl.errors import FormatError, TooLargeError
from sccl.formats.common.contract import ForeignPlan, FormatOptions, read_only
from sccl.formats.common.transfer_lists import (
    ASSUMED_MACHINE_NOTE,
    algorithm_of_flows,
    machine_of_edges,
)
from sccl.topo.importers.common.unused_fields import unused_line

NAME = "teccl"
ABOUT = "schedules of TE-CCL (read only)"
SOURCE = "microsoft/TE-CCL, examples/schedules"
TAKES = ()
BY_SIZE = False
MIXES = False

ROUNDING = 1e-6
"""Tolerance for numerical errors of a solver, such as a volume of 0.9999999999999999."""

MAX_FLOWS = 2**20
"""Maximum number of flows of a schedule."""

_FLOWS = ("7-Flows", "6-Flows")
_PATHS = ("8-Chunk paths", "7-chunk paths")
"""Names of fields. The first existing one is read."""

_FLOW = re.compile(
    r"Chunk (\d{1,6}) from (\d{1,6}) traveled over (\d{1,6})->(\d{1,6})"
    r"(?: with volume (\d{1,9}(?:\.\d{1,20})?(?:e-?\d{1,3})?))?"
    r" in epoch (\d{1,9})(?: via switches ([0-9, >-]*))?"
)
_DEMAND = re.compile(r"Demand at (\d{1,6}) for chunk (\d{1,6}) from (\d{1,6}) met by epoch \d{1,9}")


Options = FormatOptions
"""The format has no options."""


write = read_only("teccl: schedules of TE-CCL are read, with 'sccl import'; nothing runs them")


def sniff(content: bytes) -> bool:
    """Return whether content begins like a schedule of TE-CCL."""
    return bool(re.match(rb'\s*\{\s*"1-Epoch_Duration"', content[:200]))


def read(content: bytes, where: str) -> ForeignPlan:
    """Return the algorithm of a schedule's transfers, in the fewest steps.

    Raises:
        InputError: The content is no schedule, splits chunks, or is neither allgather nor alltoall.
    """
    fields = _parse_fields(content, where)
    flows, demands = _flows(fields, where), _demands(fields, where)
    nodes = sorted({src for *_, src in demands} | {dst for dst, _, _ in demands})
    rank = {node: number for number, node in enumerate(nodes)}
    for _, chunk, src, begin, end in flows:
        if not {src, begin, end} <= rank.keys():
            raise FormatError(
                f"{where}: chunk {chunk} of {src} passes {begin}->{end}, and one of these has no "
                "demand: switches are expected after 'via'"
            )
    collective, chunk_of = _collective(demands, rank, where)
    for _, chunk, src, *_ends in flows:
        if (chunk, src) not in chunk_of:
            raise FormatError(f"{where}: chunk {chunk} of {src} is sent, but no rank demands it")
    ordered = sorted((epoch, chunk_of[c, s], rank[a], rank[b]) for epoch, c, s, a, b in flows)
    machine = machine_of_edges(f"teccl-{len(nodes)}", len(nodes), [(a, b) for *_, a, b in ordered])
    algorithm = algorithm_of_flows(machine, collective, [row[1:] for row in ordered])
    about = f"a schedule of TE-CCL: {collective.name} of {len(nodes)} GPUs, {len(flows)} transfers"
    notes = [
        ASSUMED_MACHINE_NOTE,
        "epochs became steps: a chunk is forwarded in the step after its arrival",
    ]
    if nodes != list(range(len(nodes))):
        notes.append(f"its GPUs are numbered up to {nodes[-1]}: ranks are in their order")
    used = {_find_field(fields, _FLOWS), _find_field(fields, _PATHS)}
    notes += unused_line(name for name in fields if name not in used)
    return ForeignPlan(algorithm, about, tuple(notes))


def _parse_fields(content: bytes, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: not JSON that can be read: {str(error)[:80]}") from error
    if not isinstance(fields, dict):
        raise FormatError(f"{where}: expected an object with flows and paths of chunks")
    return fields


def _find_field(fields: dict[str, Any], names: Sequence[str]) -> str:
    return next((name for name in names if name in fields), names[0])


def _flows(fields: dict[str, Any], where: str) -> list[tuple[int, int, int, int, int]]:
    """Return (epoch, chunk, source, begin, end) of every transfer."""
    texts = fields.get(_find_field(fields, _FLOWS))
    if not isinstance(texts, list) or not texts:
        raise FormatError(f"{where}: no list 7-Flows, expected one sentence for each transfer")
    if len(texts) > MAX_FLOWS:
        raise TooLargeError(f"{where}: {len(texts)} transfers; up to {MAX_FLOWS} are read")
    flows = []
    for number, text in enumerate(texts):
        flow = _FLOW.fullmatch(text) if isinstance(text, str) else None
        if flow is None:
            raise FormatError(f"{where}: flow {number} is {str(text)[:60]!r}, expected a transfer")
        if flow[5] is not None and abs(float(flow[5]) - 1) > ROUNDING:
            raise FormatError(
                f"{where}: flow {number} carries {flow[5]} of a chunk, and algorithms send whole "
                "ones: split its chunks finer"
            )
        chunk, src, begin, end = (int(flow[i]) for i in range(1, 5))
        flows.append((int(flow[6]), chunk, src, begin, end))
    return flows


def _demands(fields: dict[str, Any], where: str) -> set[tuple[int, int, int]]:
    """Return (destination, chunk, source) of every demand."""
    paths = fields.get(_find_field(fields, _PATHS))
    texts = list(paths) if isinstance(paths, dict) else []
    demands = [_DEMAND.fullmatch(text) for text in texts]
    if not texts or None in demands:
        raise FormatError(f"{where}: no '8-Chunk paths' that begin 'Demand at ...'")
    return {(int(row[1]), int(row[2]), int(row[3])) for row in demands if row is not None}


def _collective(
    demands: set[tuple[int, int, int]], rank: dict[int, int], where: str
) -> tuple[Collective, dict[tuple[int, int], int]]:
    """Return the collective, and its chunk number of each (chunk, source)."""
    wanted: dict[tuple[int, int], set[int]] = defaultdict(set)
    for dst, chunk, src in demands:
        wanted[chunk, src].add(dst)
    ranks = len(rank)
    everywhere = all(dsts == rank.keys() - {src} for (_, src), dsts in wanted.items())
    chunks = 1 + max(chunk for chunk, _ in wanted)
    if ranks > 1 and everywhere and len(wanted) == chunks * ranks:
        numbers = {(c, s): c * ranks + rank[s] for c, s in wanted}
        return named_spec("allgather", ranks).at(chunks), numbers
    pairs = {(rank[s], rank[next(iter(dsts))]) for (_, s), dsts in wanted.items()}
    single = all(len(dsts) == 1 for dsts in wanted.values())
    if ranks > 1 and single and len(pairs) == len(wanted) == ranks * (ranks - 1):
        numbers = {(c, s): rank[min(d)] * ranks + rank[s] for (c, s), d in wanted.items()}
        return named_spec("alltoall", ranks).at(ranks), numbers
    raise FormatError(
        f"{where}: its demands match neither allgather nor alltoall with one chunk per pair"
    )
