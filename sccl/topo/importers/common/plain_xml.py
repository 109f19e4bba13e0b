"""Parse untrusted XML without entities: elements, attributes and text, with line numbers.

Nested entities can expand a few lines beyond any memory, and an entity can refer to another file.
So entities are rejected (defusedxml), and so are texts deeper or larger than the description of a
machine.
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
"""Maximum number of attributes of an element."""


@dataclass(slots=True)
class Element:
    """An XML element.

    Attributes:
        line: Line number of its start tag.
        text: Text directly in it, without that of its children.
    """

    tag: str
    line: int
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str:
        """Return an attribute, empty if it is missing."""
        return self.attributes.get(name, "")

    def descendants(self) -> Iterator[Element]:
        """Yield the element and all elements in it, in the order of the text."""
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
        InputError: The text is not XML, has entities, or exceeds the limits.
    """
    parser = make_parser()
    handler = _Builder(parser)
    parser.setContentHandler(handler)
    parser.forbid_external = False  # a doctype may name a file, but no file is read
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
        """Close the innermost open element."""
        self.open.pop().text = "".join(self.texts.pop())

    def skippedEntity(self, name: str) -> None:  # noqa: N802
        """Reject an entity that is defined in an external file."""
        raise EntitiesForbidden(name, None, None, None, None, None)

    def characters(self, content: str) -> None:
        """Add text to the innermost open element."""
        self.texts[-1].append(content)
