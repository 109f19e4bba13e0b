"""Runs the code that it is given as its one word, as a program that torchrun starts."""

from __future__ import annotations

import sys

exec(sys.argv[1])  # noqa: S102 - code of tests
