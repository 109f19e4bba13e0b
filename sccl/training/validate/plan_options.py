"""Verify offered options by deriving them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sccl.core.training_plan import OfferedOptions, Option
from sccl.training.options.measured_costs import CostTable
from sccl.training.options.motif_costs import MotifPlanner
from sccl.training.options.option_catalog import find_options
from sccl.training.options.option_enumeration import OptionSettings
from sccl.training.validate.plan_costs import recompute_costs


def find_option_faults(
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
        text = f"a table of costs with the digest {offered.costs}" if offered.costs else "no table"
        yield "cost", f"times come from {text}, and {measured.source} has {measured.digest}"
        return
    if offered.costs and measured is None:
        channels = {channel.name for channel in offered.fabric.channels}
        for name, option in offered.options:
            if unknown_channels := {motif.channel for motif in option.motifs} - channels:
                text = f"operation {name!r:.60} takes channel {min(unknown_channels)!r:.60}"
                yield "option", f"{text}, which the fabric does not have"
                return
        yield from recompute_costs(offered, planner).faults
        return
    asked = OptionSettings(
        max_motifs=offered.max_motifs, bitwise=offered.bitwise, planner=planner, measured=measured
    )
    anew = find_options(offered.workload, offered.fabric, asked)
    told_options: dict[str, list[Option]] = defaultdict(list)
    for name, option in offered.options:
        told_options[name].append(option)
    for name, options in anew.by_collective.items():
        if wrong := _describe_difference(told_options[name], options):
            yield "option", f"operation {name!r:.60}: {wrong}"
        elif tuple(item for owner, item in offered.refused if owner == name) != anew.refused[name]:
            yield (
                "recipe",
                f"operation {name!r:.60}: other recipes are refused, or for other causes",
            )


def _describe_difference(told_options: Sequence[Option], offered: Sequence[Option]) -> str:
    """Return the first difference between given and derived options."""
    for number, (old, new) in enumerate(zip(told_options, offered, strict=False)):
        if old != new:
            return (
                f"option {number} is {new.recipe} of {len(new.motifs)} motifs and {new.ns} "
                f"ns, given is {old.recipe} of {len(old.motifs)} and {old.ns}, or with other loads"
            )
    if len(told_options) == len(offered):
        return ""
    return f"it has {len(offered)} options, and {len(told_options)} are given"
