"""TACCL's plans for two nodes as programs: written, read back, run by the interpreter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sccl.api.export import export
from sccl.formats import msccl_xml, mscclpp
from sccl.formats.msccl.msccl_program import parse_program
from tests.kit.commands import sccl
from tests.kit.formats import program_faults

RELAY = {
    "nnodes": 2,
    "intranode_sketch": {"strategy": "none"},
    "internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]}},
    "symmetry_offsets": [[8, 16]],
    "hyperparameters": {"input_chunkup": 1},
}
"""Two NDv2: GPU 0 of each sends to GPU 1 of the other."""

PAIRED = {
    "nnodes": 2,
    "intranode_sketch": {
        "strategy": "switch",
        "switches": [list(range(16))],
        "switch_hyperedge_strategy": ["uc-min"],
    },
    "internode_sketch": {
        "strategy": "relay",
        "internode_conn": {str(g): [g - 1] for g in range(1, 16, 2)},
    },
    "symmetry_offsets": [[2, 16], [16, 32]],
    "hyperparameters": {"input_chunkup": 1},
}
"""Two DGX-2: of each pair of GPUs, which share a NIC, the odd one sends to the even one."""

EFFORT = {"ndv2x2": "1", "teccl-dgx2x2": "0.05"}
MACHINES: dict[str, dict[str, Any]] = {"ndv2x2": RELAY, "teccl-dgx2x2": PAIRED}


@pytest.mark.nightly
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("collective", ["allgather", "allreduce", "alltoall"])
def test_plans_for_two_nodes_are_run(machine: str, collective: str, tmp_path: Path) -> None:
    (tmp_path / "sketch.json").write_text(json.dumps(MACHINES[machine]))
    given = ("--collective", collective, "--topo", machine, "--sketch", tmp_path / "sketch.json")
    size = "1KB" if collective == "allgather" else "64KB"
    little = ("--size", size, "--alpha", "occupies", "--budget", EFFORT[machine])
    plan = tmp_path / "plan.json"
    code, _, err = sccl("synth", "taccl", *given, *little, "-o", plan)
    assert (code, err) == (0, "")
    for told in ((), ("instances=2", "dialect=azure")):
        export(plan, format="msccl-xml", path=tmp_path / "plan.xml", options=told)
        content = (tmp_path / "plan.xml").read_bytes()
        read = msccl_xml.read(content, "file").plan
        assert program_faults(read) == []
        assert read is not None
        assert read.collective.name == collective
        steps = [s for *_, block in parse_program(content, "").blocks() for s in block.steps]
        several = {s.count > 1 for s in steps if s.type == "s"}
        assert several == {False, True} or told or machine != "ndv2x2"
    export(plan, format="mscclpp", path=tmp_path / "again.json")
    assert mscclpp.read((tmp_path / "again.json").read_bytes(), "file").notes == ()
