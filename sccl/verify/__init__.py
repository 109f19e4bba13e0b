"""The judge: re-executes algorithms from nothing but their topology and collective."""

from sccl.verify.judge import Violation, describe, require_valid, violations

__all__ = ["Violation", "describe", "require_valid", "violations"]
