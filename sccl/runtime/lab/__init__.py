"""The lab: ranks on one machine behind networks of known rates, one for every channel."""

from sccl.runtime.lab.bucket import TokenBucket, bucket_rates
from sccl.runtime.lab.channels import LabChannel, channels_of, environment_of
from sccl.runtime.lab.run import Heard, Lab, LabEnd, LabWays, Limiter, check_lab, run_lab, ways_of

__all__ = [
    "Heard",
    "Lab",
    "LabChannel",
    "LabEnd",
    "LabWays",
    "Limiter",
    "TokenBucket",
    "bucket_rates",
    "channels_of",
    "check_lab",
    "environment_of",
    "run_lab",
    "ways_of",
]
