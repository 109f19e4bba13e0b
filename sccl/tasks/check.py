"""Checking: what the judge says of files of algorithms and schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.collectives import misnamed
from sccl.core.algorithm import KSynchronous
from sccl.core.files.fields import FileText, Part
from sccl.judge import Violation, violations
from sccl.tasks.files import LoadedPlan, Told, load_plans
from sccl.tasks.outputs import Alpha, Output, alpha_of, plan_digests


class ViolationPart(Part, frozen=True, kw_only=True):
    """What the judge objects to."""

    kind: str
    message: str
    step: int | None
    chunk: int | None
    rank: Annotated[int | None, Meta(description="A rank, or a switch: these come after ranks.")]
    link: Annotated[tuple[int, int] | None, Meta(description="[src, dst], of schedules.")]
    tick: Annotated[int | None, Meta(description="When, of schedules.")]


class CheckedFilePart(Part, frozen=True, kw_only=True):
    """An algorithm or a schedule, and the judge's verdict."""

    file: FileText
    valid: bool
    digest_matches: Annotated[bool, Meta(description="The file is as sccl wrote it.")]
    collective: str
    topology: str
    finish_us: Annotated[
        float | None, Meta(description="When the last chunk arrives, of schedules.")
    ]
    alpha: Annotated[
        Alpha | None,
        Meta(description="What links do during alpha, of schedules."),
    ]
    violations: tuple[ViolationPart, ...]


class CheckOutput(Output, frozen=True, kw_only=True):
    """What 'sccl check' found."""

    kind: Literal["check"] = "check"
    files: tuple[CheckedFilePart, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A file and everything that is wrong with its plan."""

    loaded: LoadedPlan
    violations: tuple[Violation, ...]


def judge_files(
    files: Iterable[str | Path], reading: Told = lambda *_: None, judging: Told = lambda *_: None
) -> list[Judged]:
    """Return what the judge says of each plan; all are read before any verdict.

    Args:
        reading: how many bytes of a packed schedule were read, and of how many.
        judging: likewise, how many of its transfers have been judged.

    Raises:
        InputError: there is none, or a file is no algorithm and no schedule.
    """
    loaded = load_plans(files, reading)
    return [Judged(one, (*_misnamed(one), *violations(one.plan, judging))) for one in loaded]


def _misnamed(one: LoadedPlan) -> list[Violation]:
    text = misnamed(one.plan.collective)
    return [Violation("collective", text)] if text else []


def check_output(judged: Sequence[Judged]) -> CheckOutput:
    """Return the verdicts."""
    return CheckOutput(
        inputs=plan_digests({str(x.loaded.file): x.loaded.plan for x in judged}),
        files=tuple(map(_part, judged)),
    )


def _part(judged: Judged) -> CheckedFilePart:
    loaded, plan = judged.loaded, judged.loaded.plan
    timed = None if isinstance(plan, KSynchronous) else plan
    return CheckedFilePart(
        file=str(loaded.file),
        valid=not judged.violations,
        digest_matches=loaded.intact,
        collective=plan.collective.name,
        topology=plan.topology.name,
        finish_us=timed.clock.us(timed.finish) if timed else None,
        alpha=alpha_of(timed) if timed else None,
        violations=tuple(
            ViolationPart(
                kind=v.kind,
                message=v.message,
                step=v.step,
                chunk=v.chunk,
                rank=v.rank,
                link=v.link,
                tick=v.tick,
            )
            for v in judged.violations
        ),
    )
