"""The judge: re-executes algorithms from nothing but their topology and collective."""

from sccl.judge.algorithms import require_valid, violations
from sccl.judge.steps import Violation, describe

__all__ = ["Violation", "describe", "require_valid", "violations"]
