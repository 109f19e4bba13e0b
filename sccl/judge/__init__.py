"""Verify plans by re-execution, from their topology and collective alone."""

from sccl.judge.plans import require_valid, violations
from sccl.judge.steps import describe_send
from sccl.judge.violation import Violation

__all__ = ["Violation", "describe_send", "require_valid", "violations"]
