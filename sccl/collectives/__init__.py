"""Collectives: by name, from files, in process groups, concurrent; their counts and duals."""

from sccl.collectives.duals import Dual, DualPhase, dual_of, embedded_broadcast, is_allreduce
from sccl.collectives.groups import format_in_groups, group_specs, remove_rank, resolve_collective
from sccl.collectives.names import (
    Spec,
    collective_names,
    custom_spec,
    misnaming_reason,
    named_spec,
    recover_spec,
)

__all__ = [
    "Dual",
    "DualPhase",
    "Spec",
    "collective_names",
    "custom_spec",
    "dual_of",
    "embedded_broadcast",
    "format_in_groups",
    "group_specs",
    "is_allreduce",
    "misnaming_reason",
    "named_spec",
    "recover_spec",
    "remove_rank",
    "resolve_collective",
]
