"""Patterns, their construction, and their conversion to plans for a machine."""

from sccl.synth.baselines.pattern.combine import (
    Maker,
    backwards,
    beside,
    chained,
    cut,
    pipelined,
    there_and_back,
    together,
    turned,
)
from sccl.synth.baselines.pattern.groups import grouped
from sccl.synth.baselines.pattern.noun import Pattern, pattern_of
from sccl.synth.baselines.pattern.place import is_direct, judged, logical, on_machine, scheduled

__all__ = [
    "Maker",
    "Pattern",
    "backwards",
    "beside",
    "chained",
    "cut",
    "grouped",
    "is_direct",
    "judged",
    "logical",
    "on_machine",
    "pattern_of",
    "pipelined",
    "scheduled",
    "there_and_back",
    "together",
    "turned",
]
