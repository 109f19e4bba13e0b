"""GPU models: their names in tools, and the rates of their links."""

from __future__ import annotations

import pytest

from sccl.errors import UnknownNameError
from sccl.topo.importers.common.gpus import (
    ALPHA_US,
    GPU_NAMES,
    GPUS,
    NVLINK,
    PCIE_X16_GB_PER_S,
    SOCKET_GB_PER_S,
    XGMI,
    amd_gpu,
    describe_alpha,
    describe_impossible_links,
    describe_speed,
    find_gpu,
    find_partitions,
    nvidia_gpu,
    parse_gpu,
    pcie_gb_per_s,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("A100-PCIE-40GB", "a100"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("rtx3090", "rtx-3090"),
        ("NVIDIA L40S", "l40s"),
        ("AMD Instinct MI250X", "mi250x"),
        ("AMD Instinct MI300X OAM", "mi300x"),
        ("AMD Instinct MI300A", "mi300a"),
        ("B200", "b200"),
    ],
)
def test_gpu_is_known_by_what_tools_call_it(text: str, name: str) -> None:
    found = find_gpu(text)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("text", ["", "GPU", "NVIDIA", "a1000", "3090"])
def test_others_are_not_taken_for_one(text: str) -> None:
    assert find_gpu(text) is None


def test_user_hears_which_are_known() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown GPU 'h1000': did you mean 'h100'.*mi300x"):
        parse_gpu("h1000")


def test_every_name_is_its_own() -> None:
    assert len(set(GPU_NAMES)) == len(GPUS)
    for gpu in GPUS:
        assert parse_gpu(gpu.name) == gpu


def test_all_links_of_a_gpu_carry_what_its_data_sheet_says() -> None:
    for gpu in GPUS:
        assert (gpu.links == 0) == (gpu.gb_per_s == 0) == (gpu.link == "PCIe")
        if gpu.link == "PCIe":
            assert "PCIe only" in gpu.source
            continue
        both_ways = float(gpu.source.split(": ")[1].split()[0])
        links = 1 if "per link" in gpu.source else gpu.links
        assert 2 * links * gpu.gb_per_s == both_ways
        assert f"{gpu.gb_per_s:g} GB/s" in describe_speed(gpu)


def test_architectures_stand_for_their_usual_gpu() -> None:
    assert [gpu and gpu.name for gpu in map(nvidia_gpu, (60, 70, 80, 86, 89, 90, 100, 1))] == [
        *("p100", "v100", "a100", "a6000", "rtx-4090", "h100", "b200", None)
    ]
    assert [gpu and gpu.name for gpu in map(amd_gpu, ("906", "908", "910", "gfx942", "x"))] == [
        *("mi50", "mi100", "mi250x", "mi300x", None)
    ]
    assert [gpu and gpu.name for gpu in map(amd_gpu, ("940", "gfx940", "gfx941"))] == [
        *("mi300a", "mi300a", "mi300x")
    ]


def test_numbers_of_links_that_no_gpu_has_are_questioned() -> None:
    mi250x, h800 = parse_gpu("mi250x"), parse_gpu("h800")
    assert describe_impossible_links(XGMI, [7, 8], [3, 4], [mi250x]) == []
    assert describe_impossible_links(XGMI, [7, 9], [6, 4], [mi250x]) == [
        "GPU 1 has 9 xGMIs, and a GPU mi250x has at most 8",
        "GPU 0 has xGMIs to 6 GPUs, and a GPU mi250x has at most 5",
    ]
    assert describe_impossible_links(NVLINK, [18], [0], []) == []
    assert describe_impossible_links(NVLINK, [19], [0], []) == [
        "GPU 0 has 19 NVLinks, and no known GPU has more than 18"
    ]
    assert len(describe_impossible_links(NVLINK, [16], [1], [h800])) == 1
    assert describe_impossible_links(XGMI, [99], [99], [h800]) == []


def test_gpus_of_one_bus_and_device_are_partitions() -> None:
    assert find_partitions(["0000:05:00.0", "0000:05:01.0", "0000:05:00.3"]) == ((0, 2),)
    assert find_partitions(["GPU0", "GPU1"]) == ()


def test_slot_of_pcie_carries_what_its_generation_says() -> None:
    assert pcie_gb_per_s(3) == 12.5
    assert pcie_gb_per_s(5, 4) == pcie_gb_per_s(4, 8) == pcie_gb_per_s(3, 16)
    assert {gpu.pcie for gpu in GPUS} <= PCIE_X16_GB_PER_S.keys() & SOCKET_GB_PER_S.keys()


def test_latencies_are_said_with_where_they_are_from() -> None:
    for link, alpha_us in ALPHA_US.items():
        assert describe_alpha(link).startswith(f"alpha of {link} is {alpha_us:g} us (")
