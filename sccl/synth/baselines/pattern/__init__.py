"""Patterns, their construction, and their conversion to plans for a machine."""

from sccl.synth.baselines.pattern.composition import (
    PatternMaker,
    concatenate_patterns,
    invert_pattern,
    overlay_patterns,
    pipeline_chunks,
    run_in_parallel,
    split_chunks,
    with_inverses,
)
from sccl.synth.baselines.pattern.pattern_conversion import (
    is_direct,
    to_algorithm,
    to_logical_algorithm,
    to_schedule,
    verify_pattern,
)
from sccl.synth.baselines.pattern.process_groups import pattern_in_groups
from sccl.synth.baselines.pattern.send_pattern import Pattern, build_pattern

__all__ = [
    "Pattern",
    "PatternMaker",
    "build_pattern",
    "concatenate_patterns",
    "invert_pattern",
    "is_direct",
    "overlay_patterns",
    "pattern_in_groups",
    "pipeline_chunks",
    "run_in_parallel",
    "split_chunks",
    "to_algorithm",
    "to_logical_algorithm",
    "to_schedule",
    "verify_pattern",
    "with_inverses",
]
