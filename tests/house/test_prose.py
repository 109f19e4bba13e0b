"""Documents and help are plain: few vague clauses, short sentences, the reader as "you"."""

from __future__ import annotations

import ast
import json
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from io import StringIO
from pathlib import Path
from statistics import median

import pytest

from tests.kit.commands import COMMANDS
from tests.kit.paths import ROOT

_NOT_PROSE = re.compile(
    r"^(```|~~~).*?^\1|<!--.*?-->|!\[[^\]]*\]\([^)]*\)", re.MULTILINE | re.DOTALL
)


_NO_SENTENCE = re.compile(r"^\s*(\||#|    ).*$", re.MULTILINE)


_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


_CODE = re.compile(r"``[^`]*``|`[^`]*`")


_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+", re.MULTILINE)


_END = re.compile(r"(?:(?<=[.:;?!])|(?<=[.?!]\)))\s+(?=[A-Z(*`])|\n\s*\n|\x00")


FREE_CLAUSE = re.compile(r"\b(?:what|whatever|whoever|those who)\b(?![^.?!]*\?)", re.IGNORECASE)


SPEECH = re.compile(r"\b(?:said|told|says|tells)\b", re.IGNORECASE)


START = re.compile(r"^\**(?:Of|What|Whatever|Who|Whoever|Whom|Where|Beside|Nor|Likewise)\b")


@dataclass(frozen=True, slots=True)
class Prose:
    """Sentences of a text, without code, tables, headings, and pictures."""

    sentences: tuple[str, ...]

    @property
    def words(self) -> int:
        """Return the number of words."""
        return sum(len(sentence.split()) for sentence in self.sentences)

    def per_thousand(self, pattern: re.Pattern[str]) -> float:
        """Return the number of matches per 1,000 words."""
        matches = sum(len(pattern.findall(sentence)) for sentence in self.sentences)
        return 1000 * matches / max(self.words, 1)

    def share(self, pattern: re.Pattern[str]) -> float:
        """Return the share of sentences with a match."""
        hits = sum(bool(pattern.search(sentence)) for sentence in self.sentences)
        return hits / max(len(self.sentences), 1)

    def longer_than(self, words: int) -> list[str]:
        """Return the sentences with more words."""
        return [sentence for sentence in self.sentences if len(sentence.split()) > words]

    def median_length(self) -> float:
        """Return the median number of words of a sentence."""
        return median(len(sentence.split()) for sentence in self.sentences)


def prose_of(markdown: str) -> Prose:
    """Return the sentences of a Markdown text. Each item of a list is one sentence."""
    text = _NO_SENTENCE.sub("", _NOT_PROSE.sub("", markdown))
    text = _ITEM.sub("\x00", _CODE.sub("CODE", _LINK.sub(r"\1", text)))
    parts = (" ".join(part.split()) for part in _END.split(text))
    return Prose(tuple(part for part in parts if len(part.split()) > 2))


DOCUMENTS = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "reference" not in page.parts
)
DOCUMENTS.append(ROOT / "benchmarks" / "README.md")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
GUIDES = [
    *NOTEBOOKS,
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
_ROLE = re.compile(r":\w+:`[^`]*`")
_FIELDS = re.compile(r"\n\s*(\w+: |Args:|Returns:|Raises:|Attributes:|Yields:)")
_EXAMPLE = re.compile(r"^( *)>>> .*\n(?:\1\S.*(?:\n|\Z))*", re.MULTILINE)
_DIRECTIVE = re.compile(r"^#\s*(?:noqa: [A-Z0-9, ]+|type: ignore\S*)(?:\s*-)?")
PACKAGES = [
    "benchmarks",
    "tests",
    *sorted(f"sccl/{p.parent.name}" for p in (ROOT / "sccl").glob("*/__init__.py")),
]
SEMICOLON, YOU = re.compile(";"), re.compile(r"\byou(?:rs?)?\b", re.IGNORECASE)


def text_of(page: Path) -> str:
    """Return a page's Markdown, for a notebook that of its cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def together(pages: list[Path]) -> Prose:
    texts = (prose_of(text_of(page)) for page in pages)
    return Prose(tuple(sentence for text in texts for sentence in text.sentences))


def test_documents_are_plain() -> None:
    text = together([*DOCUMENTS, *NOTEBOOKS])
    assert text.per_thousand(FREE_CLAUSE) <= 2
    assert text.per_thousand(SPEECH) <= 1
    assert text.per_thousand(SEMICOLON) <= 3
    assert text.share(START) <= 0.01
    assert text.median_length() <= 17
    assert text.longer_than(40) == []


def test_how_to_pages_have_300_to_600_words() -> None:
    for page in (ROOT / "docs" / "how-to").glob("*.md"):
        assert 300 <= len(page.read_text(encoding="utf-8").split()) <= 600, page


def test_guides_address_the_reader() -> None:
    assert together(GUIDES).per_thousand(YOU) >= 6


def docstrings(source: str) -> Iterator[str]:
    """Yield the docstrings of a module, those of its constants included."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                lines = _EXAMPLE.sub("", cleandoc(text))
                yield _FIELDS.sub(r"\n\n\1", _ROLE.sub("``code``", lines))


def comments(source: str) -> Iterator[str]:
    """Yield the comments of a module, with neighboring lines as one text."""
    next_line, lines = 0, list[str]()
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        stands_alone = token.line.strip() == token.string
        if not stands_alone or token.start[0] != next_line:
            yield " ".join(lines)
            lines = []
        lines.append(_DIRECTIVE.sub("", token.string).lstrip("#").strip())
        next_line = token.start[0] + 1 if stands_alone else 0
    yield " ".join(lines)


def prose_in(files: Iterable[Path]) -> Prose:
    sources = [path.read_text(encoding="utf-8") for path in files]
    texts = (prose_of(text) for s in sources for text in (*docstrings(s), *comments(s)))
    return Prose(tuple(sentence for text in texts for sentence in text.sentences))


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_comments_are_plain(package: str) -> None:
    text = prose_in(sorted((ROOT / package).rglob("*.py")))
    assert text.words > 500
    assert text.per_thousand(FREE_CLAUSE) <= 2
    assert text.per_thousand(SEMICOLON) <= 3
    assert text.share(START) <= 0.01


def test_docstrings_of_root_modules_are_plain() -> None:
    text = prose_in(sorted((ROOT / "sccl").glob("*.py")))
    assert text.per_thousand(FREE_CLAUSE) <= 2
    assert text.per_thousand(SEMICOLON) <= 3
    assert text.share(START) <= 0.01


def test_comments_are_read_without_directives() -> None:
    source = "a = 1  # one; two\n# of a\n# row\nb = 2  # noqa: E501 - what long\n"
    assert list(filter(None, comments(source))) == ["one; two", "of a row", "what long"]
    assert list(docstrings('"""Text. :func:`f`.\n\n>>> a; b\nc\n"""')) == ["Text. ``code``.\n\n"]


def test_help_is_plain() -> None:
    helps = [
        text
        for command in COMMANDS.values()
        for text in (command.help, *(getattr(one, "help", None) for one in command.params))
        if text
    ]
    text = prose_of("\n\n".join(helps))
    assert text.per_thousand(FREE_CLAUSE) <= 2
    assert text.per_thousand(SPEECH) <= 1
    assert text.share(START) <= 0.01
    assert text.longer_than(40) == []


def test_measures_count_words_and_ignore_code() -> None:
    text = prose_of(
        "What was said, he told us; so it says `what`.\n\n| told |\n\n- Of course it does.\n"
    )
    assert text.sentences == ("What was said, he told us; so it says CODE.", "Of course it does.")
    assert text.words == 14
    assert [round(text.per_thousand(one) * 14 / 1000) for one in (FREE_CLAUSE, SPEECH)] == [1, 3]
    assert text.share(START) == 1
    assert text.longer_than(9) == [text.sentences[0]]
