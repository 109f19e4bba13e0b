"""Parameters of small jobs whose workloads can be computed by hand."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {"layers": 2, "hidden": 8, "heads": 2, "sequence": 4, "batch": 1}
"""b s = 4, b s h = 32 and 12 h^2 = 768. A microsecond is 10^6 operations at 1 TFLOPS."""
FAST: dict[str, Any] = {"tflops": 1e-6, "efficiency": 1.0, "memory_gb_per_s": 1e-3}
"""An operation, or a byte, a microsecond."""


TABLES: dict[str, Any] = {
    "ranks": 2,
    "batch": 4,
    "tables": 6,
    "dimension": 8,
    "pooling": 3,
    "interaction_mflops": 1.0,
    "bottom": (4, 8),
    "top": (8, 4, 1),
}
