"""Plans of MSCCL++ for tests: written, judged, and held against its own parser."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from sccl.core.algorithm import Algorithm
from sccl.formats import mscclpp
from sccl.formats.common.contract import SizedPlan
from sccl.formats.common.program_graph import GraphFault
from sccl.formats.mscclpp_plans.plan_file import parse_plan
from sccl.formats.mscclpp_plans.plan_graph import build_graph
from tests.kit.formats import program_faults
from tests.kit.processes import PATIENCE_S

PARSER = "SCCL_MSCCLPP_PARSER"
"""Names a program that holds a plan against MSCCL++'s own parser."""

LL, SIMPLE = mscclpp.PlanProtocol.LL, mscclpp.PlanProtocol.SIMPLE


def write_plan(algorithm: Algorithm, **told: Any) -> bytes:
    """Return an algorithm's plan."""
    options = mscclpp.Options(**told)
    (content,) = mscclpp.write([SizedPlan("plan", algorithm)], options).files.values()
    return content


def faults_of(content: bytes) -> list[GraphFault]:
    """Return the faults of a plan under every speed of its thread blocks."""
    return program_faults(build_graph(parse_plan(content, "plan")))


def complaint(content: bytes, folder: Path) -> str:
    """Return the error of MSCCL++'s own parser on a plan, for any of its ranks, or an empty text.

    Each chunk has 4,096 bytes.
    """
    file = folder / "plan.json"
    file.write_bytes(content)
    gpus = parse_plan(content, "plan").gpus
    sizes = [str(count * 4096) for count in (gpus[0].input_chunks, gpus[0].output_chunks)]
    words = [os.environ[PARSER], str(file), str(len(gpus)), *sizes]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return "" if done.returncode == 0 else done.stdout or done.stderr
