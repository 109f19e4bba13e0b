"""Run several solvers at once, each in its own process. The first answer counts.

No solver is the fastest everywhere (see ``solve_cpsat.py`` and ``solve_cadical.py``). As many run
as there are cores. The next one starts when one gives up or fails.

The race decides whose algorithm is returned. So this solver is the only one that does not return
the same algorithm on every run, and is used only if the user names it.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from sccl.core.answer import Answer, Sat, Unknown, Unsat, verdict
from sccl.core.files.algorithms import instance_to_wire
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.instance import Instance
from sccl.core.stop import StopKind, StopReason
from sccl.errors import SolverError, ToolError
from sccl.judge import violations
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.syncoll.solver_process import SolverChild

MEMBERS = ("cpsat", "cadical", "z3")
"""By how often they are the first, on the rows of SCCL's tables."""


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return the first definite answer of :data:`MEMBERS`. Its ``solver`` names the member.

    Raises:
        SolverError: Two solvers contradict each other (the instance is stored in a file), or all
            failed.
        ToolError: A process, or the thread that watches it, cannot be started.
    """
    spending = EffortMeter(effort)
    finished: queue.SimpleQueue[Answer | SolverError] = queue.SimpleQueue()
    waiting, children, broken = list(MEMBERS), ExitStack(), []
    with children:

        def start() -> None:
            """Start the next solver, and a thread that waits for its answer."""
            child = children.enter_context(SolverChild(waiting.pop(0), instance, effort))
            try:
                threading.Thread(
                    target=_wait_for_answer, args=(child, finished), daemon=True
                ).start()
            except RuntimeError as error:
                raise ToolError(f"cannot watch the process of {child.name} ({error})") from error

        running = 0
        while waiting or running:
            while waiting and running < available_cores():
                start()
                running += 1
            result = _next_finished(finished, spending)
            if result is None:
                return Unknown(effort.timeout_reason, "portfolio", spending.elapsed_seconds())
            running -= 1
            if isinstance(result, SolverError):
                broken.append(result)
            elif not isinstance(result, Unknown):
                _require_agreement(instance, [result, *_finished_answers(finished)])
                return result
    if len(broken) == len(MEMBERS):
        raise broken[0]
    reason = StopReason(StopKind.OTHER, "every solver gave up")
    return Unknown(reason, "portfolio", spending.elapsed_seconds())


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _wait_for_answer(child: SolverChild, finished: queue.SimpleQueue[Answer | SolverError]) -> None:
    try:
        finished.put(child.answer())
    except SolverError as error:
        finished.put(error)
    except Exception as error:  # noqa: BLE001 - the main thread must get it; ValueError: pipes
        # that were closed with the context
        finished.put(SolverError(f"{child.name} broke: {type(error).__name__}: {error}"))


def _next_finished(
    finished: queue.SimpleQueue[Answer | SolverError], spending: EffortMeter
) -> Answer | SolverError | None:
    """Return the next result. None: the time limit has passed. It can be interrupted."""
    while not spending.deadline_passed():
        try:
            return finished.get(timeout=0.2)
        except queue.Empty:
            continue
    return None


def _finished_answers(finished: queue.SimpleQueue[Answer | SolverError]) -> Iterator[Answer]:
    """Yield the further results that have arrived."""
    while not finished.empty():
        result = finished.get()
        if not isinstance(result, SolverError):
            yield result


def _require_agreement(instance: Instance, answers: list[Answer]) -> None:
    """Save the instance and raise an error if one solver refutes it and another solves it."""
    sat = [a for a in answers if isinstance(a, Sat) and not violations(a.algorithm)]
    unsat = [a for a in answers if isinstance(a, Unsat)]
    if sat and unsat:
        wire = instance_to_wire(instance)
        name = hashlib.sha256(msgspec.json.encode(wire)).hexdigest()[:12]
        path = Path(f"sccl-disagreement-{name}.json")
        write_atomically(path, to_text(wire))
        raise SolverError(
            f"{sat[0].solver} answers {verdict(sat[0])} and {unsat[0].solver} answers "
            f"{verdict(unsat[0])} for the same instance, stored in {path}: please report it"
        )
