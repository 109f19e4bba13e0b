"""Commits plans to a running job, one after the other: ``committing.py STORE HOW_MANY FILE..``.

Each is proposed when the job has told of iterations under the one before; files take turns.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

from sccl.enforce.control import FeedbackReader, connect
from sccl.tasks.controlling import Controller, ControlSettings, content_of
from sccl.tasks.optimizer import EVERY_S, decided, plan_to_commit


def main() -> None:
    """Commit them."""
    store, many, *files = sys.argv[1:]
    plans = [content_of(plan_to_commit(Path(file))[0]) for file in files]
    settings = ControlSettings(60.0)
    with Controller(connect(store), settings, time.monotonic, None, lambda _: None) as controller:
        reader = FeedbackReader(controller.ledger)
        for plan in itertools.islice(itertools.cycle(plans), int(many)):
            version = controller.propose(plan)
            if not decided(controller, version).committed:
                raise SystemExit(f"plan {version} was aborted")
            while all(one.version != version for one in reader.read()):
                time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
