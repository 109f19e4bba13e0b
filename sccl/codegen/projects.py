"""Generate projects that run algorithms, and schedules converted to steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from sccl.codegen.project_writer import generate, write_project
from sccl.codegen.targets.codegen_options import CodegenOptions
from sccl.core.algorithm import Algorithm
from sccl.core.cost import Costs
from sccl.core.files.outputs import Output, build_output, plan_digests
from sccl.core.files.shapes import FileText, NonNegative
from sccl.core.topology import Topology
from sccl.errors import TooLargeError
from sccl.transform.validated import validated_steps

if TYPE_CHECKING:
    from sccl.core.outcome import Plan


MAX_SENDS = 50_000
"""Largest number of sends of a plan, because the happens-before order needs all pairs."""


class CodegenOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl project new'."""

    kind: Literal["codegen"] = "codegen"
    directory: FileText
    target: str
    ranks: NonNegative
    algorithms: NonNegative
    collectives: tuple[str, ...]
    files: Annotated[tuple[str, ...], "Names of the written files."]


@dataclass(frozen=True, slots=True)
class WrittenProject:
    """A written project.

    Attributes:
        algorithms: The same plans as algorithms in steps, with all sends.
    """

    directory: Path
    target: str
    plans: Mapping[str, Plan]
    algorithms: tuple[Algorithm, ...]
    files: tuple[str, ...]

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.algorithms[0].topology.ranks

    @property
    def collectives(self) -> tuple[str, ...]:
        """Return the names of the collectives."""
        return tuple(sorted({a.collective.name for a in self.algorithms}))


def write_project_of(  # noqa: PLR0913, PLR0917 - independent inputs
    plans: Mapping[str, Plan],
    directory: Path,
    target: str,
    options: CodegenOptions | None = None,
    select: str | None = None,
    machine: Topology | None = None,
    *,
    force: bool = False,
) -> WrittenProject:
    """Write a project that runs algorithms, and schedules converted to steps.

    Args:
        plans: Plans by name. Names are for messages.
        select: Switch points that replace those of the cost model, in the notation of
            ``SCCL_SELECT``.
        machine: Machine whose costs set the switch points, such as a measured one. None: each
            algorithm's own machine.
        force: Whether to write into the folder even if it has other contents.

    Raises:
        InputError: The target does not exist, a plan is too large or fails verification, a schedule
            cannot be converted to steps, the plans or ``select`` do not fit into one project, or
            the folder cannot be written.
    """
    for name, plan in plans.items():
        if plan.num_sends > MAX_SENDS:
            raise TooLargeError(
                f"{name} has {plan.num_sends} sends, more than the limit for generated code "
                f"({MAX_SENDS}); 'sccl simulate' supports it"
            )
    algorithms = tuple(validated_steps(plan, name).algorithm for name, plan in plans.items())
    costs = Costs.from_topology if machine is None else partial(Costs.from_machine, machine=machine)
    files = generate(algorithms, target, options or CodegenOptions(), select, costs)
    write_project(directory, files, force=force)
    return WrittenProject(directory, target, plans, algorithms, tuple(sorted(files)))


def codegen_output(written: WrittenProject) -> CodegenOutput:
    """Return the JSON output of a written project."""
    inputs = plan_digests(written.plans)
    return build_output(CodegenOutput, written, inputs=inputs, algorithms=len(written.algorithms))
