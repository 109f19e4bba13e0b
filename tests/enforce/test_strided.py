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
