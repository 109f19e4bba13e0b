"""Import workloads of training jobs from traces."""

from sccl.training.traces.readers import names as format_names
from sccl.training.traces.trace_files import iterate_files
from sccl.training.traces.trace_import import ParsedWorkload, TraceHints, read_workload

__all__ = ["ParsedWorkload", "TraceHints", "format_names", "iterate_files", "read_workload"]
