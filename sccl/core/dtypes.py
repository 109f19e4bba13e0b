"""Types of elements, and the bytes of each."""

from __future__ import annotations

ITEM_BYTES = {
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "bool": 1,
    "float8-e4m3": 1,
    "float8-e5m2": 1,
    "complex64": 8,
    "complex128": 16,
}
"""By name. Generated code takes those that it can add up, of which
:mod:`sccl.codegen.targets.rendering` has the names in C++. The others are met in traces of training
alone."""
