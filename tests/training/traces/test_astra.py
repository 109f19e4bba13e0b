"""Text workloads of ASTRA-sim: dependencies in each kind of parallelism."""

from __future__ import annotations

import pytest

from sccl.training.traces import iterate_files
from sccl.training.traces.readers import astra
from sccl.training.traces.readers.common.contract import Kernel, TracedCall, TracedWait
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import Dependency
from tests.kit.samples import sample
from tests.kit.traces import WANTED, refusal_of, workload_of

LAYERS = """2
a -1 1000 ALLGATHER 8 2000 ALLREDUCE 16 3000 ALLREDUCE 32 1
b -1 4000 ALLGATHER 64 5000 ALLREDUCE 128 6000 ALLREDUCE 256 1
"""


def lines(text: str) -> list[str]:
    """Return the program of a text: microseconds, bytes that are called, numbers waited for."""
    found = []
    for event in astra.read(text.encode(), "t", WANTED).events:
        match event:
            case Kernel():
                found.append(f"{event.duration_us:g}")
            case TracedCall():
                found.append(f"+{event.input_elements}")
            case TracedWait():
                found.append(f"-{event.request}")
    return found


def test_data_parallel_gradients_are_waited_for_by_the_next_iteration() -> None:
    # Two calls an iteration: requests 2 and 3, before them 0 (of layer b) and 1.
    assert lines(f"DATA\n{LAYERS}") == ["-1", "1", "-0", "4", "6", "+256", "5", "3", "+32"]
    found = workload_of(f"DATA\n{LAYERS}".encode(), ranks=4).workload
    assert [dep for dep in found.deps if dep.lag] == [
        Dependency("allreduce-1", "all/npu/1", 1),
        Dependency("allreduce-0", "all/npu/2", 1),
    ]
    assert found.roles[0].ranks == (0, 1, 2, 3)
    assert found.source == "astra of all ranks"


def test_model_parallel_collectives_are_waited_for_at_once() -> None:
    assert lines(f"MODEL\n{LAYERS}") == [
        *("1", "+8", "-3", "4", "+64", "-4"),
        *("5", "+128", "6", "-5", "2", "3"),
    ]
    assert lines(f"HYBRID_DATA_MODEL\n{LAYERS}") == [
        *("-4", "1", "+8", "-5", "-3", "4", "+64", "-6"),
        *("5", "+128", "6", "+256", "-7", "2", "3", "+32"),
    ]


def test_dlrm_lookups_overlap_the_bottom_network() -> None:
    layers = (
        "3\ne -1 1 ALLTOALL 8 1 ALLTOALL 16 1 NONE 0 1\n"
        "bottom -1 2 NONE 0 2 NONE 0 2 ALLREDUCE 32 1\ntop -1 3 NONE 0 3 NONE 0 3 ALLREDUCE 64 1\n"
    )
    assert lines(f"HYBRID_DLRM 1\n{layers}") == [
        *("0.001", "+8", "-3", "-4", "0.002", "-1", "0.003"),
        *("0.003", "+64", "0.003", "+16", "0.002", "+32", "0.002", "-6", "0.001"),
    ]


def test_forward_of_a_checkpoint_is_recomputed() -> None:
    rows = "".join(f"l{i} -1 {1000 * i + 1000} NONE 0 500 NONE 0 250 NONE 0 1\n" for i in range(3))
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 1 0 "
    text = f"{head}checkpoint_initiates: 1 2\n3\n{rows}"
    forward, backward = ["1", "2", "3"], ["0.5", "0.25"]
    assert lines(text) == [*forward, "1", "2", *backward * 3]


def groups(workload: Workload) -> set[tuple[int, ...]]:
    return {op.group for op in workload.collectives()}


def test_ranks_that_share_a_model_and_those_that_have_a_part_of_it_call_together() -> None:
    text = f"HYBRID_TRANSFORMER model_parallel_NPU_group: 2\n{LAYERS}".encode()
    found = workload_of(text, ranks=4).workload
    assert groups(found) == {(0, 1), (2, 3), (0, 2), (1, 3)}
    assert [len(role.ranks) for role in found.roles] == [1] * 4
    by_kind = {op.collective: op.group for op in found.collectives()}
    assert by_kind["allgather"] in {(0, 1), (2, 3)}
    assert "2 ranks share a model, and --ranks is 5" in refusal_of(text, ranks=5)
    plain = workload_of(f"HYBRID_DATA_MODEL\n{LAYERS}".encode(), ranks=4)
    assert groups(plain.workload) == {(0, 1, 2, 3)}
    assert any("the file does not divide ranks between models" in line for line in plain.assumed)


ROW = "x -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SOLO\n1\n" + ROW, "t0, line 1: it begins with 'SOLO', expected one of DATA, MODEL"),
        ("DATA\n2\n" + ROW, "t0: it states 2 layers and has 1: it may be cut off"),
        ("DATA\n0\n", "t0: it states 0 layers and has 0"),
        ("DATA\nmany\n" + ROW, "t0, line 2: layers is 'many', expected 0 to 20000"),
        ("DATA\n1\nx -1 1\n", "t0, line 3: it has 3 columns, expected 11 or more"),
        ("DATA\n1\n" + ROW.replace("1", "-7", 2), "t0, line 3: a time is '-7', expected 0 to"),
        ("DATA\n1\n" + ROW.replace("NONE", "SHIFT", 1), "t0, line 3: 'SHIFT' is none of NONE, ALL"),
        ("HYBRID_DLRM\n1\n" + ROW, "t0, line 1: the last bottom layer is ''"),
        ("HYBRID_DLRM 4\n1\n" + ROW, "t0, line 1: there is no layer 4 of 1"),
        (
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 2 1\n1\n" + ROW,
            "t0, line 1: checkpoints names fewer layers than its count",
        ),
        (
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 1 3 checkpoint_initiates: 1 2\n1\n" + ROW,
            "t0, line 1: there is no checkpoint before layer 2",
        ),
    ],
)
def test_bad_texts_are_a_sentence(text: str, says: str) -> None:
    told = refusal_of(text.encode(), format="astra", ranks=4)
    assert told.startswith(says) or says in told
    assert "\n" not in told


def test_how_many_ranks_there_are_has_to_be_told() -> None:
    text = f"DATA\n{LAYERS}".encode()
    assert "the number of ranks is not in the traces: give --ranks N" in refusal_of(text)
    assert refusal_of(text, text) == (
        "t0: it describes all ranks (astra), and t1 another job (astra): give one of the two"
    )
    assert "no step markers" in refusal_of(text, step=3)


def test_excessive_recomputation_is_rejected() -> None:
    many = 2000
    every = " ".join(map(str, range(1, many)))
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 1 0"
    text = f"{head} checkpoint_initiates: {many - 1} {every}\n{many}\n{ROW * many}"
    assert "it recomputes more layers than sccl reads" in refusal_of(text.encode())


@pytest.mark.parametrize(
    ("name", "layers", "collectives"),
    [
        ("Resnet50_DataParallel", 54, {"allreduce": 54}),
        ("DLRM_HybridParallel", 8, {"allreduce": 7, "alltoall": 2}),
        ("MLP_ModelParallel", 6, {"allgather": 6, "allreduce": 5}),
        ("MLP_HybridParallel_Data_Model", 6, {"allgather": 6, "allreduce": 11}),
        ("Transformer_HybridParallel", 57, {"allgather": 8, "allreduce": 62}),
        ("Transformer_HybridParallel_Fwd_In_Bckwd", 21, {"allreduce": 29}),
    ],
)
def test_samples_are_read_whole(name: str, layers: int, collectives: dict[str, int]) -> None:
    ((where, content),) = iterate_files(sample(f"traces/astra_text/{name}.txt"))
    trace = astra.read(content, where, WANTED)
    found = [call.collective for call in trace.calls()]
    assert {kind: found.count(kind) for kind in found} == collectives
    pieces = sum(isinstance(event, Kernel) for event in trace.events)
    again = 16 if name.endswith("Bckwd") else 0  # from layer 11 to 19, and from 2 to 10
    parallel = name.startswith(("Resnet", "DLRM"))  # the first layer has no gradient of inputs
    assert pieces == 3 * layers - parallel + again
    assert workload_of(content, ranks=16).workload.ranks == 16


def test_astra_header_says_how_many_ranks_there_are() -> None:
    head = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 4"
    text = f"{head}\n{LAYERS}".encode()
    found = workload_of(text)
    assert found.workload.ranks == 4
    assert workload_of(text, ranks=4).workload == found.workload
    assert refusal_of(text, ranks=8) == "t0: it has 4 ranks, and --ranks is 8: leave --ranks out"
    assert found.unread == ("times of updates of weights (column 12)",)


def test_astra_reports_words_and_columns_that_are_not_used() -> None:
    head = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 pp: 4 pp_comm: 8192 vpp: 1 x stray"
    rows = "1\na 0 1000 ALLGATHER 8 2000 ALLREDUCE 16 3000 ALLREDUCE 32 0 more\n"
    assert workload_of(f"{head}\n{rows}".encode(), ranks=4).unread == (
        (
            "ignored words of line 1, which may change the behavior of ranks: pp: 4, "
            "pp_comm: 8192, vpp: 1 x stray"
        ),
        "columns from 13 on of 1 layer",
        "dependencies of 1 layer (column 2)",
    )
    assert not workload_of(f"DATA\n{LAYERS}".replace(" 1\n", " 0\n").encode(), ranks=4).unread


def test_astra_refuses_a_list_of_more_layers_than_it_counts() -> None:
    head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 1 0 1 checkpoint_initiates: 1 2"
    text = f"{head}\n3\n{ROW * 3}".encode()
    assert "checkpoints names more layers than its count" in refusal_of(text, ranks=4)
