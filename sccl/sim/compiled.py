"""The compiler's old place."""

from sccl.compiled import compiled

__all__ = ["compiled"]
