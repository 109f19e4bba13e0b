"""Workloads of training jobs: from traces of others."""

from sccl.workload.importing import ReadWorkload, TraceHints, read_workload
from sccl.workload.readers import names as format_names
from sccl.workload.unpacking import contents

__all__ = ["ReadWorkload", "TraceHints", "contents", "format_names", "read_workload"]
