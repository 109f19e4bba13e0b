"""Commit plans to a running job, one at a time: ``committing.py STORE HOW_MANY FILE..``.

A plan is proposed after the job reports iterations under the previous one. The files alternate.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

from sccl.torch_backend.control.feedback import FeedbackReader
from sccl.torch_backend.control.job_stores import connect_store
from sccl.torch_backend.jobs.controller import (
    POLL_S,
    Controller,
    ControlSettings,
    encode_plan,
    load_plan_to_commit,
    wait_for_decision,
)


def main() -> None:
    """Commit the plans."""
    store, count, *files = sys.argv[1:]
    plans = [encode_plan(load_plan_to_commit(Path(file))[0]) for file in files]
    settings = ControlSettings(60.0)
    with Controller(
        connect_store(store), settings, time.monotonic, None, lambda _: None
    ) as controller:
        reader = FeedbackReader(controller.ledger)
        for plan in itertools.islice(itertools.cycle(plans), int(count)):
            version = controller.propose(plan)
            if not wait_for_decision(controller, version).committed:
                raise SystemExit(f"plan {version} was aborted")
            while all(entry.version != version for entry in reader.read()):
                time.sleep(POLL_S)


if __name__ == "__main__":
    main()
