"""List the fields and attributes of a file that its importer ignores.

Otherwise a misspelled field would silently count as absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import inspect

from sccl.errors import FormatError
from sccl.topo.importers.common.plain_xml import Element

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element as ParsedElement

MAX_SHOWN = 8
"""Maximum number of names in a line."""

UNUSED = "not used: "
"""Beginning of the line that lists names."""

_PLAIN = re.compile(r"[A-Za-z0-9_.<>\[\] -]{1,60}")


def unused_names(names: Iterable[str]) -> str:
    """Join the first distinct names in a line. Names with special characters are quoted."""
    distinct = list(dict.fromkeys(names))
    shown = [name if _PLAIN.fullmatch(name) else ascii(name[:60]) for name in distinct[:MAX_SHOWN]]
    more = [f"{len(distinct) - MAX_SHOWN} more"] if len(distinct) > MAX_SHOWN else []
    return ", ".join([*shown, *more])


def unused_line(names: Iterable[str]) -> tuple[str, ...]:
    """Return the summary line that lists names, empty without names."""
    line = unused_names(names)
    return (f"{UNUSED}{line}",) if line else ()


def unused_attributes(
    root: Element | ParsedElement,
    names_by_tag: Mapping[str, frozenset[str]],
    free: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Yield the elements and attributes of an XML file that its format does not define.

    Args:
        names_by_tag: The names of attributes, by tag.
        free: Tags whose content is ignored.
    """
    waiting: list[Element | ParsedElement] = [root]
    while waiting:
        element = waiting.pop()
        if element.tag in free:
            continue
        attributes = names_by_tag.get(element.tag)
        if attributes is None:
            yield f"<{element.tag}>"
            continue
        names, children = _element_content(element)
        for name in names:
            if name not in attributes:
                yield f"{name} of <{element.tag}>"
        waiting.extend(reversed(children))


def _element_content(
    element: Element | ParsedElement,
) -> tuple[Mapping[str, str], Sequence[Element | ParsedElement]]:
    if isinstance(element, Element):
        return element.attributes, element.children
    return element.attrib, list(element)


def decoded_json(text: str | bytes) -> object:
    """Decode a JSON text to dicts, lists and scalars, including fields that a struct lacks.

    Raises:
        FormatError: It is no JSON, or nested too deep, or has a number out of range.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"no JSON that can be read ({error}): check the fields") from error


def unused_field_paths(
    node: object, shape: type[msgspec.Struct], ignored: frozenset[str] = frozenset()
) -> Iterator[str]:
    """Yield the paths of fields in a decoded JSON or YAML file that a struct does not have.

    Args:
        node: dicts, lists and scalars.
        ignored: names of fields without information on the machine.
    """
    waiting: list[tuple[object, inspect.Type, str]] = [(node, inspect.type_info(shape), "")]
    while waiting:
        value, kind, path = waiting.pop()
        if isinstance(kind, inspect.UnionType):
            waiting.extend((value, member, path) for member in kind.types)
        elif isinstance(kind, inspect.StructType) and isinstance(value, dict):
            fields = {field.encode_name: field.type for field in kind.fields}
            for name, inner in value.items():
                if name in fields:
                    waiting.append((inner, fields[name], f"{path}{name}."))
                elif name not in ignored:
                    yield f"{path}{name}"
        elif isinstance(kind, inspect.ListType) and isinstance(value, list):
            inner_path = f"{path.removesuffix('.')}[]."
            waiting.extend((inner, kind.item_type, inner_path) for inner in value)
