"""Parse untrusted XML: elements, attributes and text, with the line of each. No entities.

An entity can refer to others, so that a few lines expand beyond any memory, or to another file:
entities are rejected (defusedxml), as are texts deeper or larger than a machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler

from defusedxml import DefusedXmlException, EntitiesForbidden
from defusedxml.sax import make_parser

from sccl.errors import FormatError, TooLargeError

MAX_DEPTH = 64
MAX_ELEMENTS = 2**17
MAX_ATTRIBUTES = 64
"""Limit for the attributes of an element."""


@dataclass(slots=True)
class Element:
    """An element, as it was read.

    Attributes:
        line: where it begins.
        text: all that is directly in it, beside its children.
    """

    tag: str
    line: int
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str:
        """Return an attribute, empty where it has none of that name."""
        return self.attributes.get(name, "")

    def descendants(self) -> Iterator[Element]:
        """Yield all elements in it, itself first, in the order of the text."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting.extend(reversed(element.children))


class _Attributes(Protocol):
    def items(self) -> list[tuple[str, str]]: ...


class _Parser(Protocol):
    def getLineNumber(self) -> int | None: ...  # noqa: N802


def parse_xml(text: str) -> Element:
    """Return the root element of a text in XML.

    Raises:
        InputError: it is not XML, or has entities, or is larger or deeper than is read.
    """
    parser = make_parser()
    handler = _Builder(parser)
    parser.setContentHandler(handler)
    parser.forbid_external = False  # a doctype may name a file, which is not read: none is
    try:
        parser.feed(text)
        parser.close()
    except SAXParseException as error:
        cause = " ".join(error.getMessage().split())
        raise FormatError(
            f"line {error.getLineNumber()}: not well-formed XML ({cause}): give the whole file, as "
            "the program wrote it"
        ) from error
    except DefusedXmlException as error:
        raise FormatError(
            f"line {handler.line()}: it declares or uses an entity, which no description of a "
            "machine needs: take the declaration out"
        ) from error
    except UnicodeEncodeError as error:
        raise FormatError(
            f"no XML: it has a character that no text has ({error.reason})"
        ) from error
    if handler.root is None:
        raise FormatError("no XML: it has no element")
    return handler.root


class _Builder(ContentHandler):
    """Build the elements from parser events."""

    def __init__(self, parser: _Parser) -> None:
        super().__init__()
        self.parser = parser
        self.root: Element | None = None
        self.open: list[Element] = []
        self.texts: list[list[str]] = []
        self.elements = 0

    def line(self) -> int:
        return self.parser.getLineNumber() or 1

    def startElement(self, name: str, attrs: _Attributes) -> None:  # noqa: N802
        self.elements += 1
        line, attributes = self.line(), dict(attrs.items())
        for count, limit, kind in (
            (self.elements, MAX_ELEMENTS, "elements"),
            (len(self.open) + 1, MAX_DEPTH, "elements in one another"),
            (len(attributes), MAX_ATTRIBUTES, "attributes of an element"),
        ):
            if count > limit:
                raise TooLargeError(f"line {line}: more than {limit} {kind}, the most that is read")
        element = Element(name, line, attributes)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)
        self.texts.append([])

    def endElement(self, name: str) -> None:  # noqa: ARG002, N802
        """Take the end of the element that was begun last."""
        self.open.pop().text = "".join(self.texts.pop())

    def skippedEntity(self, name: str) -> None:  # noqa: N802
        """Refuse an entity that a file would tell which is not read."""
        raise EntitiesForbidden(name, None, None, None, None, None)

    def characters(self, content: str) -> None:
        """Take text in the element that was begun last."""
        self.texts[-1].append(content)
