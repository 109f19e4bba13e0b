"""Options are declared once: functions and verbs have those of their structs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

import sccl
from sccl.api.option_fields import option_fields
from sccl.synth.common import registry
from sccl.synth.common.synthesis import BandwidthLike
from sccl.training.models import FAMILIES
from tests.kit.commands import COMMANDS

SHARED = {"collective", "topology", "size", "root", "sketch", "seed", "timeout_s", "progress"}
INPUTS = {
    "bandwidth": (BandwidthLike | None, None),
    "chunks": (int | None, None),
    "priorities": (Sequence[int], ()),
    "sketch": (str | Path, "auto"),
}
"""Types and defaults of arguments that are converted to options."""


@pytest.mark.parametrize("name", ["tacos", "teccl", "taccl"])
def test_function_has_the_options_of_its_struct(name: str) -> None:
    options: Any = registry.load(name).Options
    function = inspect.unwrap(getattr(sccl, name))
    hints, parameters = get_type_hints(function), inspect.signature(function).parameters
    fields = {field.name: field for field in option_fields(options)}
    budget = {"budget"} if options.DEFAULT_BUDGET else set()
    assert set(parameters) == SHARED | set(fields) | budget
    for field in fields.values():
        kind = field.type | None if field.is_optional else field.type
        is_converted = field.name in INPUTS and not (name == "taccl" and field.name == "chunks")
        expected = INPUTS[field.name] if is_converted else (kind, field.default)
        assert (hints[field.name], parameters[field.name].default) == expected, field.name
        assert field.help in " ".join(str(function.__doc__).split())
    assert parameters["budget"].default == options.DEFAULT_BUDGET if budget else True


@pytest.mark.parametrize("name", ["tacos", "teccl", "taccl"])
def test_verb_has_the_options_of_its_struct(name: str) -> None:
    options: Any = registry.load(name).Options
    parameters = {p.name: p for p in COMMANDS[f"sccl synth {name}"].params}
    for field in option_fields(options):
        assert parameters[field.name].help.split(". ")[0].rstrip(".") in field.help
        if field.name not in INPUTS:
            assert parameters[field.name].default == field.default


@pytest.mark.parametrize("name", registry.names())
def test_every_option_has_help_and_its_default_is_in_range(name: str) -> None:
    options: Any = registry.load(name).Options
    for field in option_fields(options):
        assert field.help.endswith("."), field.name
        assert field.default is not msgspec.NODEFAULT
    assert msgspec.convert(msgspec.to_builtins(options()), options) == options()


@pytest.mark.parametrize("family", FAMILIES)
def test_verb_has_the_parameters_of_each_family_of_models(family: str) -> None:
    parameters = {p.name: p for p in COMMANDS["sccl train make"].params}
    for field in option_fields(FAMILIES[family].job):
        shown = parameters[field.name]
        assert shown.help
        assert shown.default is None  # the preset's, or the family's
        default = field.default_help or str(field.default)
        if isinstance(field.default, int) and not isinstance(field.default, bool):
            assert default in shown.show_default
