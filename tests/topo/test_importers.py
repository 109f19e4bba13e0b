"""Readers of machines: what all of them promise."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.errors import InputError
from sccl.topo import importers
from tests.kit.importers import HINTS, check_importer


@pytest.mark.parametrize("name", importers.names())
def test_conforms(name: str) -> None:
    check_importer(name)


TEXTS = st.text(max_size=200) | st.text(st.sampled_from("0123456789 \n\t:[]{},-.<>/\"'aGbpsmu"))


@pytest.mark.parametrize("name", importers.names())
@given(text=TEXTS)
def test_any_text_is_read_or_refused(name: str, text: str) -> None:
    importer = importers.load(name)
    importer.sniff(text)
    with contextlib.suppress(InputError):
        importer.read(text, HINTS)
