"""Parse untrusted YAML: lists, mappings, words and null, and only as deep as requested.

Repeated anchors can expand a few lines beyond any memory. So anchors are rejected, and so are texts
deeper or larger than the description of a machine. Numbers stay words, for the shape that they are
checked against. JSON is YAML, too.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
import yaml

from sccl.errors import FormatError, TooLargeError

MAX_DEPTH = 16
MAX_NODES = 2**22
"""Maximum number of lists, mappings and words together."""

Node = str | list["Node"] | dict[str, "Node"] | None

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
"""Unquoted words that mean null."""

Shape = TypeVar("Shape", bound=msgspec.Struct)

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast with libyaml


def to_struct(node: Node, shape: type[Shape], expected: str) -> Shape:
    """Convert a parsed node to a struct. Fields that the struct lacks are ignored.

    Args:
        expected: Expected form, for messages.

    Raises:
        FormatError: The node has another shape.
    """
    try:
        return msgspec.convert(node, shape, strict=False)
    except msgspec.ValidationError as error:
        raise FormatError(f"{error}; expected {expected}") from error


def parse_yaml(text: str) -> Node:
    """Parse a text in YAML. Every number stays a word.

    Raises:
        InputError: The text is not YAML, has anchors, or is too large or too deep.
    """
    try:
        return _Reader().read_node(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise FormatError(f"{line}no YAML ({_parse_error_text(error.problem)})") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise FormatError(f"no YAML ({_parse_error_text(str(error))})") from error


def _parse_error_text(text: str | None) -> str:
    return " ".join((text or "not understood").split())


class _Reader:
    """Build nodes from parser events."""

    def __init__(self) -> None:
        self.open: list[list[Node] | dict[str, Node]] = []
        self.keys: list[str | None] = []  # pending key of each open node
        self.root: list[Node] = []
        self.nodes = 0

    def read_node(self, text: str) -> Node:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.AliasEvent):
                raise _refusal(event, "aliases (*name) are not supported: repeat the text")
            if isinstance(event, yaml.ScalarEvent):
                empty = event.implicit[0] and event.value in _NULLS
                self._add(event, None if empty else event.value)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._begin(event, [])
            elif isinstance(event, yaml.MappingStartEvent):
                self._begin(event, {})
            elif isinstance(event, yaml.CollectionEndEvent):
                self.open.pop()
                self.keys.pop()
        if len(self.root) != 1:
            raise FormatError(f"{len(self.root)} documents, expected one")
        return self.root[0]

    def _begin(self, event: yaml.NodeEvent, node: list[Node] | dict[str, Node]) -> None:
        self._add(event, node)
        self.open.append(node)
        self.keys.append(None)
        if len(self.open) > MAX_DEPTH:
            raise TooLargeError(
                f"line {_line(event)}: nested deeper than {MAX_DEPTH} levels, the most that is read"
            )

    def _add(self, event: yaml.NodeEvent, node: Node) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLargeError(
                f"line {_line(event)}: more than {MAX_NODES} entries, the most that is read"
            )
        if not self.open:
            self.root.append(node)
            return
        into, key = self.open[-1], self.keys[-1]
        if isinstance(into, list):
            into.append(node)
        elif key is not None:
            into[key] = node
            self.keys[-1] = None
        elif not isinstance(node, str):
            raise _refusal(event, "a key is a list, a mapping or nothing: expected a word")
        elif node in into:
            raise _refusal(event, f"key {node!r} is there twice: leave one")
        else:
            self.keys[-1] = node


def _refusal(event: yaml.Event, why: str) -> FormatError:
    return FormatError(f"line {_line(event)}: {why}")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
