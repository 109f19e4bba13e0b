"""Options that a fabric offers for a workload, as files and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from sccl.core.files.disk import read_text
from sccl.core.files.fabrics import TopologyResolver, fabric_from_wire, fabric_to_wire
from sccl.core.files.json_text import parse
from sccl.core.files.training_plan_shapes import (
    OfferedOptionsWire,
    OfferedOpWire,
    RefusedRecipeWire,
)
from sccl.core.files.training_plans import option_from_wire, option_to_wire
from sccl.core.files.workloads import workload_from_wire, workload_to_wire
from sccl.core.training_plan import OfferedOptions, RefusedRecipe
from sccl.errors import FormatError

T = TypeVar("T", bound=Hashable)


def load_offered_options(path: Path, named: TopologyResolver) -> OfferedOptions:
    """Return the offered options in a file.

    Args:
        named: function from a name to a machine, for channels given by name.

    Raises:
        InputError: the file cannot be read, contains no such options, was edited, or refers to
            missing parts.
    """
    where = str(path)
    wire = parse(read_text(path), OfferedOptionsWire, where)
    workload = workload_from_wire(wire.workload, where)
    wanted = [op.id for op in workload.collectives()]
    if [row.op for row in wire.ops] != wanted:
        raise FormatError(
            f"{where}: its ops are other than the {len(wanted)} collectives of its workload, or in "
            "another order"
        )
    options = [option_from_wire(row, f"{where}, option {k}") for k, row in enumerate(wire.options)]
    refused = [RefusedRecipe(row.recipe, row.why) for row in wire.refused]
    return OfferedOptions(
        workload=workload,
        fabric=fabric_from_wire(wire.fabric, where, named),
        options=tuple(
            (row.op, option)
            for row in wire.ops
            for option in _select_rows(options, row.options, f"{where}, {row.op!r:.60}: option")
        ),
        refused=tuple(
            (row.op, recipe)
            for row in wire.ops
            for recipe in _select_rows(
                refused, row.refused, f"{where}, {row.op!r:.60}: refused recipe"
            )
        ),
        seed=wire.seed,
        costs=wire.costs,
        max_motifs=wire.max_motifs,
        bitwise=wire.bitwise,
        planned_by=wire.planned_by,
    )


def _select_rows(rows: Sequence[T], numbers: Iterable[int], label: str) -> list[T]:
    indices = list(numbers)
    if invalid := [k for k in indices if k >= len(rows)]:
        raise FormatError(f"{label} is {invalid[0]}, and there are {len(rows)}, counted from 0")
    return [rows[k] for k in indices]


def offered_options_to_wire(offered: OfferedOptions) -> OfferedOptionsWire:
    """Return the file shape of offered options; equal options are written once."""
    options = {option: k for k, option in enumerate(dict.fromkeys(o for _, o in offered.options))}
    refused = {refusal: k for k, refusal in enumerate(dict.fromkeys(r for _, r in offered.refused))}
    numbers_by_op: dict[str, tuple[list[int], list[int]]] = {
        op.id: ([], []) for op in offered.workload.collectives()
    }
    for name, option in offered.options:
        numbers_by_op[name][0].append(options[option])
    for name, refusal in offered.refused:
        numbers_by_op[name][1].append(refused[refusal])
    return OfferedOptionsWire(
        seed=offered.seed,
        costs=offered.costs,
        max_motifs=offered.max_motifs,
        bitwise=offered.bitwise,
        planned_by=offered.planned_by,
        options=tuple(map(option_to_wire, options)),
        refused=tuple(
            RefusedRecipeWire(recipe=refusal.recipe, why=refusal.why) for refusal in refused
        ),
        ops=tuple(
            OfferedOpWire(op=name, options=tuple(rows), refused=tuple(not_taken))
            for name, (rows, not_taken) in numbers_by_op.items()
        ),
        workload=workload_to_wire(offered.workload),
        fabric=fabric_to_wire(offered.fabric),
    )
