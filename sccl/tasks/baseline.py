"""Classical algorithms on machines: what there is, and what one of them makes of a request."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.collectives import Spec
from sccl.core.algorithm import Algorithm
from sccl.core.files.fields import Count, FileText, FractionText, Part
from sccl.synth.contract import Request
from sccl.tasks.outputs import Output, question_digests


class BaselinePart(Part, frozen=True, kw_only=True):
    """A classical algorithm."""

    name: str
    about: Annotated[str, Meta(description="What it is, in a line.")]
    source: Annotated[str, Meta(description="The paper or code that defines it.")]
    collectives: Annotated[tuple[str, ...], Meta(description="Those that the source defines.")]


class BaselineResultPart(Part, frozen=True, kw_only=True):
    """What an algorithm takes on a machine."""

    collective: str
    topology: str
    chunks: Count
    steps: Count
    rounds: Count
    bandwidth_cost: Annotated[FractionText, Meta(description="R/C.")]
    sends: Count
    file: FileText | None


class BaselineOutput(Output, frozen=True, kw_only=True):
    """What 'sccl baseline' lists, or makes."""

    kind: Literal["baseline"] = "baseline"
    algorithms: Annotated[
        tuple[BaselinePart, ...], Meta(description="All, or the one that was asked for.")
    ]
    result: Annotated[BaselineResultPart | None, Meta(description="null: they were listed.")]


def known(names: tuple[str, ...] = ()) -> tuple[BaselinePart, ...]:
    """Return what is known of classical algorithms.

    Args:
        names: which; empty: all.

    Raises:
        UnknownNameError: there is none of a name.
    """
    from sccl.synth import baselines  # noqa: PLC0415 - NumPy is slow to load

    return tuple(_part(name) for name in names or baselines.names())


def _part(name: str) -> BaselinePart:
    from sccl.synth import baselines  # noqa: PLC0415 - NumPy is slow to load

    baseline = baselines.load(name)
    about = (baseline.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return BaselinePart(
        name=name,
        about=about,
        source=baseline.SOURCE,
        collectives=tuple(sorted(baseline.COLLECTIVES)),
    )


def baseline_on(name: str, request: Request, pieces: int) -> Algorithm:
    """Return a classical algorithm over the links of a machine, judged.

    Raises:
        InputError: there is none of that name, it does not serve the machine or the collective, or
            it sends between ranks that no link joins.
    """
    from sccl.synth import baselines  # noqa: PLC0415 - NumPy is slow to load

    pattern = baselines.make(name, request, pieces)
    return baselines.on_machine(pattern, request.topology)


def list_output() -> BaselineOutput:
    """Return all classical algorithms."""
    return BaselineOutput(inputs={}, algorithms=known(), result=None)


def baseline_output(name: str, spec: Spec, made: Algorithm, file: str | None) -> BaselineOutput:
    """Return what was made."""
    return BaselineOutput(
        inputs=question_digests(made.topology, spec),
        algorithms=known((name,)),
        result=BaselineResultPart(
            collective=spec.name,
            topology=made.topology.name,
            chunks=made.collective.chunks,
            steps=made.steps,
            rounds=made.rounds,
            bandwidth_cost=str(made.bandwidth_cost),
            sends=made.num_sends,
            file=file,
        ),
    )
