"""Check the arguments of public functions against their type hints.

This module replaces beartype and ``msgspec.convert``. Both refuse NumPy's integers. Beartype also
takes 0.19 s to load and accepts True as a number, and ``msgspec.convert`` does not support
functions, paths, and unions of project classes.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import wraps
from numbers import Integral, Real
from os import PathLike
from textwrap import fill
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from sccl.api.option_fields import option_fields
from sccl.errors import ParameterError

P = ParamSpec("P")
R = TypeVar("R")
NamedChoice = TypeVar("NamedChoice", bound=StrEnum)

_TYPE_TEXT: dict[Any, str] = {
    NoneType: "None",
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    str: "a text",
    PathLike: "a path",
    Callable: "a function",
    Iterable: "a list",
    Mapping: "a dict",
}

_SHARED_ARGUMENTS = {
    "collective": "Name, file, or result of :func:`collective`.",
    "topology": "Name, file, or topology.",
    "size": "Size of a rank's buffer.",
    "root": "Root of broadcast, reduce, gather, and scatter, by number or label. None: rank 0.",
    "sketch": "File of a sketch, TACCL's or sccl's. Only the links that it permits are used, and "
    ":attr:`Schedule.bound_us` refers to them. Its symmetries are not imposed.",
    "budget": "Search budget. 1 takes some seconds.",
    "seed": "Seed. The same seed and budget give the same schedule.",
    "timeout_s": "Seconds after which the best schedule so far is returned. None: no limit.",
    "progress": "Whether to show progress, or a function that receives each line of it.",
}
"""Descriptions of arguments that several functions have."""


_RENAMED = {"effort": "budget", "seconds": "budget"}
"""Arguments by their older names, which work for one release."""


def describe_arguments(*options: type, **others: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that adds the section ``Args`` to the docstring of a function.

    Args:
        options: Classes whose fields describe the arguments of their names.
        others: Descriptions of further arguments.
    """
    texts = dict(_SHARED_ARGUMENTS)
    for option in (field for kind in options for field in option_fields(kind)):
        default = f" Default: {option.default_help}." if option.default_help else ""
        texts[option.name] = option.help + default
    texts |= others

    def describe(function: Callable[P, R]) -> Callable[P, R]:
        """Add the section ``Args`` before ``Raises``."""
        entries = (
            fill(f"    {name}: {texts[name]}", 96, subsequent_indent=" " * 8)
            for name in inspect.signature(function).parameters
        )
        summary, errors, rest = (inspect.getdoc(function) or "").partition("Raises:\n")
        function.__doc__ = "\n".join([f"{summary}Args:", *entries, "", f"{errors}{rest}"])
        return function

    return describe


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments against its type hints.

    Numbers of other libraries, such as NumPy's, are converted to Python's. Wrong types raise
    ParameterError.
    """
    signature = inspect.signature(function)
    kinds: dict[str, tuple[Any, ...]] = {}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        """Check the arguments, and call the function with them."""
        if not kinds:  # hints may name types that are imported after this module
            hints = get_type_hints(function)
            kinds.update((name, tuple(_permitted_classes(hint))) for name, hint in hints.items())
        called = _call_name(function, args)
        for old in _RENAMED.keys() & kwargs.keys() - signature.parameters.keys():
            new = _RENAMED[old]
            note = f"{called}: {old} is now {new}; the old name works until version 0.3"
            warnings.warn(note, DeprecationWarning, stacklevel=2)
            kwargs[new] = kwargs.pop(old)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{called}: {error}; see help({called})") from None
        for name, value in bound.arguments.items():
            label = f"{called}: {name}"
            if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(
                    _coerce(label, element, kinds[name]) for element in value
                )
            elif name in kinds:  # all but self and cls
                bound.arguments[name] = _coerce(label, value, kinds[name])
        return function(*bound.args, **bound.kwargs)

    return call


def _call_name(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return the public name of a function. A method gets the class of its object."""
    name = function.__name__
    if "." not in function.__qualname__:
        return f"sccl.{name}"
    owner = args[0] if args else None
    kind = owner if isinstance(owner, type) else type(owner)
    return f"sccl.{kind.__name__}.{name}"


def check_wrapped_kind(wrapper: object, kind: type | UnionType, instead: str) -> None:
    """Check the type of the value (``.value``) in a wrapper.

    Args:
        instead: Recommended way to get such a value.

    Raises:
        ParameterError: The value has another type.
    """
    value = wrapper.value  # type: ignore[attr-defined]
    if not isinstance(value, kind):
        raise ParameterError(
            f"sccl.{type(wrapper).__name__} is given {value!r:.60}, expected an object of the "
            f"public API: use {instead}"
        )


def _permitted_classes(hint: Any) -> list[Any]:
    """Return the classes that a type hint permits, without their parameters."""
    if get_origin(hint) in (Union, UnionType):
        return [kind for part in get_args(hint) for kind in _permitted_classes(part)]
    if get_origin(hint) is Literal:
        return [type(value) for value in get_args(hint)]
    origin = get_origin(hint) or hint
    return [Callable if origin is get_origin(Callable[[], None]) else origin]


def coerce_to_hint(label: str, value: Any, hint: Any) -> Any:
    """Return a value, converted to the type of its hint.

    Raises:
        ParameterError: It has another type.
    """
    return _coerce(label, value, tuple(_permitted_classes(hint)))


def _coerce(label: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        number = {int: Integral, float: Real}.get(kind)
        if number and isinstance(value, number) and not isinstance(value, bool):
            with suppress(OverflowError):
                return kind(value)
        if not number and (callable(value) if kind is Callable else isinstance(value, kind)):
            return value
    names = list(dict.fromkeys(_TYPE_TEXT.get(kind, _type_label(kind)) for kind in kinds))
    expected = " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    raise ParameterError(f"{label} is {_short_repr(value)}, expected {expected}")


def _type_label(kind: type) -> str:
    """Return the display name of a class: its ``type_label``, or else its name."""
    return str(getattr(kind, "type_label", f"a {kind.__name__}"))


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def parse_choice(name: str, text: str | None, kind: type[NamedChoice]) -> NamedChoice | None:
    """Return the member of an enumeration with this value. None: None.

    Raises:
        ParameterError: No member has this value.
    """
    if text is None or text in (texts := [member.value for member in kind]):
        return None if text is None else kind(text)
    raise ParameterError(f"{name} is {text!r}, expected {' or '.join(texts)}")
