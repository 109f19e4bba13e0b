"""The judge: re-executes plans from nothing but their topology and collective."""

from sccl.judge.plans import require_valid, violations
from sccl.judge.steps import describe_send
from sccl.judge.violation import Violation

__all__ = ["Violation", "describe_send", "require_valid", "violations"]
