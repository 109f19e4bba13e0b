"""Lower bounds on steps and on R/C, each with a certificate that anyone can re-check."""

from sccl.prove.bounds.allreduce import AnyBounds, any_bounds, any_bounds_json
from sccl.prove.bounds.bandwidth import bandwidth_bound
from sccl.prove.bounds.certificate import Certificate, Cut, check_certificate
from sccl.prove.bounds.lower import LowerBounds, bounds_json, lower_bounds
from sccl.prove.bounds.steps import FarthestPair, farthest_pair, require_reachable

__all__ = [
    "AnyBounds",
    "Certificate",
    "Cut",
    "FarthestPair",
    "LowerBounds",
    "any_bounds",
    "any_bounds_json",
    "bandwidth_bound",
    "bounds_json",
    "check_certificate",
    "farthest_pair",
    "lower_bounds",
    "require_reachable",
]
