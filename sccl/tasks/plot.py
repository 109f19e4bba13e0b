"""Find drawable content in files, folders, and names, and select a chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from sccl.core.algorithm import Algorithm, KSynchronous
from sccl.core.files.algorithms import load_algorithm
from sccl.core.files.disk import is_folder, is_packed, is_there
from sccl.core.files.fields import FileText
from sccl.core.files.kinds import (
    ALGORITHMS,
    CERTIFICATE,
    FRONTIER,
    PACKED_SCHEDULE,
    PLANS,
    SCHEDULE,
    STEPPED,
    TIMELINE,
    TOPOLOGY,
    TRAINING_PLAN,
    Kind,
)
from sccl.core.frontier import Frontier
from sccl.core.topology import Topology
from sccl.errors import InputError, TooLargeError
from sccl.tasks.files import (
    ALGORITHM_OR_FRONTIER,
    files_of,
    frontier_files,
    kind_among,
    load_plan,
    paths_of,
    refuse_foreign,
)
from sccl.tasks.frontiers import of_algorithms, of_folder, parts_of, read_frontiers
from sccl.tasks.judged import judged_schedule
from sccl.tasks.outputs import Output, digest_of, question_digests
from sccl.tasks.training_files import LoadedTraining, training_files
from sccl.topo import resolve
from sccl.topo.symmetry.expand import expand
from sccl.view import charts

if TYPE_CHECKING:
    from sccl.core.schedule import Schedule


MAX_SENDS = 1_000_000
"""Largest number of transfers of a plan that is drawn."""


class What(StrEnum):
    """The charts there are."""

    FRONTIER = "frontier"
    TIME = "time"
    UTILISATION = "utilisation"
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


def sources_of(words: Iterable[str], what: What | None = None) -> list[Source]:
    """Return the drawable content of files, folders, and names.

    Args:
        what: The chart. None: it follows from the content. A chart of algorithms ignores frontiers
            next to them.

    Raises:
        InputError: A source cannot be read, or nothing can be drawn.
    """
    found = [source for path in paths_of(words) for source in _held(path, what)]
    if not found:
        raise InputError("only claims are given, and nothing that can be drawn: give other files")
    others: list[Source] = [one for one in found if not isinstance(one, Frontier)]
    return others if others and what in charts.OF_ALGORITHMS else found


def _held(path: Path, what: What | None) -> Sequence[Source]:
    """Return the drawable content of a file, a folder, or a name."""
    if is_folder(path):
        return _of_folder(path, what)
    if path.suffix != ".json" and not (is_there(path) and is_packed(path)):
        refuse_foreign(path)
        return [resolve(str(path))]
    kinds = (
        *(*ALGORITHMS, FRONTIER, CERTIFICATE, TOPOLOGY, SCHEDULE, PACKED_SCHEDULE),
        *(TRAINING_PLAN, TIMELINE),
    )
    kind = kind_among(path, kinds)
    if kind == FRONTIER:
        return read_frontiers(path)
    if kind == CERTIFICATE:
        return []  # beside the algorithms of a certificate's folder
    if kind is None:
        refuse_foreign(path)
    return [_plan(path, kind) if kind in PLANS | STEPPED else resolve(str(path))]


def _plan(path: Path, kind: Kind | None) -> Source:
    if kind in STEPPED:
        return training_files([path])[0][0]
    return _algorithm(path) if kind in ALGORITHMS else _schedule(path)


def _algorithm(path: Path) -> Algorithm:
    algorithm = load_algorithm(path)[0]
    _check_can_draw(path, algorithm.num_sends)
    return expand(algorithm)


def _check_can_draw(path: Path, sends: int) -> None:
    if sends > MAX_SENDS:
        raise TooLargeError(
            f"{path} has {sends} sends, more than can be drawn (at most {MAX_SENDS}); give a "
            "smaller plan"
        )


def _schedule(path: Path) -> Schedule:
    plan = load_plan(path, lambda *_: None)[0]
    assert not isinstance(plan, KSynchronous)
    _check_can_draw(path, plan.num_sends)
    return judged_schedule(plan, str(path))


def _of_folder(path: Path, what: What | None) -> Sequence[Source]:
    found = files_of([path], ALGORITHM_OR_FRONTIER)
    frontiers = frontier_files(found)
    algorithms = [_algorithm(file) for file in found if file not in frontiers]
    if algorithms and what in charts.OF_ALGORITHMS:
        return algorithms
    return of_folder(frontiers, algorithms)


def suited(sources: Sequence[Source]) -> What:
    """Return the chart that is drawn where none is asked for."""
    if any(isinstance(source, Frontier) for source in sources):
        return What.FRONTIER
    if isinstance(sources[0], LoadedTraining):
        return What.TIMELINE
    return What.TOPOLOGY if isinstance(sources[0], Topology) else What.UTILISATION


def frontiers_of(sources: Sequence[Source]) -> list[Frontier]:
    """Return the frontiers, and those of algorithms that belong to none of them."""
    read = [source for source in sources if isinstance(source, Frontier)]
    loose = of_algorithms([source for source in sources if isinstance(source, Algorithm)])
    questions = parts_of(read)
    return [*read, *(one for one in loose if one.name not in questions)]


def digests_of(words: Iterable[str]) -> dict[str, str]:
    """Return the digests of the files that words name, of folders those of all in them."""
    found: dict[str, str] = {}
    for path in paths_of(words):
        if is_folder(path):
            found |= {str(x): digest_of(x) for x in files_of([path], ALGORITHM_OR_FRONTIER)}
        elif path.suffix == ".json":
            found[str(path)] = digest_of(path)
        else:
            found[str(path)] = question_digests(resolve(str(path)))["topology"]
    return found
