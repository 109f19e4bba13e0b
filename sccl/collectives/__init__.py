"""Collectives by name, from files, in groups and together; their chunk counts and duals."""

from sccl.collectives.counted import COUNTED, wire_of_counts
from sccl.collectives.duality import Dual, Phase, check_no_groups, dual_of, is_allreduce
from sccl.collectives.spec import Spec, custom, misnamed, named, names
from sccl.collectives.together import resolve

__all__ = [
    "COUNTED",
    "Dual",
    "Phase",
    "Spec",
    "check_no_groups",
    "custom",
    "dual_of",
    "is_allreduce",
    "misnamed",
    "named",
    "names",
    "resolve",
    "wire_of_counts",
]
