"""Results of calls with non-contiguous or aliased tensors, in every mode that uses gloo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.torch_jobs import finished, run_job


@pytest.mark.parametrize("release", ["oldest", "newest"])
@pytest.mark.parametrize("mode", ["gloo", "recorded"])
def test_strided_tensors_have_the_results_of_contiguous_ones(
    release: str, mode: str, tmp_path: Path
) -> None:
    env = {"SCCL_RECORD": str(tmp_path)} if mode == "recorded" else {"SCCL_BUNDLES": "0"}
    finished(run_job(release, 2, "torch_strided.py", env=env))


SHARED = """
import torch
from sccl.torch_backend.calls.call_description import CallDescription
from sccl.torch_backend.tensor_rows import OpRow
from sccl.torch_backend.script import ScriptMotif, ScriptOp
motif = ScriptMotif(channel=0, stream=0)
op = ScriptOp(id="a", collective="alltoall", groups=((0, 1),), count=4, dtype="float32",
              motifs=(motif,))
blocks = torch.arange(4.0)
row = OpRow(op, CallDescription("alltoall", (blocks,), (blocks,)), (0, 1), 0)
row.at(4, 6).fill_(9)  # the block from rank 1 comes, and the block for rank 1 has not left
assert row.at(2, 4).tolist() == [2, 3], row.at(2, 4)
row.finish()
assert blocks.tolist() == [0, 1, 9, 9], blocks
"""


def test_planned_exchange_in_shared_memory_sends_blocks_that_nothing_overwrites() -> None:
    finished(run_job("newest", 1, "run_code.py", SHARED))
