"""Certifying: every claim of a frontier with its proof, in a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sccl.collectives import Spec
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.prove.bounds import lower_bounds
from sccl.synth.allreduce.classes import has_classes
from sccl.synth.allreduce.frontier import AllreduceFrontier
from sccl.synth.frontier import Frontier
from sccl.synth.limit.frontier import LimitFrontier
from sccl.synth.limit.oracle import PackingLimits
from sccl.synth.settings import DEFAULT_TIMEOUT_S, Settings
from sccl.tasks.limits import limits_of_equal_halves
from sccl.tasks.pareto import equal_halves


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
    found: Frontier | AllreduceFrontier,
    settings: Settings,
    folder: Path,
    notify: Callable[[str], None] = lambda _: None,
) -> WrittenCertificate:
    """Certify a frontier; of allreduce, that of compositions of equal halves.

    Args:
        settings: seconds for each proof; and how the halves are swept.
        notify: called with what is being proved.

    Raises:
        InputError: the folder cannot be written, or compositions take more steps than were asked
            for.
    """
    from sccl.synth.ksync.certify import write_certificate  # noqa: PLC0415 - loads solvers

    seconds = settings.effort.timeout_s or DEFAULT_TIMEOUT_S
    if not isinstance(found, AllreduceFrontier):
        return WrittenCertificate(
            write_certificate(found, folder, seconds, notify, limits=PackingLimits)
        )
    equal = equal_halves(found, settings)
    file = write_certificate(
        equal, folder, seconds, notify, found.compositions, limits=PackingLimits
    )
    any_two = "of any two halves what their limits prove; no other class"
    return WrittenCertificate(file, f"{equal.scope}; {any_two}")


def certify_limits(
    found: LimitFrontier | AllreduceFrontier,
    max_steps: int | None,
    settings: Settings,
    folder: Path,
) -> WrittenCertificate:
    """Certify limits; of allreduce, those of compositions of equal halves, and of trees.

    Raises:
        InputError: the folder cannot be written, or compositions take more steps than were asked
            for.
    """
    from sccl.synth.limit.certify import write_limit_certificate  # noqa: PLC0415 - loads solvers

    if not isinstance(found, AllreduceFrontier):
        return WrittenCertificate(write_limit_certificate(found, None, folder))
    equal = limits_of_equal_halves(found, max_steps, settings)
    file = write_limit_certificate(equal, found.trees, folder, found.compositions)
    trees = ", and trees" if found.trees else ""
    return WrittenCertificate(file, f"{equal.scope}, and of any two halves{trees}")
