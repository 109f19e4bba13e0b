"""The limit of R/C for a number of steps, over all k and all C, with certificates."""

from sccl.synth.limit.certificate import LimitCertificate, certificate
from sccl.synth.limit.multiply import multiply_out, round_off
from sccl.synth.limit.palindrome import palindrome
from sccl.synth.limit.pricing import needs_no_search
from sccl.synth.limit.problem import Problem, pose, pose_allreduce
from sccl.synth.limit.solve import Limit, solve

__all__ = [
    "Limit",
    "LimitCertificate",
    "Problem",
    "certificate",
    "multiply_out",
    "needs_no_search",
    "palindrome",
    "pose",
    "pose_allreduce",
    "round_off",
    "solve",
]
