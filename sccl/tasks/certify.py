"""Certifying: every claim of a frontier with its proof, in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sccl.collectives import Spec
from sccl.core.candidate import Range
from sccl.core.cost import bytes_text, us_text
from sccl.core.frontier import COMPOSED, TREES, Frontier
from sccl.core.outcome import Found
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.prove.bounds import lower_bounds
from sccl.synth.allreduce.classes import has_classes
from sccl.synth.limit.oracle import PackingLimits
from sccl.synth.settings import DEFAULT_TIMEOUT_S, Settings
from sccl.tasks.limits import limits_of_equal_halves
from sccl.tasks.pareto import equal_halves
from sccl.tasks.subject import Subject

_ROUNDED = Fraction(1, 10**6)
"""Relative tolerance of a bound: prices in fractions prove a little less than a solver's prices."""


@dataclass(frozen=True, slots=True)
class WrittenCertificate:
    """A certificate that was written.

    Attributes:
        file: of its claims.
        scope: the classes that it is about, where those are not all that were looked at.
    """

    file: Path
    scope: str = ""


def require_certifiable(topology: Topology, spec: Spec, max_steps: int | None) -> None:
    """Check that a sweep will find something to certify, before any work is done.

    Raises:
        ParameterError: of allreduce compositions are certified, and they take more steps than are
            asked for.
    """
    if not has_classes(spec) or max_steps is None:
        return
    least = lower_bounds(topology, spec).steps
    if max_steps < least:
        raise ParameterError(
            f"max-steps is {max_steps}, but what is certified of {spec.name} are compositions of a "
            f"reducescatter and an allgather, which take at least {least} steps here: give at "
            "least that many, or leave --certify out"
        )


def certify_frontier(
    subject: Subject,
    found: Frontier,
    settings: Settings,
    folder: Path,
    notify: Callable[[str], None] = lambda _: None,
) -> WrittenCertificate:
    """Certify a frontier. For allreduce this is the frontier of compositions of equal halves.

    Args:
        settings: Time limit of each proof, and settings of the sweep of the halves.
        notify: Function that receives progress.

    Raises:
        InputError: The folder cannot be written, or compositions take more steps than requested.
    """
    from sccl.synth.ksync.certify import write_certificate  # noqa: PLC0415 - loads solvers

    topology, spec = subject.topology, subject.spec
    seconds = settings.effort.timeout_s or DEFAULT_TIMEOUT_S
    certified, scope = found, ""
    if found.several:
        certified = equal_halves(topology, spec, found.covered or Range(), settings)
        scope = f"{certified.scope}; for any two halves, and every family, the claims proved by S"
    file = write_certificate(
        topology,
        spec,
        certified,
        folder,
        seconds,
        notify,
        _compositions(found),
        _over_all(found),
        limits=PackingLimits,
    )
    return WrittenCertificate(file, scope)


def certify_limits(
    subject: Subject, found: Frontier, max_steps: int | None, settings: Settings, folder: Path
) -> WrittenCertificate:
    """Certify limits; of allreduce, those of compositions of equal halves, and of trees.

    Raises:
        InputError: the folder cannot be written, or compositions take more steps than were asked
            for.
    """
    from sccl.synth.limit.certify import write_limit_certificate  # noqa: PLC0415 - loads solvers

    topology, spec = subject.topology, subject.spec
    parts, scope = found.classes, ""
    if found.several:
        equal = limits_of_equal_halves(topology, spec, max_steps, settings)
        trees = tuple(part for part in found.classes if part.name == TREES)
        parts = equal.classes + trees
        scope = f"{equal.scope}, and of any two halves{', and trees' if trees else ''}"
        scope += "; and every class"
    over = _over_all(found)
    file = write_limit_certificate(topology, spec, parts, folder, _compositions(found), over)
    return WrittenCertificate(file, scope)


def certify_times(subject: Subject, found: Mapping[int, Found], folder: Path) -> WrittenCertificate:
    """Certify lower bounds on completion times at some sizes, and schedules close to them.

    Args:
        found: Results by the bytes of a rank's buffer.

    Raises:
        InputError: The folder cannot be written.
    """
    from sccl.synth.fluid.certify import write_time_certificate  # noqa: PLC0415 - loads NumPy

    made = write_time_certificate(subject.topology, subject.spec, found, folder)
    less = [
        f"{bytes_text(size)}, {us_text(float(proved))} of {us_text(float(known))}"
        for size, proved in made.least.items()
        if (known := found[size].bound.least) is not None and proved < known * (1 - _ROUNDED)
    ]
    scope = (
        f"by cuts only, with lower bounds below those of the search: {'; '.join(less)}"
        if less
        else ""
    )
    return WrittenCertificate(made.file, scope)


def _compositions(found: Frontier) -> list[AnyAlgorithm]:
    """Return the compositions of any two halves that are written out."""
    points = (point for part in found.classes if part.name == COMPOSED for point in part.points)
    return [point.algorithm for point in points if point.algorithm]


def _over_all(found: Frontier) -> Frontier | None:
    """Return a frontier if it is one over all classes."""
    return found if found.several else None
