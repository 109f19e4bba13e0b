"""The judge: re-executes algorithms from nothing but their topology and collective."""

from sccl.verify.judge import Violation, require_valid, violations

__all__ = ["Violation", "require_valid", "violations"]
