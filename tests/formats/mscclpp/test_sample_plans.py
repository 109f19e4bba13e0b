"""Plans that lie in MSCCL++'s own repository: read, executed and judged."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sccl.errors import FormatError
from sccl.formats import mscclpp
from sccl.formats.mscclpp_plans.plan_file import OPERATIONS, PlanPart, parse_plan
from tests.kit.mscclpp import faults_of
from tests.kit.samples import sample


@dataclass(frozen=True, slots=True)
class Fact:
    """Known content of a sample.

    Attributes:
        names: Operations that it contains, among others.
        channels: All kinds of its channels.
        notes: Number of exceeded limits.
    """

    size: int
    ranks: int
    about: str
    names: frozenset[str]
    channels: frozenset[str]
    notes: int = 0


def _fact(size: int, ranks: int, about: str, names: str, channels: str, notes: int = 0) -> Fact:
    return Fact(size, ranks, about, frozenset(names.split()), frozenset(channels.split()), notes)


PUTS = "signal wait nop"
FACTS = {
    "allreduce": _fact(32570, 2, "allreduce, Simple", f"rlxsignal rlxwait rres {PUTS}", "memory"),
    "allreduce_packet": _fact(7569, 2, "allreduce, LL", "ppkt respkt upkt", "memory"),
    "allreduce_pipeline": _fact(
        20027, 4, "allreduce, Simple", "pipeline glres sem_acquire sem_release", "memory switch", 4
    ),
    "exec_reduce": _fact(8631, 2, "allreduce, Simple", "copy get put rres res rre", "memory"),
    "exec_reduce_nvls": _fact(5321, 2, "allreduce, Simple", "glres", "memory switch"),
    "exec_reduce_pack": _fact(6500, 2, "allreduce, LL", "recspkt", "memory"),
    "exec_reduce_tbg": _fact(17607, 2, "allreduce, Simple", "rres rre copy put", "memory"),
    "exec_transfer_pack": _fact(4582, 2, "allgather, LL", "cpkt ppkt rppkt upkt", "memory"),
    "exec_multi_node_transfer": _fact(
        7827, 2, "allgather, Simple", "put pws pwsf flush", "port", 4
    ),
}


def plan(name: str) -> tuple[bytes, PlanPart]:
    content = sample(f"mscclpp_json/plan_2025/{name}.json").read_bytes()
    return content, parse_plan(content, name)


@pytest.mark.parametrize("name", FACTS)
def test_plan_holds_what_is_known_of_it(name: str) -> None:
    fact, (content, found) = FACTS[name], plan(name)
    assert len(content) == fact.size
    read = mscclpp.read(content, name)
    assert read.about.startswith(f"an MSCCL++ plan of {fact.ranks} ranks, {fact.about}, ")
    blocks = [block for gpu in found.gpus for block in gpu.threadblocks]
    names = {op.name for block in blocks for op in block.all_ops()}
    assert fact.names <= names <= OPERATIONS
    assert {c.channel_type for gpu in found.gpus for c in gpu.channels} == fact.channels
    refused = name == "allreduce_pipeline"  # its buffers have no chunks
    assert (len(read.refused), len(read.notes)) == ((fact.notes, 0) if refused else (0, fact.notes))


@pytest.mark.parametrize("name", [name for name in FACTS if name != "exec_reduce_tbg"])
def test_plan_does_what_its_collective_asks_for(name: str) -> None:
    content, _ = plan(name)
    assert faults_of(content) == []


def test_plan_whose_slices_await_the_wrong_thread_block_races() -> None:
    """It was written for timing, so its data are not compared."""
    content, found = plan("exec_reduce_tbg")
    sizes = {
        op.tbg_info.tbg_size
        for gpu in found.gpus
        for block in gpu.threadblocks
        for op in block.ops
        if op.tbg_info
    }
    assert sizes == {2}
    faults = faults_of(content)
    assert {fault.kind for fault in faults} >= {"race", "unwritten"}


def test_initial_buffers_are_read() -> None:
    _, found = plan("allreduce")
    assert found.max_message_size == 2**64 - 1
    assert all(gpu.remote_buffers and gpu.semaphores == [] for gpu in found.gpus)
    _, piped = plan("allreduce_pipeline")
    assert all(gpu.semaphores for gpu in piped.gpus)
    assert any(op.ops for gpu in piped.gpus for block in gpu.threadblocks for op in block.ops)
    switch = [c for gpu in piped.gpus for c in gpu.channels if c.channel_type == "switch"]
    assert {(c.buff, c.buffer_type) for c in switch} == {("s", None)}
    _, through = plan("exec_reduce_nvls")
    assert all(gpu.switches() == [("i", [0, 1])] for gpu in through.gpus)


@pytest.mark.parametrize("name", ["allreduce", "allreduce_packet", "sendrecv", "sendrecv_packet"])
def test_plans_of_the_older_design_are_told_from_others(name: str) -> None:
    content = sample(f"mscclpp_json/plan_2024/{name}.json").read_bytes()
    assert mscclpp.sniff(content)
    with pytest.raises(FormatError, match=r"older format .*MSCCL\+\+ 0\.5 to 0\.7, which"):
        mscclpp.read(content, name)


def test_older_design_is_known_by_its_fields() -> None:
    with pytest.raises(FormatError, match="write it anew with a later MSCCL"):
        mscclpp.read(b'{"gpus": [{"inputChunks": 1, "threadblocks": []}]}', "old.json")
