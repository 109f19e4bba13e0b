"""The synthesis problem as a solver-free constraint model, and the way back to an algorithm."""

from sccl.encode.round_vectors import round_vectors
from sccl.encode.time_indexed import MAX_TRANSFERS, Capacity, Model, Transfer, decode, encode, size

__all__ = [
    "MAX_TRANSFERS",
    "Capacity",
    "Model",
    "Transfer",
    "decode",
    "encode",
    "round_vectors",
    "size",
]
