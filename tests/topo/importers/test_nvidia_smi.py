"""Matrices of nvidia-smi topo -m: every captured one, and any that could be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.topo import importers, resolve_topology
from sccl.topo.importers import Hints, Imported, Importer
from sccl.topo.importers.common.nvidia_matrix import MAX_CHARACTERS, parse_matrix
from sccl.topo.importers.nvidia_smi import EXAMPLE, read, sniff
from sccl.topo.measures import measure_topology
from tests.conftest import NO_SHARED
from tests.kit.importers import check_damage, check_imported
from tests.kit.matrices import PATHS, Shown, shown
from tests.kit.paths import SHARED
from tests.kit.samples import expected, imported, sample

SAMPLES = SHARED / "data" / "samples" / "nvidia_smi_topo"
HINTS = Hints("machine")
EXPECTED = expected("nvidia_smi_topo")


def _sample(name: str) -> str:
    return sample(f"nvidia_smi_topo/{name}").read_text()


def _read(name: str, **hints: Any) -> Imported:
    return imported(f"nvidia_smi_topo/{name}", "nvidia-smi", Hints("machine", **hints))


@pytest.mark.parametrize("name", EXPECTED)
def test_every_sample_is_read_as_it_says(name: str) -> None:
    text, known = _sample(name), EXPECTED[name]
    assert sniff(text)
    if "refuse" in known:
        with pytest.raises(FormatError, match="'OK' stands where GPU0 and GPU1 are joined"):
            read(text, HINTS)
        return
    matrix = parse_matrix(text)
    assert (matrix.gpus, len(matrix.rows)) == (known["gpus"], known["rows_present"])
    words = [list(matrix.rows[g][: matrix.gpus]) for g in matrix.rows]
    assert words == known["link_class"]
    nics = [list(matrix.rows[g][matrix.gpus :]) for g in matrix.rows]
    assert [row for row in nics if row] == known["gpu_to_nic_class"]
    bare = [nic.split(" ")[0] for nic in matrix.nics]
    assert bare == known["nics"] or [f"({nic})" for nic in matrix.nics] == known["nics"]
    _check_machine(check_imported(_importer(), text).topology, known)


def _importer() -> Importer:
    return importers.load_importer("nvidia-smi")


def _check_machine(topology: Topology, known: dict[str, Any]) -> None:
    assert topology.ranks == known["gpus"]
    assert measure_topology(topology).unreachable is None
    lanes = topology.lanes()
    for a, row in enumerate(known["lanes"]):
        for b, n in enumerate(row):
            if n:
                assert lanes[a, b] == lanes[b, a] == n
    budgets = {b.name: b.chunks_per_round for b in topology.budgets}
    switched = [name for name in budgets if name.startswith("egress of GPU")]
    assert bool(switched) == known["switched"]
    assert {budgets[name] for name in switched} <= {known["lanes_per_gpu"]}


@pytest.mark.parametrize(
    ("sample", "machine"),
    [
        ("dgx1v_8gpu_4nic.txt", "dgx1"),
        ("v100_8gpu_1nic_spaces.txt", "dgx1"),
        ("CONSTRUCTED_dgx2_16gpu.txt", "dgx2"),
        ("dgx2_16gpu_10nic_first_rows_only.txt", "dgx2"),
        ("dgx_a100_8gpu_12nic.txt", "dgx-a100"),
        ("h100_8gpu_spaces.txt", "dgx-h100"),
        ("h100_rows_0_6_glued_affinity_no_header.txt", "dgx-h100"),
    ],
)
def test_captured_machine_is_that_of_the_catalogue(sample: str, machine: str) -> None:
    mine, known = _read(sample).topology, resolve_topology(machine)
    assert (mine.links, mine.budgets) == (known.links, known.budgets)
    assert (mine.alpha_us, mine.gb_per_s) == (known.alpha_us, known.gb_per_s)


def test_nics_are_those_nearest_to_gpus() -> None:
    found = _read("a100_8gpu_10nic_nic_legend.txt")
    near = {(0, 1): (2, 3), (2, 3): (0, 1), (4, 5): (6, 7), (8, 9): (4, 5)}
    assert {nic.name: nic.ranks for nic in found.nics} == {
        f"NIC{i} (mlx5_{i})": gpus for nics, gpus in near.items() for i in nics
    }
    assert any(
        line.endswith("not nearest to any GPU: NIC6 (mlx5_6), NIC7 (mlx5_7)")
        for line in found.understood
    )
    assert {nic.ranks for nic in _read("v100_8gpu_1nic_spaces.txt").nics} == {tuple(range(8))}
    assert [nic.ranks for nic in _read("pcie_2gpu_a100_2nic.txt").nics] == [(0,), (1,)]


def test_missing_rows_and_headers_are_reported() -> None:
    assumed = _read("h100_rows_0_6_glued_affinity_no_header.txt").assumed
    assert "without a header: 8 GPUs and 10 NICs, by the rows" in assumed
    assert "no row for GPU 7: the other rows give its links" in assumed
    first = _read("dgx2_16gpu_10nic_first_rows_only.txt").assumed[0]
    assert first.endswith("13 14 15: switches join these as they join the others")


def test_gpu_option_overrides_the_file() -> None:
    b200 = _read("b200_8gpu.txt", gpu="NVIDIA B200").topology
    assert {link.gb_per_s for link in b200.links} == {50.0}
    guessed = _read("b200_8gpu.txt")
    assert {link.gb_per_s for link in guessed.topology.links} == {25.0}
    assert "b200, gb200, b300, gb300 would show as many, of 50 GB/s" in guessed.assumed


def test_gpu_that_has_fewer_nvlinks_is_rejected() -> None:
    with pytest.raises(InputError, match=r"GPU0 and GPU1 are joined by 2 NVLinks.*l40 has 0"):
        read(EXAMPLE, Hints("m", gpu="l40"))


def test_six_lanes_to_each_of_three_are_links_of_a_new_gpu_and_switches_of_an_old_one() -> None:
    text = Shown(4, dict.fromkeys([(a, b) for b in range(4) for a in range(b)], "NV6"), 0, "\t", "")
    assert read(text.text(), HINTS).topology.budgets == ()
    assert len(read(text.text(), Hints("m", gpu="v100")).topology.budgets) == 8


def _each_with_each(gpus: int, word: str) -> str:
    pairs = [(a, b) for b in range(gpus) for a in range(b)]
    return Shown(gpus, dict.fromkeys(pairs, word), 0, "\t", "").text()


@pytest.mark.parametrize(
    ("gpus", "links", "gpu", "out"),
    [
        (3, 8, None, 8),  # links of HGX A800 or H800, since no GPU has 16
        (3, 8, "a800", 8),
        (3, 4, None, 8),  # a board with four A100
        (3, 4, "a100", 8),
        (3, 2, None, 4),  # a board with four V100
        (3, 6, None, 12),  # a board with four H100
        (3, 6, "h100", 12),
        (3, 6, "v100", 6),  # a DGX-2
        (3, 12, None, 12),
        (3, 18, None, 18),
        (4, 4, None, 12),
        (4, 6, None, 18),
        (2, 8, None, 8),
    ],
)
def test_links_out_of_a_gpu_are_those_of_a_machine_that_exists(
    gpus: int, links: int, gpu: str | None, out: int
) -> None:
    found = read(_each_with_each(gpus, f"NV{links}"), Hints("m", gpu=gpu))
    assert set(found.topology.lanes().values()) == {links}
    limits = {b.chunks_per_round for b in found.topology.budgets}
    assert limits <= {out}
    assert out == (links if limits else links * (gpus - 1))
    both = any("--gpu v100 reads it so" in line for line in found.assumed)
    assert both == (gpus == 3 and links == 6 and gpu is None)


def test_cells_without_a_blank_between_them_are_two() -> None:
    machine = Shown(2, {(0, 1): "NV4"}, 3, "\t", "")
    apart = machine.text()
    words = {1: "NODE", 2: "SYS", 3: "PIX"}  # entry by row + column
    assert f"{words[2]}\t{words[3]}" in apart
    for row in (0, 1):
        line = next(line for line in apart.splitlines() if line.startswith(f"GPU{row}"))
        cells = line.split("\t")
        glued = "\t".join([*cells[:3], "".join(cells[3:5]), *cells[5:]])
        assert read(apart.replace(line, glued), HINTS) == read(apart, HINTS)


def test_rows_of_nics_are_those_of_gpus() -> None:
    row = "mlx5_0\tPIX\tPIX\tSYS\t X "
    assert row in EXAMPLE
    assert not any("not whole" in line for line in read(EXAMPLE, HINTS).understood)
    with pytest.raises(FormatError, match=r"^line 5 has SYS for mlx5_0 and GPU1, line 3 has PIX"):
        read(EXAMPLE.replace(row, "mlx5_0\tPIX\tSYS\tSYS\t X "), HINTS)
    found = read(EXAMPLE.replace(row, "mlx5_0\tPIX\tPIX"), HINTS)
    assert "not used: rows of mlx5_0, which are not whole" in found.understood


def test_gpu_off_the_switches_is_reached_over_pcie() -> None:
    topology = _read("b200_gpu2_without_nvlink_rows_0_5_no_header.txt", gpu="b200").topology
    slow = {link.edge: link.gb_per_s for link in topology.links if link.lanes == 1}
    assert slow.keys() == {e for g in range(8) if g != 2 for e in ((2, g), (g, 2))}
    assert (slow[0, 2], slow[2, 7]) == (50.0, 25.0)
    budgets = {b.name: b for b in topology.budgets}
    assert budgets["egress of GPU 0"].chunks_per_round == 18
    assert set(budgets["out of PCIe slot of GPU 2"].edges) == {e for e in slow if e[0] == 2}
    assert budgets["out of socket of GPUs 0 1 2 3"].gb_per_s == 25.0


def test_pcie_shares_what_a_switch_and_a_socket_let_pass() -> None:
    topology = _read("pcie_8gpu_4nic.txt", gpu="p40").topology
    assert len(topology.links) == 56
    shared = {b.name: (len(b.edges), b.chunks_per_round, b.gb_per_s) for b in topology.budgets}
    assert shared["out of PCIe slot of GPU 3"] == (7, 1, 12.5)
    assert shared["into PCIe switch of GPUs 6 7"] == (12, 1, 12.5)
    assert shared["out of host bridge of GPUs 0 1 2 3"] == (16, 1, 12.5)
    faster = {b.name: b.gb_per_s for b in _read("pcie_8gpu_4nic.txt", gpu="a100").topology.budgets}
    assert faster["into PCIe switch of GPUs 6 7"] == 25.0
    assert faster["out of socket of GPUs 0 1 2 3"] == 12.5


def test_pairs_of_nvlink_are_joined_by_pcie() -> None:
    topology = _read("nvlink_4gpu_nv1_pairs_spaces.txt").topology
    assert {link.edge for link in topology.links if link.gb_per_s == 12.5} == {
        *((a, b) for a in (0, 1) for b in (2, 3)),
        *((b, a) for a in (0, 1) for b in (2, 3)),
    }
    shared = {b.name: len(b.edges) for b in topology.budgets}
    slots = {f"{way} PCIe slot of GPU {g}": 2 for way in ("into", "out of") for g in range(4)}
    assert shared == slots | {"into socket of GPUs 0 1": 4, "out of socket of GPUs 0 1": 4}


def test_other_vendors_links_are_taken_for_one_lane_and_that_is_reported() -> None:
    found = _read("other_vendor_metax_8gpu_6nic.txt")
    fast = {link.edge for link in found.topology.links if link.alpha_us == 0.7}
    assert fast == {(a, b) for a in range(8) for b in range(8) if a != b and a // 4 == b // 4}
    assert any("MX has one link of 25 GB/s" in line for line in found.assumed)


def test_underlined_headers_are_read_as_plain_ones() -> None:
    lines = EXAMPLE.splitlines()
    for style in ("\x1b[4m", "[4m"):
        styled = "\n".join([lines[0].replace("GPU0", f"{style}GPU0") + "\x1b[0m", *lines[1:]])
        assert read(styled, HINTS) == read(EXAMPLE, HINTS)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("GPU0\t X \tNV2", "GPU0\t X \tNV3", "line 2 has NV3 for GPU0 and GPU1, line 3 has NV2"),
        ("GPU1\tNV2\t X ", "GPU1\tNV2\tNV2", "line 3: expected the X of GPU1 in column 1"),
        (
            "\tGPU0\tGPU1\tGPU2",
            "\tGPU0\tGPU1",
            "line 4 describes GPU2, which the header does not list",
        ),
        ("\tGPU0\tGPU1\tGPU2", "\tGPU0\tGPU1\tGPU1", "header names the GPUs 0, 1, 1: expected 0"),
        ("\tSYS\tPIX\t0-19\t0\nGPU1", "\nGPU1", "line 2: the end of the line stands where GPU0"),
        ("GPU0\t X \tNV2\tSYS", "GPU0\t X \tNV2\tETH", "line 2: 'ETH' stands where GPU0 and GPU2"),
        ("GPU0\t X \tNV2\tSYS", "GPU0\tNV2\t X \tSYS", "line 2: expected the X of GPU0 in column"),
        ("GPU1\tNV2", "GPU0\tNV2", "line 3: expected the X of GPU0 in column 0"),
        (
            "NV2\t X \tSYS\tPIX",
            "NV2\t X \tSYS\tPIXpix",
            "line 3: 3 cells, then 'PIXpix', expected 4",
        ),
        ("NV2\t X \tSYS\tPIX", "NV2\t X \tSYS", "line 3: 3 cells, then '0-19', expected 4"),
        ("NV2\t X \tSYS\tPIX", "NV2\t X \tSYS\tPIX\tPIX", "line 3: 5 cells, .* expected 4"),
    ],
)
def test_error_names_its_line(old: str, new: str, says: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(FormatError, match=says):
        read(EXAMPLE.replace(old, new), HINTS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no row of a GPU"),
        ("GPU0 X\n", "1 GPU, expected at least 2"),
        ("GPU0 X NV4 NV4 NV4\n", "rows of GPUs 1 2 3 are missing, and no other row has the link"),
        ("GPU999 X\n", "1000 GPUs, and matrices are read to 64"),
    ],
)
def test_unreadable_file_is_rejected(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(text, HINTS)


def test_too_long_matrix_is_rejected() -> None:
    with pytest.raises(TooLargeError, match="give the output of nvidia-smi topo -m alone"):
        read(EXAMPLE + " " * MAX_CHARACTERS, HINTS)


@given(shown())
def test_any_matrix_is_read_back(machine: Shown) -> None:
    matrix = parse_matrix(machine.text())
    assert matrix.words() == machine.words
    assert matrix.nics == tuple(f"mlx5_{i}" for i in range(machine.nics))
    topology = read(machine.text(), HINTS).topology
    assert measure_topology(topology).unreachable is None
    fast = {pair: int(word[2:]) for pair, word in machine.words.items() if word[:2] == "NV"}
    lanes = topology.lanes()
    assert {pair: lanes[pair] for pair in fast} == fast
    assert replace(topology.reversed(), budgets=()) == replace(topology, budgets=())


@given(shown())
def test_budgets_are_what_words_say_of_each_pair(machine: Shown) -> None:
    """Return, slowly and from the entries alone, which GPUs share a budget."""
    topology = read(machine.text(), HINTS).topology
    slow = {
        link.edge
        for link in topology.links
        if machine.words[min(link.edge), max(link.edge)] in PATHS
    }
    for budget in topology.budgets:
        kind = budget.name.split(" of ")[-2] if "PCIe" in budget.name else budget.name
        inside = {int(word) for word in budget.name.split() if word.isdigit()}
        if budget.name.startswith(("egress", "ingress")):
            assert len(inside) == 1
            continue
        end = 0 if budget.name.startswith("out") else 1
        expected = {e for e in slow if e[end] in inside and e[1 - end] not in inside}
        assert set(budget.edges) == expected, kind


@pytest.mark.parametrize("name", ["dgx1v_8gpu_4nic.txt", "v100_8gpu_1nic_indented.txt"])
def test_damage_is_read_or_refused(name: str) -> None:
    check_damage(_importer(), _sample(name))


def test_folder_of_samples_has_nothing_unknown() -> None:
    if not SAMPLES.is_dir():
        pytest.skip(NO_SHARED)
    assert {path.name for path in Path(SAMPLES).glob("*.txt")} == set(EXPECTED)
