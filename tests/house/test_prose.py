"""Documents and help are plain: few vague clauses, short sentences, the reader as "you"."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import pytest

from tests.kit.commands import COMMANDS
from tests.kit.paths import ROOT
from tests.kit.prose import FREE_CLAUSE, SPEECH, START, Prose, prose_of

DOCUMENTS = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "reference" not in page.parts
)
DOCUMENTS.append(ROOT / "benchmarks" / "README.md")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
GUIDES = [
    *NOTEBOOKS,
    ROOT / "docs" / "tutorial.md",
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
_ROLE = re.compile(r":\w+:`[^`]*`")
_FIELDS = re.compile(r"\n\s*(\w+: |Args:|Returns:|Raises:|Attributes:|Yields:)")
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


@pytest.mark.parametrize("page", [*DOCUMENTS, *NOTEBOOKS], ids=lambda p: str(p.relative_to(ROOT)))
def test_sentences_are_short(page: Path) -> None:
    assert prose_of(text_of(page)).longer_than(40) == []


def test_guides_address_the_reader() -> None:
    assert together(GUIDES).per_thousand(YOU) >= 6


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module, those of its constants included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield _FIELDS.sub(r"\n\n\1", _ROLE.sub("``code``", cleandoc(text)))


def test_docstrings_are_plain() -> None:
    files = sorted((ROOT / "sccl").rglob("*.py"))
    texts = (prose_of(text) for path in files for text in docstrings(path))
    text = Prose(tuple(sentence for part in texts for sentence in part.sentences))
    assert text.words > 100_000
    assert text.per_thousand(FREE_CLAUSE) <= 2
    assert text.per_thousand(SEMICOLON) <= 3
    assert text.share(START) <= 0.01


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
