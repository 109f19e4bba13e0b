"""Showing: algorithms as data, with what their links carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.core.files.fields import Count, FileText, FractionText, Part
from sccl.judge import violations
from sccl.tasks.files import Loaded
from sccl.tasks.outputs import Output, plan_digests
from sccl.view.text.show import utilisation


class StepPart(Part, frozen=True, kw_only=True):
    """How much of what the links can carry a step uses."""

    step: Annotated[int | None, Meta(description="Null: all steps together.")]
    rounds: int
    sends: Count
    utilisation: Annotated[str, Meta(description="A share such as 75.0%.")]


class ShownPart(Part, frozen=True, kw_only=True):
    """An algorithm."""

    file: FileText
    digest_matches: Annotated[bool, Meta(description="The file is as sccl wrote it.")]
    violations: Annotated[int, Meta(description="What the judge objects to: see sccl check.")]
    topology: str
    collective: str
    chunks: int
    steps: int
    rounds: int
    rounds_per_step: tuple[int, ...]
    bandwidth_cost: FractionText
    proved: Annotated[
        tuple[str, ...], Meta(description="Empty where the file was edited or is rejected.")
    ]
    scope: str
    sends: Annotated[
        tuple[tuple[int, int, int, int, int], ...],
        Meta(description="[step, chunk, src, dst, 1 if it reduces]."),
    ]
    utilisation: tuple[StepPart, ...]


class ShowOutput(Output, frozen=True, kw_only=True):
    """What 'sccl show' shows."""

    kind: Literal["show"] = "show"
    files: tuple[ShownPart, ...]


def show_output(loaded: Sequence[tuple[Loaded, Algorithm]]) -> ShowOutput:
    """Return what is shown of algorithms: of files, and written out."""
    return ShowOutput(
        inputs=plan_digests({str(one.file): one.algorithm for one, _ in loaded}),
        files=tuple(_part(one, algorithm) for one, algorithm in loaded),
    )


def _part(one: Loaded, algorithm: Algorithm) -> ShownPart:
    a, wrong = algorithm, len(violations(algorithm))
    return ShownPart(
        file=str(one.file),
        digest_matches=one.intact,
        violations=wrong,
        topology=a.topology.name,
        collective=a.collective.name,
        chunks=a.collective.chunks,
        steps=a.steps,
        rounds=a.rounds,
        rounds_per_step=a.rounds_per_step,
        bandwidth_cost=str(a.bandwidth_cost),
        proved=a.proved if one.intact and not wrong else (),
        scope=a.scope,
        sends=tuple((s.step, s.chunk, s.src, s.dst, int(s.reduce)) for s in a.sends),
        utilisation=tuple(
            StepPart(
                step=step if isinstance(step, int) else None,
                rounds=rounds,
                sends=sends,
                utilisation=share,
            )
            for step, rounds, sends, share in utilisation(a)
        ),
    )
