"""Invalid text gives one sentence."""

from __future__ import annotations

import pytest

from sccl.core.files.json_text import parse
from sccl.core.files.shapes import TopologyWire
from sccl.errors import FormatError


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 2, ', "it, line 1 column 18: not JSON"),
        ('{"a": 1, "a": NaN}', "it: Object has the field `a` twice"),
        ('{"a": {"b": 1, "b": 2}', "it: Object has the field `b` twice"),
    ],
)
def test_key_that_comes_twice_in_what_is_no_json_either(text: str, says: str) -> None:
    with pytest.raises(FormatError) as told:
        parse(text, TopologyWire, "it")
    assert str(told.value).startswith(says)
