"""Apply a recipe to a collective, and format the motifs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from sccl.core.files.json_text import digest
from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import NonNegative, Part
from sccl.core.sizes import parse_size
from sccl.errors import ParameterError

if TYPE_CHECKING:
    from sccl.training.motifs import Recipe
    from sccl.training.types.motif import Motif

MAX_RANKS = 4096


class MotifPart(Part, frozen=True, kw_only=True):
    """A motif: a part of a collective that is issued as one."""

    number: NonNegative
    collective: str
    groups: Annotated[int, Meta(ge=1), "Number of groups that run it at the same time."]
    ranks: Annotated[int, Meta(ge=2), "Size of the largest group."]
    group_ranks: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], "Size of each group."]
    bytes: Annotated[
        int,
        Meta(ge=1),
        "Number of distinct elements that it moves: for an alltoall, the elements sent to other "
        "ranks; for an allreduce, the summed elements.",
    ]
    rank_bytes: Annotated[
        int,
        Meta(ge=1),
        "Bytes of a rank's largest buffer, counted as size_bytes: the whole buffer for allreduce, "
        "broadcast, and reduce; the output for allgather; the input for reducescatter and "
        "alltoall, including a rank's part for itself; the root's buffer for gather and scatter.",
    ]
    after: Annotated[tuple[NonNegative, ...], "Motifs that must end before it starts."]
    channel: Annotated[str, "Channel that it must use; empty: any."] = ""


class MotifOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train motif'."""

    kind: Literal["motif"] = "motif"
    digest: Annotated[str, "sha256 of the following fields: the collective and its motifs."] = ""
    collective: str
    ranks: Annotated[int, Meta(ge=2)]
    item_bytes: Annotated[int, Meta(ge=1), "Size of an element, in bytes."]
    root: Annotated[int | None, "Null: the first rank, if the collective has a root."]
    size_bytes: Annotated[int, Meta(ge=1), "Size of a rank's largest buffer."]
    merged: Annotated[tuple[int, ...], "Size of each collective that is merged."] = ()
    recipe: str
    motifs: tuple[MotifPart, ...]


def motif_output(  # noqa: PLR0913 - independent inputs
    collective: str, recipe: str, ranks: int, *, size: str, item_bytes: int, root: int | None
) -> MotifOutput:
    """Return the motifs of a recipe for a collective of ranks 0 to P - 1.

    Args:
        collective: Name of the collective.
        recipe: Recipe.
        ranks: P.
        size: Size of a rank's largest buffer, with or without a unit. Several sizes, separated by
            commas, are several collectives, which the recipe merges.
        item_bytes: Bytes of an element.
        root: Root rank. None: the first rank, if the collective has a root.

    Raises:
        InputError: There is no such collective or recipe, or the recipe does not apply.
    """
    from sccl.training.motifs import build_collective_motif, parse_recipe  # noqa: PLC0415 - it loads NumPy

    if not 2 <= ranks <= MAX_RANKS:
        raise ParameterError(f"ranks is {ranks}, expected 2 to {MAX_RANKS}")
    sizes, asked = tuple(map(parse_size, size.split(","))), parse_recipe(recipe)
    for size_bytes in sizes:
        if size_bytes % item_bytes:
            raise ParameterError(
                f"size is {size_bytes} bytes, expected a multiple of the {item_bytes} of an element"
            )
    each = [
        build_collective_motif(collective, range(ranks), buffer_bytes // item_bytes, root)
        for buffer_bytes in sizes
    ]
    made = MotifOutput(
        inputs={},
        collective=collective,
        ranks=ranks,
        item_bytes=item_bytes,
        root=root,
        size_bytes=sum(sizes),
        merged=sizes if len(sizes) > 1 else (),
        recipe=str(asked),
        motifs=_motif_parts(each[0] if len(each) == 1 else each, asked, item_bytes),
    )
    return msgspec.structs.replace(made, digest=digest(made))


def _motif_parts(
    motifs: Motif | list[Motif], recipe: Recipe, item_bytes: int
) -> tuple[MotifPart, ...]:
    from sccl.training.motifs import apply_recipe, buffer_elements, element_count  # noqa: PLC0415

    return tuple(
        build_output(
            MotifPart,
            motif,
            number=number,
            groups=len(motif.shares),
            ranks=motif.max_group_size,
            group_ranks=(len(share.group) for share in motif.shares),
            bytes=element_count(motif) * item_bytes,
            rank_bytes=buffer_elements(motif) * item_bytes,
        )
        for number, motif in enumerate(apply_recipe(motifs, recipe, item_bytes))
    )


def rule_rows(collective: str) -> list[tuple[str, str, str]]:
    """Return the notation, the result, and the source of each rule for a collective.

    Raises:
        UnknownNameError: There is no such collective.
    """
    from sccl.training.motifs import build_collective_motif, recipe_rules  # noqa: PLC0415

    build_collective_motif(collective, range(2), 2)
    return [
        (
            f"{rule.name}({rule.parameters})" if rule.parameters else rule.name,
            rule.description,
            rule.source,
        )
        for rule in recipe_rules()
        if collective in rule.collectives
    ] + [
        ("lanes(channel:weight, ..)", "parallel parts, each on one channel", "sccl"),
        ("merge", "first rule only: several collectives as one motif (the inverse of seg)", "sccl"),
    ]
