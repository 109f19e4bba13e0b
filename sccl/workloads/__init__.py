"""Workloads of training jobs: from traces of others."""

from sccl.workloads.importing import ReadWorkload, TraceHints, read_workload
from sccl.workloads.readers import names as format_names
from sccl.workloads.unpacking import contents

__all__ = ["ReadWorkload", "TraceHints", "contents", "format_names", "read_workload"]
