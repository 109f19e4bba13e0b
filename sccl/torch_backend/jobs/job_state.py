"""Report the state of a running job, and commit plans to it (``sccl train control``)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import Count, Part
from sccl.core.training_plan import TrainingPlan
from sccl.errors import InputError
from sccl.torch_backend.control import Decision, DecisionError, FeedbackReader, Ledger
from sccl.torch_backend.jobs.controller import Controller
from sccl.training.plan_files import load_training_files, training_digests, training_faults

POLL_S = 0.2
"""From a look to the next."""


class ProposedPart(Part, frozen=True, kw_only=True):
    """A plan that was proposed to a job."""

    version: Count
    decision: Literal["commit", "abort", "open"]
    yes: Annotated[int, Meta(ge=0, description="Ranks that can run it.")]
    no: Annotated[int, Meta(ge=0, description="Ranks that cannot.")]
    why: Annotated[str, Meta(description="Reason of the first rank that cannot run it; or empty.")]


class MeasuredIterationPart(Part, frozen=True, kw_only=True):
    """The last iteration of which all ranks have told."""

    iteration: Count
    version: Annotated[int, Meta(ge=0, description="Version of the active plan; 0: none.")]
    period_us: float
    waited: Annotated[float, Meta(ge=0, description="Fraction of the time that a rank waited.")]


class OptimizerOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl train control'."""

    kind: Literal["optimizer"] = "optimizer"
    run: str
    generation: Annotated[int, Meta(description="Generation of the job, counted by restarts.")]
    ranks: Count
    committed: Annotated[
        bool | None,
        Meta(description="Whether the plan of --commit was committed; null: none was given."),
    ] = None
    plans: tuple[ProposedPart, ...]
    last: Annotated[MeasuredIterationPart | None, Meta(description="Null: none was reported.")] = (
        None
    )


def optimizer_output(
    ledger: Ledger,
    decision: Decision | None = None,
    inputs: dict[str, str] | None = None,
    key: bytes | None = None,
) -> OptimizerOutput:
    """Return how a job stands with its plans.

    Args:
        key: Key with which plans, votes, and decisions are signed.

    Raises:
        StoreError: its store cannot be reached.
    """
    seen = FeedbackReader(ledger).read()
    last = seen[-1] if seen else None
    versions = range(1, ledger.latest_version() + 1)
    return build_output(
        OptimizerOutput,
        ledger.job,
        inputs=inputs or {},
        ranks=ledger.ranks,
        committed=None if decision is None else decision.committed,
        plans=(_proposed_part(ledger, version, key) for version in versions),
        last=last,
    )


def _proposed_part(ledger: Ledger, version: int, key: bytes | None) -> ProposedPart:
    votes, why = ledger.votes(version, key), ""
    try:
        logged = ledger.logged_decision(version, key)
    except DecisionError as error:
        logged, why = None, str(error)
    against = [(rank, vote) for rank, vote in votes.items() if not vote.yes]
    if against and not why:
        why = f"rank {against[0][0]}: {against[0][1].why}"
    return ProposedPart(
        version=version,
        decision="open" if logged is None else "commit" if logged == b"commit" else "abort",
        yes=len(votes) - len(against),
        no=len(against),
        why=why,
    )


def load_plan_to_commit(file: Path) -> tuple[TrainingPlan, dict[str, str]]:
    """Return the plan of a file that the judge accepts, and its digest.

    Raises:
        InputError: there is none, or it fails verification.
    """
    plans, rest = load_training_files([file])
    if rest or not plans:
        raise InputError(f"{file} is not a training plan: create one with 'sccl train plan'")
    if faults := training_faults(plans[0]):
        raise InputError(
            f"{file}: this plan fails verification: {faults[0].message}; see all with 'sccl check "
            f"{file}'"
        )
    return plans[0].plan, training_digests(plans)


def wait_for_decision(controller: Controller, version: int) -> Decision:
    """Wait until a version is decided, and return how.

    Raises:
        StoreError: the job's store cannot be reached.
    """
    while True:
        for decision in controller.step():
            if decision.version == version:
                return decision
        logged = controller.ledger.logged_decision(version, controller.key)
        if logged is not None:  # another coordinator was first, and tells it
            return Decision(version, logged == b"commit")
        time.sleep(POLL_S)
