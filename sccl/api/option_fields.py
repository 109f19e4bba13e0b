"""Options as annotated fields of a class, with ranges and help in their annotations only.

A field is ``name: Annotated[type, Meta(ge=...), help, default_help] = default``. The last text
describes a default that is no value of its own, such as None. ``Meta(extra={"choices": words})``
lists the values of a text.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec


@dataclass(frozen=True, slots=True)
class OptionField:
    """An option for users.

    Attributes:
        type: Its type, without None and without its range.
        is_optional: Whether None is a value.
        default: Default value. ``msgspec.NODEFAULT``: the option is required.
        help: Description with its unit. Empty: see the class that declares the field first.
        default_help: Description of a default such as None. Empty: none.
        minimum: Smallest value. None: no limit.
        choices: Allowed words. Empty: any value.
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
    notes = getattr(hint, "__metadata__", ())
    meta = next((note for note in notes if isinstance(note, msgspec.Meta)), msgspec.Meta())
    hint = hint.__origin__ if notes else hint
    is_optional = get_origin(hint) in {Union, UnionType}
    if is_optional:
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    texts = (note for note in notes if isinstance(note, str))
    help_text, default_help, *_ = *texts, "", ""
    return OptionField(
        name=name,
        type=hint,
        is_optional=is_optional,
        default=default,
        help=help_text,
        default_help=default_help,
        minimum=meta.ge,
        choices=get_args(hint)
        if get_origin(hint) is Literal
        else (meta.extra or {}).get("choices", ()),
    )
