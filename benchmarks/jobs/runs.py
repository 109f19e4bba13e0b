"""Run jobs in sequence, in processes that have torch loaded: ``runs.py FILE``.

The file is a list of runs. Each has the name of a job, its arguments, and its environment
variables.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Run all jobs, each with its own store."""
    first = int(os.environ["MASTER_PORT"])
    for number, run in enumerate(json.loads(Path(sys.argv[1]).read_text())):
        os.environ |= {"MASTER_PORT": str(first + number), **run["environment"]}
        sys.argv[1:] = run["words"]
        import_module(f"benchmarks.jobs.{run['job']}").main()


if __name__ == "__main__":
    main()
