"""Options of models and of their training, from the fields of all families."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from inspect import Parameter
from typing import Any

import msgspec

from sccl.api.option_fields import OptionField, option_fields
from sccl.cli.options import DerivedOptions, option_parameter
from sccl.training.models import (
    FAMILIES,
    ConvolutionalJob,
    DlrmJob,
    MoeJob,
    TransformerJob,
    parse_widths,
)
from sccl.training.models.parallelism import ParallelJob, Processor

WORK_PANEL = "Options for the division of work"

_PANELS = {
    TransformerJob: "Options of transformers",
    MoeJob: "Options of experts (moe)",
    DlrmJob: "Options of recommendation models (dlrm)",
    ConvolutionalJob: "Options of convolutional nets",
    ParallelJob: WORK_PANEL,
    Processor: "Options of speed",
}
"""Titles of the options that each class declares."""


def _parameters() -> Iterator[Parameter]:
    """Yield a parameter for each option of any family. None: from the preset, or the default."""
    by_family: dict[str, dict[str, OptionField]] = defaultdict(dict)
    for family, entry in FAMILIES.items():
        for field in option_fields(entry.job):
            by_family[field.name][family] = field
    owners = {
        name: _owner(FAMILIES[next(iter(families))].job, name)
        for name, families in by_family.items()
    }
    for kind, title in _PANELS.items():
        for name in (name for name, owner in owners.items() if owner is kind):
            fields = by_family[name]
            option = next(iter(fields.values()))
            option = replace(
                option, is_optional=True, default=None, default_help=_default_text(fields)
            )
            yield option_parameter(option, rich_help_panel=title)


def _owner(job: type, name: str) -> type:
    """Return the class that declares an option first."""
    return next(
        kind for kind in reversed(job.__mro__) if name in vars(kind).get("__annotations__", {})
    )


def _default_text(fields: dict[str, OptionField]) -> str:
    """Return the default of an option, with families if their defaults differ."""
    families = defaultdict(list)
    for family, field in fields.items():
        families[field.default_help or _value_text(field.default)].append(family)
    if len(families) == 1:
        return next(iter(families))
    return "; ".join(
        f"{text or 'required'} ({', '.join(names)})" for text, names in families.items()
    )


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is msgspec.NODEFAULT:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


MODEL_OPTIONS = DerivedOptions(tuple(_parameters()))


def given_parameters(values: dict[str, Any]) -> dict[str, Any]:
    """Return the given parameters of a model.

    Raises:
        ParameterError: A text of widths is invalid.
    """
    widths = {
        field.name
        for entry in FAMILIES.values()
        for field in option_fields(entry.job)
        if field.type == tuple[int, ...]
    }
    return {
        name: parse_widths(value, name) if name in widths else value
        for name, value in values.items()
        if value is not None
    }
