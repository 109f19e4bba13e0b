"""Load content to draw from files, folders, and names, and select a chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sccl.core.algorithm import Algorithm, KSynchronousPlan
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.disk import is_folder, is_packed, path_exists
from sccl.core.files.frontier_folders import (
    frontiers_of_algorithms,
    frontiers_of_folder,
    question_ids,
    read_frontiers,
)
from sccl.core.files.kinds import (
    ALGORITHM_KINDS,
    CERTIFICATE,
    FRONTIER,
    PACKED_SCHEDULE,
    PLAN_KINDS,
    SCHEDULE,
    TIMELINE,
    TOPOLOGY,
    TRAINING_KINDS,
    TRAINING_PLAN,
    Kind,
)
from sccl.core.files.outputs import Output, question_digests
from sccl.core.files.shapes import FileText
from sccl.core.frontier import Frontier
from sccl.core.topology import Topology
from sccl.errors import InputError, TooLargeError
from sccl.formats.files.plans import (
    ALGORITHM_OR_FRONTIER,
    algorithm_digest,
    expand_paths,
    files_of_kinds,
    frontier_files,
    kind_among,
    load_plan,
    reject_foreign,
)
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.training.plan_files import LoadedTraining, load_training_files
from sccl.transform.validated import validated_schedule
from sccl.view import charts

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule


MAX_SENDS = 1_000_000
"""Maximum number of transfers of a plan that is drawn."""


class ChartKind(StrEnum):
    """The available charts."""

    FRONTIER = "frontier"
    TIME = "time"
    UTILIZATION = "utilisation"
    ARRIVAL = "arrival"
    TOPOLOGY = "topology"
    TIMELINE = "timeline"


Source: TypeAlias = "Algorithm | Topology | Frontier | Schedule | LoadedTraining"
"""Content that can be drawn."""


class PlotOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl plot'."""

    kind: Literal["plot"] = "plot"
    what: Literal["frontier", "time", "utilisation", "arrival", "topology", "timeline"]
    file: FileText


def load_sources(words: Iterable[str], chart: ChartKind | None = None) -> list[Source]:
    """Return the drawable content of files, folders, and names.

    Args:
        words: Files, folders, patterns, and names of machines.
        chart: Chart to draw. A chart of algorithms ignores frontiers next to them. None: the
            content determines the chart.

    Raises:
        InputError: A source cannot be read, or nothing can be drawn.
    """
    sources = [source for path in expand_paths(words) for source in _load_source(path, chart)]
    if not sources:
        raise InputError("only claims are given, and nothing that can be drawn: give other files")
    others: list[Source] = [entry for entry in sources if not isinstance(entry, Frontier)]
    return others if others and chart in charts.ALGORITHM_CHARTS else sources


def _load_source(path: Path, chart: ChartKind | None) -> Sequence[Source]:
    """Return the drawable content of a file, a folder, or a name."""
    if is_folder(path):
        return _folder_sources(path, chart)
    if path.suffix != ".json" and not (path_exists(path) and is_packed(path)):
        reject_foreign(path)
        return [resolve_topology(str(path))]
    kinds = (
        *(*ALGORITHM_KINDS, FRONTIER, CERTIFICATE, TOPOLOGY, SCHEDULE, PACKED_SCHEDULE),
        *(TRAINING_PLAN, TIMELINE),
    )
    kind = kind_among(path, kinds)
    if kind == FRONTIER:
        return read_frontiers(path)
    if kind == CERTIFICATE:
        return []  # only the algorithms next to a certificate can be drawn
    if kind is None:
        reject_foreign(path)
    return [
        _plan_source(path, kind)
        if kind in PLAN_KINDS | TRAINING_KINDS
        else resolve_topology(str(path))
    ]


def _plan_source(path: Path, kind: Kind | None) -> Source:
    if kind in TRAINING_KINDS:
        return load_training_files([path])[0][0]
    return _algorithm_source(path) if kind in ALGORITHM_KINDS else _schedule_source(path)


def _algorithm_source(path: Path) -> Algorithm:
    algorithm = load_algorithm(path)[0]
    _check_can_draw(path, algorithm.num_sends)
    return expand_algorithm(algorithm)


def _check_can_draw(path: Path, sends: int) -> None:
    if sends > MAX_SENDS:
        raise TooLargeError(
            f"{path} has {sends} sends, more than can be drawn (at most {MAX_SENDS}); give a "
            "smaller plan"
        )


def _schedule_source(path: Path) -> Schedule:
    plan = load_plan(path, lambda *_: None)[0]
    assert not isinstance(plan, KSynchronousPlan)
    _check_can_draw(path, plan.num_sends)
    return validated_schedule(plan, str(path))


def _folder_sources(path: Path, chart: ChartKind | None) -> Sequence[Source]:
    files = files_of_kinds([path], ALGORITHM_OR_FRONTIER)
    frontiers = frontier_files(files)
    algorithms = [_algorithm_source(file) for file in files if file not in frontiers]
    if algorithms and chart in charts.ALGORITHM_CHARTS:
        return algorithms
    return frontiers_of_folder(frontiers, algorithms)


def default_chart(sources: Sequence[Source]) -> ChartKind:
    """Return the chart to draw if none is requested."""
    if any(isinstance(source, Frontier) for source in sources):
        return ChartKind.FRONTIER
    if isinstance(sources[0], LoadedTraining):
        return ChartKind.TIMELINE
    return ChartKind.TOPOLOGY if isinstance(sources[0], Topology) else ChartKind.UTILIZATION


def source_frontiers(sources: Sequence[Source]) -> list[Frontier]:
    """Return the frontiers, and frontiers of the algorithms that belong to none of these."""
    read = [source for source in sources if isinstance(source, Frontier)]
    loose = frontiers_of_algorithms([source for source in sources if isinstance(source, Algorithm)])
    questions = question_ids(read)
    return [*read, *(frontier for frontier in loose if frontier.name not in questions)]


def source_digests(words: Iterable[str]) -> dict[str, str]:
    """Return the digests of files, of the files in folders, and of named machines."""
    digests: dict[str, str] = {}
    for path in expand_paths(words):
        if is_folder(path):
            digests |= {
                str(x): algorithm_digest(x) for x in files_of_kinds([path], ALGORITHM_OR_FRONTIER)
            }
        elif path.suffix == ".json":
            digests[str(path)] = algorithm_digest(path)
        else:
            digests[str(path)] = question_digests(resolve_topology(str(path)))["topology"]
    return digests
