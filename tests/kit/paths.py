"""Where things lie: the project, what tests keep, and what lies beside the project."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
PROGRAMS = ROOT / "tests" / "programs"
PUBLISHED = ROOT / "benchmarks" / "certificates"
SHARED = ROOT.parent / "shared"
