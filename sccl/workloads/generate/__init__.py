"""Workloads of models by formulas, one file for each family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from sccl.core.workload import Workload
from sccl.errors import ParameterError, unknown_name
from sccl.workloads.generate.convolutional import ConvolutionalJob, convolutional
from sccl.workloads.generate.dlrm import DlrmJob, dlrm
from sccl.workloads.generate.moe import MoeJob, moe
from sccl.workloads.generate.presets import PRESETS, preset
from sccl.workloads.generate.training import ParallelJob, Processor, shown, widths_of
from sccl.workloads.generate.transformer import RECOMPUTE, TransformerJob, transformer

__all__ = [
    "FAMILIES",
    "PRESETS",
    "RECOMPUTE",
    "ConvolutionalJob",
    "DlrmJob",
    "MadeWorkload",
    "MoeJob",
    "TransformerJob",
    "convolutional",
    "dlrm",
    "job_of",
    "made_workload",
    "moe",
    "transformer",
    "widths_of",
]


@dataclass(frozen=True, slots=True)
class _Family:
    job: type[Processor]
    make: Callable[..., Workload]


FAMILIES: Mapping[str, _Family] = {
    "transformer": _Family(TransformerJob, transformer),
    "moe": _Family(MoeJob, moe),
    "dlrm": _Family(DlrmJob, dlrm),
    "convolutional": _Family(ConvolutionalJob, convolutional),
}


@dataclass(frozen=True, slots=True)
class MadeWorkload:
    """A workload, and the parameters that it was made by.

    Attributes:
        about: where these are from. Empty: all are the user's.
    """

    workload: Workload
    family: str
    preset: str | None
    job: Processor
    about: str


def made_workload(
    family: str, given: Mapping[str, Any], preset_name: str | None = None, name: str | None = None
) -> MadeWorkload:
    """Return an iteration of training a model.

    Args:
        family: one of :data:`FAMILIES`.
        given: parameters by name, before which those of the preset stand back.
        name: of the workload. None: that of the preset, else the family's.

    Raises:
        InputError: there is no such family or preset, parameters contradict one another, or no
            collectives come of them.
    """
    job, about = job_of(family, given, preset_name)
    made = FAMILIES[family].make(job, name or preset_name or family, about)
    return MadeWorkload(made, family, preset_name, job, about)


def job_of(
    family: str, given: Mapping[str, Any], preset_name: str | None = None
) -> tuple[Processor, str]:
    """Return the parameters of a job, and where they are from.

    Raises:
        InputError: as :func:`made_workload` says.
    """
    if family not in FAMILIES:
        hint = f"the families are {', '.join(FAMILIES)}"
        raise unknown_name("family", family, FAMILIES, hint)
    about = ""
    values: dict[str, Any] = {}
    if preset_name is not None:
        found = preset(preset_name)
        if found.family != family:
            raise ParameterError(
                f"preset {preset_name} is of family {found.family}, and {family} is asked for: "
                "take that family, or another preset"
            )
        values |= found.parameters
        about = found.about
        if given:
            about += f". Changed: {', '.join(map(shown, given))}"
    kind = FAMILIES[family].job
    known = {field.name: field for field in fields(kind)}
    ranks = given.get("ranks")
    for name in given:
        if name not in known and name != "ranks":
            raise ParameterError(
                f"{shown(name)} is no parameter of family {family}: leave it out, or take another "
                "family"
            )
    values |= given
    if issubclass(kind, ParallelJob) and ranks is not None:
        del values["ranks"]
        values = _over(ranks, values, given)
    missing = [n for n, one in known.items() if one.default is MISSING and n not in values]
    if missing:
        raise ParameterError(
            f"{shown(missing[0])} is not given, and a {family} has no default of it: give "
            f"--{shown(missing[0])}, or a --preset"
        )
    return kind(**values), about


def _over(ranks: int, values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with as many replicas as so many ranks make.

    Raises:
        ParameterError: they make no whole number of them, or another than was given.
    """
    tp, pp = (int(values.get(name, 1)) for name in ("tp", "pp"))
    each = tp * pp
    dp = int(given["dp"]) if "dp" in given else ranks // each if each > 0 else 0
    if each * dp != ranks or ranks < 1:
        of = f"{tp} * {pp} * {dp}" if "dp" in given else f"{tp} * {pp} * dp"
        raise ParameterError(
            f"ranks is {ranks}, which is not tp * pp * dp = {of}: change one of them, or leave "
            "ranks out"
        )
    return {**values, "dp": dp}
