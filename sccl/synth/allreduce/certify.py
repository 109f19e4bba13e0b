"""Write the claims of a frontier and their proofs into a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sccl.collectives import Spec, dual_of
from sccl.core.cost import format_bytes, format_us
from sccl.core.frontier import COMPOSED, TREES, Frontier, StepLimitFrontier, SweepFrontier
from sccl.core.outcome import Solution
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.synth.allreduce.pareto_search import sweep_equal_halves
from sccl.synth.common.problem import CollectiveProblem
from sccl.synth.common.settings import DEFAULT_TIMEOUT_S, Settings
from sccl.synth.limits import TOLERANCE
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits


@dataclass(frozen=True, slots=True)
class WrittenCertificate:
    """A certificate that was written.

    Attributes:
        file: File of its claims.
        scope: Families that it covers. Empty: all searched ones.
    """

    file: Path
    scope: str = ""


def require_certifiable(topology: Topology, spec: Spec, max_steps: int | None) -> None:
    """Check that a sweep will find something to certify, before any work is done.

    Raises:
        ParameterError: The certified compositions of allreduce take more steps than requested.
    """
    if dual_of(spec).phases == 1 or max_steps is None:
        return
    min_steps = lower_bounds(topology, spec).steps
    if max_steps < min_steps:
        raise ParameterError(
            f"max-steps is {max_steps}, but certificates for {spec.name} cover compositions of a "
            f"reducescatter and an allgather, which need at least {min_steps} steps here: give at "
            f"least {min_steps}, or leave --certify out"
        )


def certify_frontier(
    subject: CollectiveProblem,
    frontier: SweepFrontier,
    settings: Settings,
    folder: Path,
    notify: Callable[[str], None] = lambda _: None,
) -> WrittenCertificate:
    """Certify a frontier. For allreduce this is the frontier of compositions of equal halves.

    Args:
        subject: The collective and the machine.
        frontier: The frontier.
        settings: Time limit of each proof, and settings of the sweep of the halves.
        folder: Folder of the certificate.
        notify: Called with progress texts.

    Raises:
        InputError: The folder cannot be written, or compositions take more steps than requested.
    """
    from sccl.synth.syncoll.certify import write_certificate  # noqa: PLC0415 - loads solvers

    topology, spec = subject.topology, subject.spec
    seconds = settings.effort.timeout_s or DEFAULT_TIMEOUT_S
    certified, scope = frontier, ""
    if frontier.is_multiclass:
        certified = sweep_equal_halves(topology, spec, frontier.covered, settings)
        scope = f"{certified.scope}; for any two halves, and every family, the claims proved by S"
    file = write_certificate(
        topology,
        spec,
        certified,
        folder,
        seconds,
        notify,
        _compositions(frontier),
        _combined_frontier(frontier),
        limits=PackingLimits,
    )
    return WrittenCertificate(file, scope)


def certify_limits(
    subject: CollectiveProblem,
    frontier: StepLimitFrontier,
    max_steps: int | None,
    settings: Settings,
    folder: Path,
) -> WrittenCertificate:
    """Certify limits. For allreduce: of compositions of equal halves, and of trees.

    Raises:
        InputError: The folder cannot be written, or compositions take more steps than requested.
    """
    from sccl.synth.packing.by_steps.limit_certificate import write_limit_certificate  # noqa: PLC0415 - loads solvers

    topology, spec = subject.topology, subject.spec
    parts, scope = frontier.classes, ""
    if frontier.is_multiclass:
        from sccl.synth.allreduce.limit_search import limits_of_equal_halves  # noqa: PLC0415 - loads all families

        equal = limits_of_equal_halves(topology, spec, max_steps, settings)
        trees = tuple(part for part in frontier.classes if part.name == TREES)
        parts = equal.classes + trees
        scope = f"{equal.scope}, and of any two halves{', and trees' if trees else ''}"
        scope += "; and every class"
    over = _combined_frontier(frontier)
    file = write_limit_certificate(topology, spec, parts, folder, _compositions(frontier), over)
    return WrittenCertificate(file, scope)


def certify_times(
    subject: CollectiveProblem, results: Mapping[int, Solution], folder: Path
) -> WrittenCertificate:
    """Certify lower bounds on completion times at some sizes, and schedules close to them.

    Args:
        subject: The collective and the machine.
        results: Results by the bytes of a rank's buffer.
        folder: Folder of the certificate.

    Raises:
        InputError: The folder cannot be written.
    """
    from sccl.synth.packing.by_time.time_certificate import write_time_certificate  # noqa: PLC0415 - loads NumPy

    made = write_time_certificate(subject.topology, subject.spec, results, folder)
    less = [
        f"{format_bytes(size)}, {format_us(float(proved))} of {format_us(float(lower_bound))}"
        for size, proved in made.lower_bounds.items()
        if (lower_bound := results[size].bound.value) is not None
        and proved < lower_bound * (1 - TOLERANCE)
    ]
    scope = (
        f"by cuts only, with lower bounds below those of the search: {'; '.join(less)}"
        if less
        else ""
    )
    return WrittenCertificate(made.file, scope)


def _compositions(frontier: Frontier) -> list[AnyAlgorithm]:
    """Return the compositions of any two halves that have an algorithm."""
    points = (point for part in frontier.classes if part.name == COMPOSED for point in part.points)
    return [point.algorithm for point in points if point.algorithm]


def _combined_frontier(frontier: Frontier) -> Frontier | None:
    """Return a frontier if it covers several families. None: it does not."""
    return frontier if frontier.is_multiclass else None
