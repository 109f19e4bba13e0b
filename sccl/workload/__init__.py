"""Workloads of training jobs: from traces of others."""

from sccl.workload.importing import ReadWorkload, TraceHints, read_workload
from sccl.workload.unpacking import contents

__all__ = ["ReadWorkload", "TraceHints", "contents", "read_workload"]
