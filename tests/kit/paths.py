"""Paths of the project, of the tests' data, and of samples next to the project."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
PROGRAMS = ROOT / "tests" / "programs"
PUBLISHED = ROOT / "benchmarks" / "certificates"
SHARED = ROOT.parent / "shared"
