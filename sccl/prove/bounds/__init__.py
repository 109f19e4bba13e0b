"""Lower bounds on steps and on R/C, each with a proof that anyone can re-check."""

from sccl.prove.bounds.allreduce import any_bounds
from sccl.prove.bounds.bandwidth import bandwidth_bound
from sccl.prove.bounds.least_time import Crossing, LeastTime, Sides, least_time
from sccl.prove.bounds.lower import lower_bounds
from sccl.prove.bounds.proof import BandwidthProof, check_proof
from sccl.prove.bounds.steps import FarthestPair, farthest_pair, require_reachable

__all__ = [
    "BandwidthProof",
    "Crossing",
    "FarthestPair",
    "LeastTime",
    "Sides",
    "any_bounds",
    "bandwidth_bound",
    "check_proof",
    "farthest_pair",
    "least_time",
    "lower_bounds",
    "require_reachable",
]
