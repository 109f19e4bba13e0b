"""Load the files that sccl writes."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path

from sccl.api.algorithm import Algorithm
from sccl.api.arguments import check_arguments
from sccl.api.frontier import SavedFrontier
from sccl.api.machine import Topology
from sccl.api.schedule import Schedule
from sccl.core.files.disk import read_text
from sccl.core.files.frontier_folders import read_frontiers
from sccl.core.files.kinds import ALGORITHM_KINDS, FRONTIER, SCHEDULE, TOPOLOGY
from sccl.formats.files.plans import kind_among


@check_arguments
def load(path: str | PathLike[str]) -> Algorithm | Schedule | SavedFrontier | Topology:
    """Return the algorithm, schedule, frontier, or topology in a JSON file.

    Args:
        path: Path of the file.

    Raises:
        InputError: The file cannot be read, or has another kind.

    Examples:
        >>> import sccl
        >>> frontier = sccl.pareto("allgather", "ring:4")
        >>> sccl.load(frontier[0].algorithm.save("ring.json"))
        Algorithm(allgather on ring:4: C=2 S=2 R=3)
    """
    file = Path(path)
    kind = kind_among(file, (*ALGORITHM_KINDS, SCHEDULE, FRONTIER, TOPOLOGY))
    if kind in ALGORITHM_KINDS:
        return Algorithm.load(file)
    if kind == SCHEDULE:
        return Schedule.load(file)
    if kind == FRONTIER:
        read_frontiers(file)  # raises an error for another shape
        return SavedFrontier(file, json.loads(read_text(file)))
    return Topology.load(file)
