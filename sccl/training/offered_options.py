"""Derive, write, load, and group the options that a fabric offers for a workload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.files.disk import UnreadFiles, skip_unreadable, write_atomically
from sccl.core.files.json_text import digest, to_text
from sccl.core.files.kinds import OPTION
from sccl.formats.files.plans import select_files
from sccl.topo import resolve_topology
from sccl.training.files.training_plans import load_offered_options, offered_options_to_wire
from sccl.training.plan_files import name_file_in_errors
from sccl.training.plan_step import StageCallback
from sccl.training.types.fabric import Fabric
from sccl.training.types.training_plan import OfferedOptions, Option, RefusedRecipe
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import CommOp

if TYPE_CHECKING:
    from sccl.training.options.measured_costs import CostTable
    from sccl.training.planner import PlanSettings
    from sccl.training.validate.plan_faults import PlanFault


@dataclass(frozen=True, slots=True)
class LoadedOptions:
    """Options and their file."""

    file: Path
    offered: OfferedOptions


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """Equal collectives, and their offered options.

    Attributes:
        names: Ids of the collectives.
    """

    collective: str
    group_ranks: int
    bytes: int
    names: tuple[str, ...]
    options: tuple[Option, ...]
    refused: tuple[RefusedRecipe, ...]


def load_option_files(
    words: Iterable[str | Path], unread: UnreadFiles | None = None
) -> tuple[list[LoadedOptions], list[str | Path]]:
    """Load the named files of options, and return them with the remaining words.

    Args:
        words: Files and other words.
        unread: Collector of files that cannot be read. None: such a file is an error.

    Raises:
        InputError: A file of options is invalid or was edited.
    """
    held, rest = select_files(words, frozenset({OPTION}))
    loaded = []
    for path in held:
        with skip_unreadable(path, unread):
            loaded.append(LoadedOptions(path, load_offered_options(path, resolve_topology)))
    return loaded, rest


def enumerate_options(
    workload: Workload,
    fabric: Fabric,
    settings: PlanSettings,
    on_progress: StageCallback = lambda *_: None,
    first: Callable[[], None] = lambda: None,
) -> OfferedOptions:
    """Return a fabric's options for the collectives of a workload, as offered to a plan.

    Args:
        on_progress: Function that receives progress, without period and bound.
        first: Function that is called before a compilation without a cache.

    Raises:
        InputError: A group is outside the fabric, or a collective has no option, with the reason.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba
    from sccl.training.options.option_catalog import find_options  # noqa: PLC0415 - loads Numba

    with compiling(first):
        result = find_options(
            workload, fabric, settings.option_settings, lambda label: on_progress(label, None, None)
        )
    return OfferedOptions(
        workload=workload,
        fabric=fabric,
        options=tuple(
            (name, option) for name, entries in result.by_collective.items() for option in entries
        ),
        refused=tuple(
            (name, refusal) for name, entries in result.refused.items() for refusal in entries
        ),
        seed=settings.seed,
        costs=settings.costs,
        max_motifs=settings.max_motifs,
        bitwise=settings.bitwise,
        planned_by=settings.planned_by,
    )


def write_options(path: Path, offered: OfferedOptions) -> None:
    """Write the file of options atomically.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, to_text(offered_options_to_wire(offered)))


def option_faults(loaded: LoadedOptions, costs: CostTable | None) -> tuple[PlanFault, ...]:
    """Return the violations of options, which are derived again for comparison.

    Args:
        costs: Table of measured costs. None: not available.

    Raises:
        InputError: The synthesizer is unknown, or no options can be derived.
    """
    from sccl.training.options.motif_costs import build_motif_planner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.training.validate.plan_costs import find_option_faults  # noqa: PLC0415
    from sccl.training.validate.plan_faults import PlanFault  # noqa: PLC0415

    offered = loaded.offered
    by = build_motif_planner(offered.planned_by, offered.seed) if offered.planned_by else None
    with name_file_in_errors(loaded.file):
        return tuple(PlanFault(*wrong) for wrong in find_option_faults(offered, by, costs))


def option_digests(several: Iterable[LoadedOptions]) -> dict[str, str]:
    """Return the digests of options, by file."""
    return {str(loaded.file): digest(offered_options_to_wire(loaded.offered)) for loaded in several}


def group_options(offered: OfferedOptions) -> Iterator[OptionGroup]:
    """Yield the offered options, once for equal collectives."""
    options: dict[str, list[Option]] = defaultdict(list)
    refused: dict[str, list[RefusedRecipe]] = defaultdict(list)
    for name, option in offered.options:
        options[name].append(option)
    for name, recipe in offered.refused:
        refused[name].append(recipe)
    alike: dict[tuple[object, ...], list[CommOp]] = defaultdict(list)
    for op in offered.workload.collectives():
        key = (*options[op.id],), (*refused[op.id],)
        alike[op.collective, len(op.group), op.size_bytes, key].append(op)
    for ops in alike.values():
        first = ops[0]
        yield OptionGroup(
            collective=first.collective,
            group_ranks=len(first.group),
            bytes=first.size_bytes,
            names=tuple(op.id for op in ops),
            options=tuple(options[first.id]),
            refused=tuple(refused[first.id]),
        )
