"""How a run of the golden tests compares: ``--golden``, ``--golden-since``, ``--update-golden``."""

from __future__ import annotations

import pytest

from tests.golden.records import Net


@pytest.fixture(scope="session")
def net(request: pytest.FixtureRequest) -> Net:
    """Return the way in which this run compares."""
    option = request.config.getoption
    return Net(
        values=option("--golden") == "values",
        since=option("--golden-since"),
        update=option("--update-golden"),
    )
