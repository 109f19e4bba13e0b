"""Options that a fabric offers for a workload: found, written, and told by kinds of collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.fabric import Fabric
from sccl.core.files.disk import write_atomically
from sccl.core.files.kinds import OPTION
from sccl.core.files.offered_options import load_offered_options, offered_options_to_wire
from sccl.core.files.text import digest, text_of
from sccl.core.training_plan import OfferedOptions, Option, RefusedRecipe
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp
from sccl.tasks.files import Unread, held_files, skipping
from sccl.tasks.planning import Told
from sccl.tasks.training_files import naming
from sccl.topo import resolve

if TYPE_CHECKING:
    from sccl.train.planner import PlanSettings
    from sccl.train.tables import CostTable
    from sccl.train.verdict import PlanFault


@dataclass(frozen=True, slots=True)
class LoadedOptions:
    """Options, and the file that they are from."""

    file: Path
    offered: OfferedOptions


@dataclass(frozen=True, slots=True)
class OfferedKind:
    """Equal collectives, and their offered options.

    Attributes:
        names: Their ids.
    """

    collective: str
    group_ranks: int
    bytes: int
    names: tuple[str, ...]
    options: tuple[Option, ...]
    refused: tuple[RefusedRecipe, ...]


def option_files(
    words: Iterable[str | Path], unread: Unread | None = None
) -> tuple[list[LoadedOptions], list[str | Path]]:
    """Return the options that are named, and the words that name anything else.

    Args:
        unread: takes the files that cannot be read. None: they are refused.

    Raises:
        InputError: a file says that it holds some and holds none, or was edited.
    """
    held, rest = held_files(words, frozenset({OPTION}))
    loaded = []
    for path in held:
        with skipping(path, unread):
            loaded.append(LoadedOptions(path, load_offered_options(path, resolve)))
    return loaded, rest


def offer_options(
    workload: Workload,
    fabric: Fabric,
    settings: PlanSettings,
    told: Told = lambda *_: None,
    first: Callable[[], None] = lambda: None,
) -> OfferedOptions:
    """Return a fabric's options for the collectives of a workload, as offered to a plan.

    Args:
        told: Function that receives progress. It has no period and no bound.
        first: Function that is called before a compilation without a cache.

    Raises:
        InputError: A group is outside the fabric, or a collective has no option, with the reason.
    """
    from sccl.compiled import compiling  # noqa: PLC0415 - loads Numba
    from sccl.train.options import options_of  # noqa: PLC0415 - likewise

    with compiling(first):
        found = options_of(workload, fabric, settings.offering, lambda what: told(what, None, None))
    return OfferedOptions(
        workload=workload,
        fabric=fabric,
        options=tuple((name, option) for name, own in found.of.items() for option in own),
        refused=tuple((name, one) for name, own in found.refused.items() for one in own),
        seed=settings.seed,
        costs=settings.costs,
        max_motifs=settings.max_motifs,
        bitwise=settings.bitwise,
        planned_by=settings.planned_by,
    )


def write_options(path: Path, offered: OfferedOptions) -> None:
    """Write the file of options, whole or not at all.

    Raises:
        InputError: it cannot be written.
    """
    write_atomically(path, text_of(offered_options_to_wire(offered)))


def faults_of_options(one: LoadedOptions, costs: CostTable | None) -> tuple[PlanFault, ...]:
    """Return the violations of options. They are derived again for this.

    Args:
        costs: Table of costs of the options. None: it is not given.

    Raises:
        InputError: They name an unknown synthesizer, or none can be derived.
    """
    from sccl.tasks.motif_planning import motif_planner  # noqa: PLC0415 - loads NumPy and Numba
    from sccl.train.reoffering import wrong_in_offered  # noqa: PLC0415
    from sccl.train.verdict import PlanFault  # noqa: PLC0415

    offered = one.offered
    by = motif_planner(offered.planned_by, offered.seed) if offered.planned_by else None
    with naming(one.file):
        return tuple(PlanFault(*wrong) for wrong in wrong_in_offered(offered, by, costs))


def option_digests(several: Iterable[LoadedOptions]) -> dict[str, str]:
    """Return the digests of options, by file."""
    return {str(one.file): digest(offered_options_to_wire(one.offered)) for one in several}


def offered_kinds(offered: OfferedOptions) -> Iterator[OfferedKind]:
    """Yield the offered options, once for equal collectives."""
    options: dict[str, list[Option]] = defaultdict(list)
    refused: dict[str, list[RefusedRecipe]] = defaultdict(list)
    for name, option in offered.options:
        options[name].append(option)
    for name, recipe in offered.refused:
        refused[name].append(recipe)
    alike: dict[tuple[object, ...], list[CommOp]] = defaultdict(list)
    for op in offered.workload.collectives():
        own = (*options[op.id],), (*refused[op.id],)
        alike[op.collective, len(op.group), op.size_bytes, own].append(op)
    for ops in alike.values():
        one = ops[0]
        yield OfferedKind(
            collective=one.collective,
            group_ranks=len(one.group),
            bytes=one.size_bytes,
            names=tuple(op.id for op in ops),
            options=tuple(options[one.id]),
            refused=tuple(refused[one.id]),
        )
