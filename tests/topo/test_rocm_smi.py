"""Tables of rocm-smi and amd-smi: every captured one, and any that could be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sccl.errors import FormatError, InputError, TooLargeError
from sccl.topo import importers, measure, resolve
from sccl.topo.importers import Hints, Imported, Importer
from sccl.topo.importers.rocm_smi import EXAMPLE, read, sniff
from sccl.topo.importers.rocm_tables import HOPS, LINKS, MAX_CHARACTERS, WEIGHT, tables_of
from tests.conftest import NO_SHARED
from tests.kit.importers import check_damage, check_imported, refusal
from tests.kit.matrices import ShownByRocm, shown_by_rocm
from tests.kit.paths import SHARED
from tests.kit.samples import imported, sample

SAMPLES = SHARED / "data" / "samples" / "rocm_smi_topo"
HINTS = Hints("machine")

REFUSED = {
    "1gpu_linktype_only.txt": "it shows 1 GPU, expected at least 2",
    "mi250x_8gpu_weight_row0_only.txt": "rows of GPUs 1 2 3 4 5 6 7 are missing",
}
TABLES = {"weight": WEIGHT, "hops": HOPS, "link_type": LINKS}


def _expected() -> dict[str, dict[str, Any]]:
    file = SAMPLES / "expected.json"
    return json.loads(file.read_text()) if file.exists() else {"": {}}


def _importer() -> Importer:
    return importers.load("rocm-smi")


def _read(name: str, **hints: Any) -> Imported:
    return imported(f"rocm_smi_topo/{name}", "rocm-smi", Hints("machine", **hints))


@pytest.mark.parametrize("name", _expected())
def test_every_sample_is_read_as_it_says(name: str) -> None:
    text, expected = sample(f"rocm_smi_topo/{name}").read_text(), _expected()[name]
    assert sniff(text)
    tables = tables_of(text)
    assert len(tables.gpus) == expected["gpus"]
    assert [int(tables.numa[gpu]) for gpu in sorted(tables.numa)] == expected["numa_node"]
    for table, rows in expected["tables"].items():
        if table in TABLES:
            found = [list(words) for words in tables.rows[TABLES[table]].values()]
            assert found == [[str(word) for word in row] for row in rows]
    if name in REFUSED:
        with pytest.raises(FormatError, match=REFUSED[name]):
            read(text, HINTS)
        return
    topology = check_imported(_importer(), text).topology
    assert topology.ranks == expected["gpus"]
    assert measure(topology).unreachable is None


def test_folder_of_samples_has_nothing_unknown() -> None:
    if not SAMPLES.is_dir():
        pytest.skip(NO_SHARED)
    assert {path.name for path in SAMPLES.glob("*.txt")} == set(_expected())


def test_pairs_that_pass_another_gpu_have_no_link() -> None:
    found = _read("CONSTRUCTED_mi250x_8gpu_xgmi_15_30.txt")
    joined = {(0, 1), (2, 3), (4, 5), (6, 7), (0, 6), (2, 4)}
    joined |= {(0, 2), (1, 3), (1, 5), (3, 7), (4, 6), (5, 7)}
    assert {edge for edge in found.topology.edges if edge[0] < edge[1]} == joined
    assert {link.gb_per_s for link in found.topology.links} == {50.0}
    assert found.topology.budgets == ()
    assert any("the GPUs are mi250x" in line for line in found.assumed)


def test_bus_ids_and_bandwidths_of_the_newer_tool_are_kept() -> None:
    found = _read("amd_smi_topology_8gpu_bdf.txt").topology
    assert found.pci_bus_ids[:2] == ("0000:0c:00.0", "0000:22:00.0")
    assert found.lanes() == resolve("full:8").lanes()
    assert {link.gb_per_s for link in found.links} == {50.0}


def test_more_bandwidth_than_the_least_is_more_lanes() -> None:
    text = sample("rocm_smi_topo/amd_smi_topology_8gpu_bdf.txt").read_text()
    title, _, table = text.partition("NUMA BW TABLE:")
    lines = table.splitlines()
    lines[2] = lines[2].replace("N/A          50000-50000 ", "N/A          50000-200000")
    lines[3] = lines[3].replace("0000:22:00.0 50000-50000 ", "0000:22:00.0 50000-200000")
    lanes = read(title + "NUMA BW TABLE:" + "\n".join(lines), HINTS).topology.lanes()
    assert {edge: n for edge, n in lanes.items() if n > 1} == {(0, 1): 4, (1, 0): 4}


def test_pcie_between_cpus_shares_their_link() -> None:
    topology = _read("mi100_4gpu_pcie_weights_40_72.txt", gpu="mi100").topology
    speeds = {link.edge: link.gb_per_s for link in topology.links}
    assert (speeds[0, 2], speeds[1, 3], speeds[0, 1]) == (25.0, 25.0, 12.5)
    shared = {b.name: (len(b.edges), b.gb_per_s) for b in topology.budgets}
    assert shared["out of socket of GPUs 0 2"] == (4, 12.5)
    assert shared["into PCIe slot of GPU 3"] == (3, 25.0)


def test_weights_that_are_not_available_are_said() -> None:
    found = _read("mi300_tpx_12gpu_error_lines_wide_gap.txt")
    assert "2 lines of errors, passed over" in found.understood
    assert any(line.startswith("weights are not available") for line in found.assumed)
    assert len(found.topology.links) == 2 * 54


def test_a_gpu_of_another_vendor_is_refused() -> None:
    with pytest.raises(InputError, match="a100 is no GPU of AMD"):
        read(EXAMPLE, Hints("m", gpu="a100"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("GPU0   0            XGMI", "GPU0   0            PCIE", "link type has 'PCIE' from GPU 0"),
        ("GPU2   PCIE         PCIE", "GPU2   PCIE", "line 10 has 2 words for 3 GPUs"),
        ("GPU1   XGMI         0            PCIE\n", "GPU0   0  XGMI  PCIE\n", "second of GPU0"),
        ("Weight between two GPUs", "Hops between two GPUs", ""),
        ("GPU2   72           72           0\n", "GPU3   72           72           0\n", "of GPU3"),
        (
            "       GPU0         GPU1         GPU2\n",
            "       GPU0 GPU1\n",
            "line 3 has 3 words for 2",
        ),
        ("XGMI", "ETHER", "'ETHER' stands where GPU0 and GPU1 are joined"),
        ("=== Link Type", "=== Link Kind", ""),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, says: str) -> None:
    assert old in EXAMPLE
    text = EXAMPLE.replace(old, new, 99 if old == "XGMI" else 1)
    found = refusal(_importer(), text)
    assert (says in found) if says else (not found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no table of GPUs was found"),
        ("HOPS TABLE:\nGPU0 GPU1\nGPU0 0 1\nGPU1 1 0\n", "neither a table of link types nor one"),
        ("WEIGHT TABLE:\nGPU0 0 15\n", "line 2 is of GPU0, which no header names before it"),
        ("WEIGHT TABLE:\nGPU0 GPU0\n", "line 2 names a GPU twice"),
        ("WEIGHT TABLE:\n" + "GPU0 " * 65, "65 GPUs, and tables are read to 64"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, says: str) -> None:
    assert says in refusal(_importer(), text)


def test_what_is_longer_than_any_listing_is_refused() -> None:
    with pytest.raises(TooLargeError, match="give the output of rocm-smi --showtopo alone"):
        read(EXAMPLE + " " * MAX_CHARACTERS, HINTS)


@given(shown_by_rocm())
def test_any_tables_are_read_back(machine: ShownByRocm) -> None:
    tables = tables_of(machine.text())
    for i, table in enumerate((LINKS, WEIGHT, HOPS)):
        assert tables.words(table) == {p: str(word[i]) for p, word in machine.words.items()}
    direct = {pair for pair, word in machine.words.items() if word[1] == 15}
    assume(direct or any(word[0] == "PCIE" for word in machine.words.values()))
    topology = read(machine.text(), HINTS).topology
    assert topology.pci_bus_ids == machine.bus_ids
    assert direct <= topology.edges
    for a, b in topology.edges - direct - {(b, a) for a, b in direct}:
        assert machine.words[min(a, b), max(a, b)][0] == "PCIE"


@given(st.text(alphabet="GPU01 \n=XMIPCE[]:,3-N/AWeightbwnoLkTyp", max_size=200))
def test_any_table_is_read_or_refused_in_a_sentence(text: str) -> None:
    assert "\n" not in refusal(_importer(), f"WEIGHT TABLE:\nGPU0 GPU1\n{text}")


def test_damage_is_read_or_refused() -> None:
    for name in ("mi210_4gpu_xgmi.txt", "amd_smi_topology_8gpu_bdf.txt"):
        check_damage(_importer(), sample(f"rocm_smi_topo/{name}").read_text())
