"""Verify offered options by deriving them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sccl.core.training_plan import OfferedOptions, Option
from sccl.train.costs import MotifPlanner
from sccl.train.options import OptionSettings, options_of
from sccl.train.recosting import recosted
from sccl.train.tables import CostTable


def wrong_in_offered(
    offered: OfferedOptions,
    planner: MotifPlanner | None = None,
    measured: CostTable | None = None,
) -> Iterator[tuple[str, str]]:
    """Yield differences to options that are derived again: kind and sentence.

    If their table of costs is not given, its times are trusted.

    Args:
        planner: Planner of motifs, if one was used.
        measured: Table of costs that they name, if they do.

    Raises:
        InputError: No options can be derived.
    """
    if measured is not None and measured.digest != offered.costs:
        told = f"a table of costs with the digest {offered.costs}" if offered.costs else "no table"
        yield "cost", f"times are of {told}, and {measured.where} has {measured.digest}"
        return
    if offered.costs and measured is None:
        channels = {channel.name for channel in offered.fabric.channels}
        for name, option in offered.options:
            if strange := {motif.channel for motif in option.motifs} - channels:
                told = f"operation {name!r:.60} takes channel {min(strange)!r:.60}"
                yield "option", f"{told}, which the fabric does not have"
                return
        yield from recosted(offered, planner).wrong
        return
    asked = OptionSettings(
        max_motifs=offered.max_motifs, bitwise=offered.bitwise, planner=planner, measured=measured
    )
    anew = options_of(offered.workload, offered.fabric, asked)
    own: dict[str, list[Option]] = defaultdict(list)
    for name, option in offered.options:
        own[name].append(option)
    for name, options in anew.of.items():
        if wrong := _other(own[name], options):
            yield "option", f"operation {name!r:.60}: {wrong}"
        elif tuple(one for whose, one in offered.refused if whose == name) != anew.refused[name]:
            yield (
                "recipe",
                f"operation {name!r:.60}: other recipes are refused, or for other causes",
            )


def _other(told: Sequence[Option], offered: Sequence[Option]) -> str:
    """Return the first difference between given and derived options."""
    for number, (one, other) in enumerate(zip(told, offered, strict=False)):
        if one != other:
            return (
                f"option {number} is {other.recipe} of {len(other.motifs)} motifs and {other.ns} "
                f"ns, given is {one.recipe} of {len(one.motifs)} and {one.ns}, or with other loads"
            )
    if len(told) == len(offered):
        return ""
    return f"it has {len(offered)} options, and {len(told)} are given"
