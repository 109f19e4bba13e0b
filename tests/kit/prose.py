"""Measure how plain a text is: rates of vague clauses and words, and lengths of sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median

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
