"""Generate workloads of models by formulas, with one module per family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from sccl.errors import ParameterError, unknown_name
from sccl.training.models.convolutional import ConvolutionalJob, generate_convolutional
from sccl.training.models.dlrm import DlrmJob, generate_dlrm
from sccl.training.models.moe import MoeJob, generate_moe
from sccl.training.models.parallelism import ParallelJob, Processor, option_name, parse_widths
from sccl.training.models.presets import PRESETS, find_preset
from sccl.training.models.transformer import RECOMPUTE, TransformerJob, generate_transformer
from sccl.training.types.workload import Workload

__all__ = [
    "FAMILIES",
    "PRESETS",
    "RECOMPUTE",
    "ConvolutionalJob",
    "DlrmJob",
    "GeneratedWorkload",
    "MoeJob",
    "TransformerJob",
    "generate_convolutional",
    "generate_dlrm",
    "generate_moe",
    "generate_transformer",
    "generate_workload",
    "parse_widths",
    "resolve_job",
]


@dataclass(frozen=True, slots=True)
class _ModelFamily:
    job: type[Processor]
    make: Callable[..., Workload]


FAMILIES: Mapping[str, _ModelFamily] = {
    "transformer": _ModelFamily(TransformerJob, generate_transformer),
    "moe": _ModelFamily(MoeJob, generate_moe),
    "dlrm": _ModelFamily(DlrmJob, generate_dlrm),
    "convolutional": _ModelFamily(ConvolutionalJob, generate_convolutional),
}


@dataclass(frozen=True, slots=True)
class GeneratedWorkload:
    """A generated workload and its parameters.

    Attributes:
        workload: Generated workload.
        family: Family of models.
        preset: Name of the preset. None: none.
        job: Parameters.
        about: Source of the parameters. Empty: all are the user's.
    """

    workload: Workload
    family: str
    preset: str | None
    job: Processor
    about: str


def generate_workload(
    family: str,
    parameters: Mapping[str, Any],
    preset_name: str | None = None,
    name: str | None = None,
) -> GeneratedWorkload:
    """Return the workload of one training iteration of a model.

    Args:
        family: One of :data:`FAMILIES`.
        parameters: Parameters by name, which override those of the preset.
        preset_name: Name of a preset. None: none.
        name: Name of the workload. None: that of the preset, or else of the family.

    Raises:
        InputError: The family or preset is unknown, parameters contradict one another, or the
            model needs no collectives.
    """
    job, about = resolve_job(family, parameters, preset_name)
    made = FAMILIES[family].make(job, name or preset_name or family, about)
    return GeneratedWorkload(made, family, preset_name, job, about)


def resolve_job(
    family: str, parameters: Mapping[str, Any], preset_name: str | None = None
) -> tuple[Processor, str]:
    """Return the parameters of a job, and their source.

    Raises:
        InputError: The family or preset is unknown, or parameters contradict one another.
    """
    if family not in FAMILIES:
        hint = f"the families are {', '.join(FAMILIES)}"
        raise unknown_name("family", family, FAMILIES, hint)
    about = ""
    values: dict[str, Any] = {}
    if preset_name is not None:
        base = find_preset(preset_name)
        if base.family != family:
            raise ParameterError(
                f"preset {preset_name} belongs to family {base.family}, expected {family}: give "
                f"family {base.family}, or another preset"
            )
        values |= base.parameters
        about = base.about
        if parameters:
            about += f". Changed: {', '.join(map(option_name, parameters))}"
    kind = FAMILIES[family].job
    job_fields = {field.name: field for field in fields(kind)}
    ranks = parameters.get("ranks")
    for name in parameters:
        if name not in job_fields and name != "ranks":
            raise ParameterError(
                f"{option_name(name)} is no parameter of family {family}: leave it out, or take "
                "another "
                "family"
            )
    values |= parameters
    if issubclass(kind, ParallelJob) and ranks is not None:
        del values["ranks"]
        values = _fit_to_ranks(ranks, values, parameters)
    missing = [n for n, entry in job_fields.items() if entry.default is MISSING and n not in values]
    if missing:
        raise ParameterError(
            f"{option_name(missing[0])} is missing, and {family} has no default for it: give "
            f"--{option_name(missing[0])}, or a --preset"
        )
    return kind(**values), about


def _fit_to_ranks(
    ranks: int, values: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters with the number of replicas that a number of ranks implies.

    Raises:
        ParameterError: The ranks are not ``tp * pp * dp``.
    """
    tp, pp = (int(values.get(name, 1)) for name in ("tp", "pp"))
    each = tp * pp
    dp = int(parameters["dp"]) if "dp" in parameters else ranks // each if each > 0 else 0
    if each * dp != ranks or ranks < 1:
        of = f"{tp} * {pp} * {dp}" if "dp" in parameters else f"{tp} * {pp} * dp"
        raise ParameterError(
            f"ranks is {ranks}, which is not tp * pp * dp = {of}: change one of them, or leave "
            "ranks out"
        )
    return {**values, "dp": dp}
