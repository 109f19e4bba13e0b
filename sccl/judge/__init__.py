"""The judge: re-executes plans from nothing but their topology and collective."""

from sccl.judge.plans import require_valid, violations
from sccl.judge.steps import describe
from sccl.judge.violation import Violation

__all__ = ["Violation", "describe", "require_valid", "violations"]
