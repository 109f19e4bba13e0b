"""Untrusted YAML: the supported subset, rejected files, and no side effects."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.errors import FormatError, InputError, TooLargeError
from sccl.topo.importers.common import plain_yaml
from sccl.topo.importers.common.plain_yaml import MAX_DEPTH, Node, parse_yaml

WORDS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=5)
NODES: st.SearchStrategy[Node] = st.recursive(
    WORDS,
    lambda inner: (
        st.none() | st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3)
    ),
)


@given(NODES)
def test_json_is_yaml(node: Node) -> None:
    assert parse_yaml(json.dumps(node)) == node


def test_numbers_stay_words() -> None:
    assert parse_yaml("a: [1, 0x10, 1e3, yes]\nb:\n  - c: 2.50\n") == {
        "a": ["1", "0x10", "1e3", "yes"],
        "b": [{"c": "2.50"}],
    }


def test_nothing_is_none_unless_it_is_quoted() -> None:
    assert parse_yaml('[~, null, "", "null"]') == [None, None, "", "null"]
    assert parse_yaml("a:\n") == {"a": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x\n", "line 2: aliases"),
        ("a: 1\na: 2\n", "line 2: key 'a' is there twice"),
        ("? [a]\n: 1\n", "line 1: a key is a list"),
        ("~: 1\n", "line 1: a key is a list, a mapping or nothing"),
        ("a\n---\nb\n", "2 documents"),
        ("", "0 documents"),
        ("a: [1\n", "line 2: no YAML"),
        ("a: \0", "no YAML"),
        ("a: \ud800", "no YAML"),
    ],
)
def test_motif_rejects_invalid_input(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["[" * 100_000, "a: " * 3 + "[{" * MAX_DEPTH, "- " * 100_000])
def test_deep_file_is_rejected(text: str) -> None:
    with pytest.raises(InputError):
        parse_yaml(text)


def test_large_file_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_yaml, "MAX_NODES", 100)
    assert parse_yaml("[" + "a," * 99 + "]") == ["a"] * 99
    with pytest.raises(TooLargeError, match="line 2: more than 100 entries"):
        parse_yaml("[\n" + "a," * 100 + "]")


@given(st.text(st.sampled_from("a1:-[]{},?&*!|>'\"%@# \n\t"), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    why = ""
    try:
        parse_yaml(text)
    except InputError as error:
        why = str(error)
    assert "\n" not in why
