"""The lab: run ranks on one machine, connected by a rate-limited network for each channel."""

from benchmarks.lab.channels import (
    LabChannel,
    TokenBucket,
    bucket_rates,
    parse_channels,
    rank_environment,
)
from benchmarks.lab.launcher import (
    LabEnd,
    LabMethod,
    LabRun,
    Limiter,
    RankLine,
    check_lab,
    choose_method,
    run_lab,
)

__all__ = [
    "LabChannel",
    "LabEnd",
    "LabMethod",
    "LabRun",
    "Limiter",
    "RankLine",
    "TokenBucket",
    "bucket_rates",
    "check_lab",
    "choose_method",
    "parse_channels",
    "rank_environment",
    "run_lab",
]
