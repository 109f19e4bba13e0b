"""Options that go together: a verb takes them as one value, a command line one by one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def flatten_options(verb: Callable[..., T]) -> Callable[..., T]:
    """Return a verb that takes each field of its groups as a parameter, which Typer can read.

    A group is a dataclass whose fields are options.
    """
    groups: dict[str, tuple[type, list[Parameter]]] = {}
    parameters: list[Parameter] = []
    for parameter in _parameters(verb):
        kind = parameter.annotation
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind, _parameters(kind)
            parameters += groups[parameter.name][1]
        else:
            parameters.append(parameter)

    @wraps(verb)
    def call(**values: Any) -> T:
        """Make the values of the groups, and call the verb with them."""
        made = {
            name: kind(**{field.name: values.pop(field.name) for field in fields})
            for name, (kind, fields) in groups.items()
        }
        return verb(**made, **values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a verb or a group of options, with resolved type hints."""
    hints = get_type_hints(function, include_extras=True)
    return [
        parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(function).parameters.items()
    ]
