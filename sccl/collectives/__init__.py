"""Collectives by name, from files, in groups and together. Their chunk counts and duals."""

from sccl.collectives.counted import COUNTED, wire_of_counts
from sccl.collectives.duality import Dual, Phase, broadcast_in, dual_of, is_allreduce
from sccl.collectives.spec import Spec, custom, misnamed, named, names, spec_of_collective
from sccl.collectives.together import in_each_group, in_groups, resolve, without_rank

__all__ = [
    "COUNTED",
    "Dual",
    "Phase",
    "Spec",
    "broadcast_in",
    "custom",
    "dual_of",
    "in_each_group",
    "in_groups",
    "is_allreduce",
    "misnamed",
    "named",
    "names",
    "resolve",
    "spec_of_collective",
    "wire_of_counts",
    "without_rank",
]
