"""Traces of real jobs next to the project: their content by a correct reader."""

from __future__ import annotations

import pytest

from sccl.core.files.json_text import to_text
from sccl.errors import InputError
from sccl.training.files.workloads import workload_from_text, workload_to_wire
from sccl.training.traces import ParsedWorkload, TraceHints, iterate_files, read_workload
from sccl.training.traces.readers import StepSelection, kineto, pytorch_et
from sccl.training.traces.readers.common.contract import Kernel, TracedCall, TracedWait
from sccl.training.traces.readers.common.kineto_events import read_events
from sccl.training.types.workload_ops import CommOp, Dependency, HostEvent
from tests.kit.samples import sample
from tests.kit.traces import check_damaged_trace
from tests.kit.workloads import SUBMIT, WAIT

TIMED, NAMED = "pytorch/dlrm_kineto.tar.gz", "pytorch/dlrm_pytorch_et.tar.gz"


def unpacked(name: str) -> list[tuple[str, bytes]]:
    return list(iterate_files(sample(f"traces/{name}")))


def imported(*names: str, **hints: int) -> ParsedWorkload:
    """Return the workload of samples, of one rank some, which comes back from its file."""
    traces = [one for name in names for one in unpacked(name)]
    found = read_workload(traces, TraceHints(alike=True, **hints), "sample")  # type: ignore[arg-type]
    text = to_text(workload_to_wire(found.workload))
    assert workload_from_text(text, "w") == found.workload
    assert to_text(workload_to_wire(workload_from_text(text, "w"))) == text
    return found


def test_step_of_dlrm_on_8_ranks_tells_its_collectives_and_waits() -> None:
    of_rank = dict(unpacked(NAMED))
    (zero,) = [content for name, content in of_rank.items() if name.endswith("eg_0.json")]
    trace = pytorch_et.read(zero, "zero", StepSelection())
    assert (trace.rank, trace.world) == (0, 8)
    assert len(of_rank) == 8
    assert [call.request for call in trace.calls()] == [*range(147, 155)]
    waits = [event.request for event in trace.events if isinstance(event, TracedWait)]
    assert waits == [141, 142, 147, 148, 152]
    uneven = (96, 224, 288, 1664, 592, 96, 192, 240)
    assert trace.calls()[3].send_splits == uneven
    found = imported(NAMED).workload
    ops = list(found.collectives())
    assert [(op.collective, op.size_bytes) for op in ops] == [
        ("alltoall", 24_576),
        ("alltoall", 192),
        ("alltoall", 1_536),
        ("alltoall", 13_568),
        ("allreduce", 1_576_964),
        ("alltoall", 24_576),
        ("allreduce", 448),
        ("allreduce", 907_840),
    ]
    assert [op.id for op in ops if op.splits] == ["alltoall-3"]
    assert ops[3].splits == (uneven,) * 8
    assert {op.group for op in ops} == {tuple(range(8))}
    assert [(role.name, len(role.ranks)) for role in found.roles] == [("all", 8)]


def edges(workload: ParsedWorkload) -> set[tuple[str, str, int]]:
    """Return the dependencies of a step, with computation named by its line alone."""
    return {
        (dep.before.split("/")[-1], dep.after.split("/")[-1], dep.lag)
        for dep in workload.workload.deps
    }


def test_same_step_has_the_dependencies_that_its_waits_state() -> None:
    both, timed = imported(TIMED, NAMED), imported(TIMED)
    assert set(both.workload.deps) == set(timed.workload.deps)
    assert set(both.workload.deps) == {
        Dependency("alltoall-2", "all/24/2", 1),  # lengths and indices of the next batch
        Dependency("alltoall-3", "all/24/2", 1),
        Dependency("all/7/2", "alltoall-0"),
        Dependency("alltoall-0", "all/7/4"),
        Dependency("all/24/4", "alltoall-1"),
        Dependency("alltoall-1", "all/24/6"),
        Dependency("all/24/6", "alltoall-2"),
        Dependency("all/24/6", "alltoall-3"),
        Dependency("all/7/8", "allreduce-4"),
        Dependency("all/7/9", "alltoall-5"),
        Dependency("all/7/10", "allreduce-6"),
        Dependency("alltoall-5", "all/7/12"),
        Dependency("all/7/12", "allreduce-7"),
        *(Dependency(f"allreduce-{n}", "all/7/16") for n in (4, 6, 7)),
    }
    (program,) = both.workload.submits
    assert program == timed.workload.submits[0]
    lines = [*program.events]
    assert lines[:2] == [HostEvent(WAIT, f"alltoall-{n}", 1) for n in (2, 3)]
    assert sum(line.action is SUBMIT for line in lines) == 8
    across = {edge for edge in edges(imported(NAMED)) if edge[2]}
    assert across == {("alltoall-2", "2", 1), ("alltoall-3", "2", 1)}
    assert [op.splits for op in timed.workload.collectives()] == [()] * 8


def test_same_step_takes_the_time_that_its_kernels_took() -> None:
    for name, content in unpacked(TIMED):
        trace = kineto.read(content, name, StepSelection())
        kernels = [event for event in trace.events if isinstance(event, Kernel)]
        assert {kernel.stream for kernel in kernels} == {"7", "22", "24"}
        assert trace.step == 10
        assert [call.collective for call in trace.calls()].count("alltoall") == 5
        if trace.rank == 0:
            assert sum(call.duration_us or 0 for call in trace.calls()) == 5798
            assert sum(kernel.duration_us for kernel in kernels) == 1053
    found = imported(TIMED).workload
    assert (found.iteration_us, found.left_out_us) == (16126, 8722.5)


def test_same_step_is_as_long_as_the_host_takes_where_that_is_kept() -> None:
    found = imported(TIMED, host_time=True).workload
    assert [role.name for role in found.roles] == ["all"]
    host = [op for op in found.computation() if op.stream == "host"]
    assert len(host) == 14
    assert sum(op.duration_us for op in host) == 13380.5
    assert found.left_out_us == 0
    without = imported(TIMED).workload
    took = [op.duration_us for op in found.computation() if op.stream != "host"]
    assert took == [op.duration_us for op in without.computation()]
    called = [op for op in without.deps if op.after in {c.id for c in without.collectives()}]
    after_host = [op for op in found.deps if op.before.startswith("all/host/")]
    assert {op.after for op in called} < {op.after for op in after_host}


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_of_128_has_two_steps(rank: int) -> None:
    name = f"kineto/kineto_rank{rank}_of_128_dlrm.json.gz"
    ((where, content),) = unpacked(name)
    trace = read_events(content, where)
    assert (trace.rank, trace.world) == (rank, 128)
    assert [mark.number for mark in trace.marks] == [551, 552]
    kernels = [one for one in trace.device if not one.name.startswith("Mem")]
    assert len(kernels) == (1154, 1104)[rank]
    assert {one.stream for one in kernels} == {"7", "23", "84", "203"}
    assert sum("SendRecv" in one.name for one in kernels) == 10
    for step in (551, 552):
        found = imported(name, step=step)
        kinds = {op.collective for op in found.workload.collectives()}
        assert kinds == {"allreduce", "alltoall", "allgather"}
        assert found.workload.roles[0].ranks == tuple(range(128))
        assert "127 of 128 ranks were not traced: they do the same" in found.assumed


def test_two_ranks_of_which_events_were_cut_out_disagree() -> None:
    names = [f"kineto/kineto_rank{rank}_of_128_dlrm.json.gz" for rank in (0, 1)]
    with pytest.raises(InputError, match=r"ranks disagree about call 0 of group \(0, 1, .*rank 1"):
        imported(*names)


def test_trace_of_the_host_alone_does_not_tell_its_ranks() -> None:
    name = "kineto/kineto_cpu_only_all_to_all_no_distributed_info.json.gz"
    with pytest.raises(
        InputError, match="the number of ranks is not in the traces: give --ranks N"
    ):
        imported(name)
    found = imported(name, ranks=8)
    assert [op.collective for op in found.workload.collectives()] == ["alltoall"] * 6
    assert found.workload.iteration_us == 75_473
    assert any("no device" in line for line in found.assumed)


def test_step_of_resnet_on_2_ranks_adds_up_its_gradients() -> None:
    name = "kineto/pytorch_et_1.1.0_resnet_2gpu.json.gz"
    ((where, content),) = unpacked(name)
    steps = [pytorch_et.read(content, where, StepSelection(step)) for step in (4, 5, 6)]
    calls = [call for step in steps for call in step.calls()]
    assert [call.collective for call in calls].count("allreduce") == 15
    assert [call.collective for call in calls].count("broadcast") == 6
    assert steps[0].rank == 1
    found = imported(name)
    assert found.workload.source == "pytorch-et of 1 rank, step 5"
    ops = list(found.workload.collectives())
    sizes = [op.count for op in ops if op.collective == "allreduce"]
    assert sizes == [2_049_000, 7_875_584, 6_563_840, 6_637_568, 2_431_040]
    assert {op.root for op in ops} == {0, None}


def test_allgathers_of_an_older_schema_are_read() -> None:
    found = imported("kineto/pytorch_et_1.0.2_allgather.json.gz").workload
    wanted = [CommOp(f"allgather-{n}", "allgather", (0, 1), 2, "float32") for n in range(10)]
    assert list(found.collectives()) == wanted


@pytest.mark.parametrize(
    "name",
    [
        "pytorch_et_1.0.1_linear_no_comm.json.gz",
        "pytorch_et_1.1.1_triton_no_comm.json",
        "kineto_alexnet_cuda_sync_no_comm.json.gz",
        "kineto_mi250_train_no_comm.json.gz",
    ],
)
def test_trace_without_collectives_is_rejected(name: str) -> None:
    with pytest.raises(InputError, match="the selected part has no collectives"):
        imported(f"kineto/{name}")


def test_real_traces_are_damaged_without_harm() -> None:
    for name, reader in ((TIMED, kineto), (NAMED, pytorch_et)):
        _, content = unpacked(name)[0]
        assert any(
            isinstance(e, TracedCall) for e in reader.read(content, name, StepSelection()).events
        )
        check_damaged_trace(reader, content, 40)
