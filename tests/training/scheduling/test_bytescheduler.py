"""ByteScheduler's core as a baseline: errors, and its order compared with our policy's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.syndicate_bytescheduler import Core, compare_orders
from benchmarks.syndicate_systems import Systems
from sccl.errors import ParameterError
from sccl.training.fabric_names import resolve_fabric
from sccl.training.models import generate_dlrm
from tests.kit.workloads import RECOMMENDING

CHECKOUT = os.environ.get("SCCL_BYTESCHEDULER", "")


def test_folder_without_a_core_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"has no bytescheduler/common/bytecore\.py"):
        Core(tmp_path)


# Nothing installs that core: who has a checkout has one test more.
if CHECKOUT:

    def test_with_one_piece_at_a_time_its_order_is_that_of_our_policy() -> None:
        systems = Systems(generate_dlrm(RECOMMENDING), resolve_fabric("hgx2x2"), 0.0)
        rows = list(compare_orders(Core(Path(CHECKOUT)), "job", systems))
        assert len(rows) == 4
        assert rows[0].period_us == rows[1].period_us
        assert all(row.period_us >= row.bound_us for row in rows)
