"""Options as fields of a class, whose ``Meta`` is the only place of their ranges and help.

A field is ``name: Annotated[type, Meta(ge=..., description=help)] = default``. The help of a
default that is no value, such as None, is ``extra={"default": help}``, and ``extra={"choices":
words}`` are the values of a text.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec


@dataclass(frozen=True, slots=True)
class OptionField:
    """An option, as users see it.

    Attributes:
        type: Its type, without None and without its range.
        is_optional: Whether None is a value.
        default: Default value. ``msgspec.NODEFAULT``: none, it is required.
        help: Description with its unit. Empty: see the class that declares the field first.
        default_help: Help of a default that is no value. Empty: none.
        minimum: Smallest value. None: any.
        choices: Its values, if they are words. Empty: any.
    """

    name: str
    type: Any
    is_optional: bool
    default: Any
    help: str
    default_help: str
    minimum: float | None
    choices: tuple[str, ...]


def option_fields(options: type) -> tuple[OptionField, ...]:
    """Return the options of a struct or a dataclass, in the order of its fields."""
    hints = get_type_hints(options, include_extras=True)
    if is_dataclass(options):
        defaults = {
            field.name: msgspec.NODEFAULT if field.default is MISSING else field.default
            for field in fields(options)
        }
    else:
        defaults = {field.name: field.default for field in msgspec.structs.fields(options)}
    return tuple(_option_field(name, hints[name], default) for name, default in defaults.items())


def _option_field(name: str, hint: Any, default: Any) -> OptionField:
    meta = msgspec.Meta()
    if get_origin(hint) is Annotated:
        hint, meta = get_args(hint)
    is_optional = get_origin(hint) in {Union, UnionType}
    if is_optional:
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    extra = meta.extra or {}
    return OptionField(
        name=name,
        type=hint,
        is_optional=is_optional,
        default=default,
        help=meta.description or "",
        default_help=extra.get("default", ""),
        minimum=meta.ge,
        choices=get_args(hint) if get_origin(hint) is Literal else extra.get("choices", ()),
    )
