"""Options as fields of a class, whose ``Meta`` is the only place of their ranges and help.

A field is ``name: Annotated[type, Meta(ge=..., description=help)] = default``. The help of a
default that is no value, such as None, is ``extra={"default": help}``.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec


@dataclass(frozen=True, slots=True)
class OptionField:
    """An option, as users see it.

    Attributes:
        type: Its type, without None and without its range.
        is_optional: Whether None is a value.
        default: Default value. ``msgspec.NODEFAULT``: none, it is required.
        help: Description with its unit.
        default_help: Help of a default that is no value. Empty: none.
    """

    name: str
    type: Any
    is_optional: bool
    default: Any
    help: str
    default_help: str


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
    kind, meta = get_args(hint)
    is_optional = get_origin(kind) in {Union, UnionType}
    if is_optional:
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return OptionField(
        name, kind, is_optional, default, meta.description, (meta.extra or {}).get("default", "")
    )
