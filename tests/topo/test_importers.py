"""Readers of machines: what all of them promise."""

from __future__ import annotations

import pytest

from sccl.topo import importers
from tests.kit.importers import check_importer


@pytest.mark.parametrize("name", importers.names())
def test_conforms(name: str) -> None:
    check_importer(name)
