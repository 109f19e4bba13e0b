"""Generating code: projects that run algorithms, and schedules by their steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.core.cost import Costs
from sccl.core.files.fields import Count, FileText
from sccl.core.topology import Topology
from sccl.emit import EmitOptions, generate, write_project
from sccl.errors import TooLargeError
from sccl.tasks.judged import judged_steps
from sccl.tasks.outputs import Output, plan_digests

if TYPE_CHECKING:
    from sccl.core.outcome import Plan


MAX_SENDS = 50_000
"""Of one plan: what is certainly done before what is known of each two of their instructions."""


class CodegenOutput(Output, frozen=True, kw_only=True):
    """Where 'sccl codegen' wrote a project."""

    kind: Literal["codegen"] = "codegen"
    directory: FileText
    target: str
    ranks: Count
    algorithms: Count
    collectives: tuple[str, ...]
    files: Annotated[tuple[str, ...], Meta(description="Names of the written files.")]


@dataclass(frozen=True, slots=True)
class Written:
    """A project that was written.

    Attributes:
        given: what it runs, by file.
        algorithms: the same by steps, written out.
        files: the names of what was written.
    """

    directory: Path
    target: str
    given: Mapping[str, Plan]
    algorithms: tuple[Algorithm, ...]
    files: tuple[str, ...]

    @property
    def ranks(self) -> int:
        """Return the ranks that it is for."""
        return self.algorithms[0].topology.ranks

    @property
    def collectives(self) -> tuple[str, ...]:
        """Return the names of what it does."""
        return tuple(sorted({a.collective.name for a in self.algorithms}))


def write_code(  # noqa: PLR0913, PLR0917 - what is written, and where
    given: Mapping[str, Plan],
    directory: Path,
    target: str,
    options: EmitOptions | None = None,
    select: str | None = None,
    machine: Topology | None = None,
    *,
    force: bool = False,
) -> Written:
    """Write a project that runs algorithms, and schedules by their steps.

    Args:
        given: the plans, by what messages call them.
        select: switch points instead of the cost model's, as ``SCCL_SELECT`` spells them.
        machine: by whose costs sizes are served, such as a measured one. None: those of each
            algorithm's own.
        force: whatever the folder holds.

    Raises:
        InputError: there is no such target, a plan is too large, one fails verification, no steps
            tell what the times of one tell, they or ``select`` do not fit into one project, or the
            folder cannot be written.
    """
    for name, plan in given.items():
        if plan.num_sends > MAX_SENDS:
            raise TooLargeError(
                f"{name} has {plan.num_sends} sends, more than code is generated for (at most "
                f"{MAX_SENDS}); 'sccl simulate' takes it"
            )
    algorithms = tuple(judged_steps(plan, name).algorithm for name, plan in given.items())
    costs = Costs.of if machine is None else partial(Costs.on, machine=machine)
    files = generate(algorithms, target, options or EmitOptions(), select, costs)
    write_project(directory, files, force=force)
    return Written(directory, target, given, algorithms, tuple(sorted(files)))


def codegen_output(written: Written) -> CodegenOutput:
    """Return where a project was written."""
    return CodegenOutput(
        inputs=plan_digests(written.given),
        directory=str(written.directory),
        target=written.target,
        ranks=written.ranks,
        algorithms=len(written.algorithms),
        collectives=written.collectives,
        files=written.files,
    )
