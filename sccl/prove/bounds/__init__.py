"""Lower bounds on steps and on R/C, each with a proof that anyone can re-check."""

from sccl.prove.bounds.any_class import any_class_bounds
from sccl.prove.bounds.bandwidth import bandwidth_bound
from sccl.prove.bounds.bandwidth_proof import BandwidthProof, check_proof
from sccl.prove.bounds.collective_bounds import lower_bounds
from sccl.prove.bounds.latency import FarthestPair, farthest_pair, require_reachable
from sccl.prove.bounds.time_cuts import (
    CompletionTimeBound,
    CutSides,
    PriceLine,
    TimeCut,
    completion_time_bound,
)

__all__ = [
    "BandwidthProof",
    "CompletionTimeBound",
    "CutSides",
    "FarthestPair",
    "PriceLine",
    "TimeCut",
    "any_class_bounds",
    "bandwidth_bound",
    "check_proof",
    "completion_time_bound",
    "farthest_pair",
    "lower_bounds",
    "require_reachable",
]
