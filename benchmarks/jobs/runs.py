"""Runs of jobs one after the other, in processes that have loaded torch: ``runs.py FILE``.

The file is a list of runs: a job's name, its arguments, and what is set in its environment.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Run all, each with a store of its own."""
    first = int(os.environ["MASTER_PORT"])
    for number, run in enumerate(json.loads(Path(sys.argv[1]).read_text())):
        os.environ |= {"MASTER_PORT": str(first + number), **run["environment"]}
        sys.argv[1:] = run["words"]
        import_module(f"benchmarks.jobs.{run['job']}").main()


if __name__ == "__main__":
    main()
