"""The JSON output of TACOS, and the command that reproduces a schedule."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from sccl.synth.common.synthesis import (
    Synthesis,
    SynthesisOutput,
    SynthesisProblem,
    synthesis_output,
)


class TacosOutput(SynthesisOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl synth tacos'."""

    kind: Literal["tacos"] = "tacos"
    recorded: Annotated[
        bool, "Whether the file holds the schedule, or only the inputs that reproduce it."
    ]
    again: Annotated[str, "The command that makes the same schedule."]


def tacos_output(
    result: Synthesis, file: Path | None, inputs: Mapping[str, str | Path | None], *, recorded: bool
) -> TacosOutput:
    """Return the JSON output.

    Args:
        result: The schedule, with its events.
        file: File of the schedule. None: not written.
        inputs: See :func:`reproduce_command`.
        recorded: Whether the file, if any, holds the schedule.
    """
    is_reproducible = not (result.problem.effort.timeout_s and result.ended)
    again = reproduce_command(result.problem, inputs) if is_reproducible else ""
    return synthesis_output(
        TacosOutput, result, file, recorded=recorded and file is not None, again=again
    )


def reproduce_command(problem: SynthesisProblem, inputs: Mapping[str, str | Path | None]) -> str:
    """Return the command that reproduces a TACOS schedule.

    Args:
        problem: The problem of the schedule.
        inputs: Collective, machine, and sketch, by option. None: not given.
    """
    values: dict[str, object] = msgspec.to_builtins(problem.options)
    values |= {"size": problem.request.size_bytes, "seed": problem.effort.seed}
    del values["jobs"]  # it has no effect on the schedule
    pairs: Iterable[tuple[str, object]] = [*inputs.items(), *sorted(values.items())]
    words = [
        word
        for name, value in pairs
        if value is not None
        for word in ("--" + name.replace("_", "-"), str(value))
    ]
    return shlex.join(["sccl", "synth", problem.name, *words])
