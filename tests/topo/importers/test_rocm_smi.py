"""Tables of rocm-smi and amd-smi: every captured one, and any that could be."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sccl.core.ids import Edge
from sccl.errors import InputError, TooLargeError
from sccl.topo import importers, resolve_topology
from sccl.topo.importers import Hints, Imported, Importer
from sccl.topo.importers.common.rocm_tables import HOPS, LINKS, MAX_CHARACTERS, WEIGHT, parse_tables
from sccl.topo.importers.rocm_smi import EXAMPLE, read, sniff
from sccl.topo.measures import measure_topology
from tests.conftest import NO_SHARED
from tests.kit.importers import check_damage, check_imported, refusal
from tests.kit.paths import SHARED
from tests.kit.samples import expected, imported, sample


@dataclass(frozen=True, slots=True)
class ShownByRocm:
    """A machine of AMD GPUs and the layout of its tables.

    Attributes:
        words: Type of link, weight and hops of each pair, the lower GPU first.
        numa: NUMA node of each GPU.
        bus_ids: Names of the GPUs in the newer tool, empty for the older one.
        ends: Suffix of each line.
    """

    words: dict[Edge, tuple[str, int, int]]
    numa: tuple[int, ...]
    bus_ids: tuple[str, ...]
    ends: str

    def text(self) -> str:
        """Return the tables, between banners as wide as they may be."""
        gpus = len(self.numa)
        names = self.bus_ids or tuple(f"GPU{i}" for i in range(gpus))
        titles = ["LINK TYPE TABLE:", "WEIGHT TABLE:", "HOPS TABLE:"]
        if not self.bus_ids:
            banners = (f"{what} between two GPUs" for what in ("Link Type", "Weight", "Hops"))
            titles = [f"{'=' * 20} {banner} {'=' * 21}" for banner in banners]
        lines = [f"{'=' * 9} ROCm System Management Interface {'=' * 9}", ""]
        for table, title in enumerate(titles):
            lines += [title, " " * 13 + " ".join(names)]
            for i, name in enumerate(names):
                cells = [self._cell(table, i, j) for j in range(gpus)]
                lines.append(f"{name:<13}" + "".join(f"{cell:<13}" for cell in cells).rstrip())
            lines.append("")
        if not self.bus_ids:
            lines.append(f"{'=' * 30} Numa Nodes {'=' * 30}")
            lines += [f"GPU[{i}]\t\t: (Topology) Numa Node: {n}" for i, n in enumerate(self.numa)]
        return "".join(line + self.ends for line in lines)

    def _cell(self, table: int, i: int, j: int) -> str:
        if i == j:
            return "SELF" if self.bus_ids and not table else "0"
        return str(self.words[min(i, j), max(i, j)][table])


_XGMI_OR_PCIE = [
    ("XGMI", 15, 1),
    ("XGMI", 30, 1),
    ("PCIE", 20, 1),
    ("PCIE", 40, 2),
    ("PCIE", 72, 3),
]


@st.composite
def shown_by_rocm(draw: st.DrawFn) -> ShownByRocm:
    """Return any links for the pairs of some GPUs, in the tables of either tool."""
    gpus = draw(st.integers(2, 9))
    pairs = [(a, b) for a in range(gpus) for b in range(a + 1, gpus)]
    word = st.sampled_from(_XGMI_OR_PCIE)
    told = draw(st.lists(word, min_size=len(pairs), max_size=len(pairs)))
    numa = draw(st.lists(st.integers(0, 3), min_size=gpus, max_size=gpus))
    bus_ids = (
        tuple(f"0000:{2 * i + 5:02x}:00.0" for i in range(gpus)) if draw(st.booleans()) else ()
    )
    ends = draw(st.sampled_from(["\n", "   \n", "\r\n"]))
    return ShownByRocm(dict(zip(pairs, told, strict=True)), tuple(numa), bus_ids, ends)


SAMPLES = SHARED / "data" / "samples" / "rocm_smi_topo"
HINTS = Hints("machine")
EXPECTED = expected("rocm_smi_topo")

REFUSED = {
    "1gpu_linktype_only.txt": "it shows 1 GPU, expected at least 2",
    "mi250x_8gpu_weight_row0_only.txt": "rows of GPUs 1 2 3 4 5 6 7 are missing",
    "mi300_tpx_12gpu_error_lines_wide_gap.txt": "GPU 0 has 11 xGMIs, and no known GPU has more",
}
TABLES = {"weight": WEIGHT, "hops": HOPS, "link_type": LINKS}


def _importer() -> Importer:
    return importers.load_importer("rocm-smi")


def _read(name: str, **hints: Any) -> Imported:
    return imported(f"rocm_smi_topo/{name}", "rocm-smi", Hints("machine", **hints))


@pytest.mark.parametrize("name", EXPECTED)
def test_every_sample_is_read_as_it_says(name: str) -> None:
    text, known = sample(f"rocm_smi_topo/{name}").read_text(), EXPECTED[name]
    assert sniff(text)
    tables = parse_tables(text)
    assert len(tables.gpus) == known["gpus"]
    assert [int(tables.numa[gpu]) for gpu in sorted(tables.numa)] == known["numa_node"]
    for table, rows in known["tables"].items():
        if table in TABLES:
            found = [list(words) for words in tables.rows[TABLES[table]].values()]
            assert found == [[str(word) for word in row] for row in rows]
    if name in REFUSED:
        with pytest.raises(InputError, match=REFUSED[name]):
            read(text, HINTS)
        return
    topology = check_imported(_importer(), text).topology
    assert topology.ranks == known["gpus"]
    assert measure_topology(topology).unreachable is None


def test_folder_of_samples_has_nothing_unknown() -> None:
    if not SAMPLES.is_dir():
        pytest.skip(NO_SHARED)
    assert {path.name for path in SAMPLES.glob("*.txt")} == set(EXPECTED)


def test_pairs_that_pass_another_gpu_have_no_link() -> None:
    found = _read("CONSTRUCTED_mi250x_8gpu_xgmi_15_30.txt")
    joined = {(0, 1), (2, 3), (4, 5), (6, 7), (0, 6), (2, 4)}
    joined |= {(0, 2), (1, 3), (1, 5), (3, 7), (4, 6), (5, 7)}
    assert {edge for edge in found.topology.edges if edge[0] < edge[1]} == joined
    assert {link.gb_per_s for link in found.topology.links} == {50.0}
    assert found.topology.budgets == ()
    assert any("GPU model: mi250x" in line for line in found.assumed)


def test_bus_ids_and_bandwidths_of_the_newer_tool_are_kept() -> None:
    found = _read("amd_smi_topology_8gpu_bdf.txt").topology
    assert found.pci_bus_ids[:2] == ("0000:0c:00.0", "0000:22:00.0")
    assert found.lanes() == resolve_topology("full:8").lanes()
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


def test_pairs_without_weights_are_assumed_to_be_joined_directly() -> None:
    table = "LINK TYPE TABLE:\n GPU0 GPU1 GPU2\nGPU0 0 XGMI XGMI\nGPU1 XGMI 0 XGMI\n"
    errors = "get_link_weight_topology, Not supported on the given system\nERROR: GPU[1] : no\n"
    found = read(errors + table, HINTS)
    assert "2 lines of errors, ignored" in found.understood
    assert any(line.startswith("3 pairs of type XGMI without") for line in found.assumed)
    assert len(found.topology.links) == 6
    weights = "WEIGHT TABLE:\n GPU0 GPU1 GPU2\nGPU0 0 15 30\n"
    part = read(table + weights, HINTS)
    assert part.topology.edges == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert any(line.startswith("1 pair of type XGMI without") for line in part.assumed)


def _amd_smi(bus_ids: list[str], **tables: dict[tuple[int, int], str]) -> str:
    """Return tables of amd-smi: the word of each pair, the lower GPU first, N/A of a GPU itself."""
    lines = []
    for title, words in tables.items():
        lines += [f"{title.replace('_', ' ')} TABLE:", " " * 13 + " ".join(bus_ids)]
        for i, bus_id in enumerate(bus_ids):
            each = range(len(bus_ids))
            cells = [words[min(i, j), max(i, j)] if i != j else "N/A" for j in each]
            lines.append(" ".join([bus_id, *cells]))
        lines.append("")
    return "\n".join(lines)


BUS_IDS = [f"0000:{0x41 + 8 * i:02x}:00.0" for i in range(4)]
PAIRS = list(combinations(range(4), 2))
XGMI_PAIRS = dict.fromkeys(PAIRS, "XGMI")
SPEEDS = {
    **dict.fromkeys(PAIRS, "0-0"),
    (0, 1): "50000-200000",
    (2, 3): "50000-200000",
    (0, 2): "50000-100000",
}


def test_pairs_of_no_bandwidth_have_no_link() -> None:
    found = read(_amd_smi(BUS_IDS, LINK_TYPE=XGMI_PAIRS, NUMA_BW=SPEEDS), HINTS)
    lanes = {edge: n for edge, n in found.topology.lanes().items() if edge[0] < edge[1]}
    assert lanes == {(0, 1): 4, (2, 3): 4, (0, 2): 2}
    assert {link.gb_per_s for link in found.topology.links} == {50.0}
    assert any(line.startswith("3 pairs of some bandwidth, joined") for line in found.understood)
    assert not any("the file does not give the number" in line for line in found.assumed)


def test_least_end_of_a_bandwidth_is_a_lane() -> None:
    speeds = dict.fromkeys(PAIRS, "64000-128000")
    topology = read(_amd_smi(BUS_IDS, LINK_TYPE=XGMI_PAIRS, NUMA_BW=speeds), HINTS).topology
    assert set(topology.lanes().values()) == {2}
    assert {link.gb_per_s for link in topology.links} == {64.0}


def test_weights_count_where_bandwidths_differ_from_them() -> None:
    weights = dict.fromkeys(PAIRS, "30") | {(0, 1): "15", (2, 3): "15", (1, 2): "15"}
    text = _amd_smi(BUS_IDS, LINK_TYPE=XGMI_PAIRS, WEIGHT=weights, NUMA_BW=SPEEDS)
    found = read(text, HINTS)
    assert {e for e in found.topology.edges if e[0] < e[1]} == {(0, 1), (2, 3), (1, 2)}
    assert any("(2 pairs, the first is GPUs 0 2)" in line for line in found.assumed)
    assert "1 pair without a bandwidth has one xGMI link" in found.assumed


def test_shownodesbw_is_read() -> None:
    rows = "       GPU0    GPU1\nGPU0   N/A     50000-100000\nGPU1   50000-100000   N/A\n"
    text = (
        f"==== Link Type between two GPUs ====\n GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n"
        f"==== Bandwidth ====\n{rows}Format: min-max; Units: mps\n"
        '"0-0" min-max bandwidth: not joined directly\n==== End of ROCm SMI Log ====\n'
    )
    found = read(text, HINTS)
    assert found.topology.lanes() == {(0, 1): 2, (1, 0): 2}
    assert not any(line.startswith("not used") for line in found.understood)


def test_legend_has_no_errors_and_other_tables_are_listed() -> None:
    legend = "\nLegend:\n SELF = Current GPU\n N/A = Not supported\n <BW from>-<BW to>\n"
    text = _amd_smi(BUS_IDS, LINK_TYPE=XGMI_PAIRS, NUMA_BW=SPEEDS, DMA=XGMI_PAIRS)
    found = read(text + legend, HINTS)
    assert not any("errors" in line for line in found.understood)
    assert "not used: DMA TABLE" in found.understood


def test_lines_within_a_table_that_are_no_rows_are_counted() -> None:
    text = EXAMPLE.replace("GPU1   15 ", "GPU 1  15 ", 1)
    assert "not used: 1 line within tables that are no rows, the first is line 4" in (
        read(text, HINTS).understood
    )


def test_hops_may_differ_where_weights_tell() -> None:
    hops = "HOPS TABLE:\n GPU0 GPU1 GPU2\nGPU0 0 1 2\nGPU1 2 0 2\nGPU2 2 2 0\n"
    assert read(EXAMPLE + hops, HINTS).topology == read(EXAMPLE, HINTS).topology
    lines = EXAMPLE.splitlines(keepends=True)
    with pytest.raises(InputError, match="the table of hops has '1' from GPU 0 to 1, and '2' back"):
        read("".join(lines[5:]) + hops, HINTS)


@pytest.mark.parametrize("functions", [2, 4])
def test_partitions_of_a_device_are_rejected(functions: int) -> None:
    bus_ids = [f"0000:{bus}:00.{n}" for bus in ("05", "26") for n in range(functions)]
    pairs = list(combinations(range(2 * functions), 2))
    text = _amd_smi(bus_ids, LINK_TYPE=dict.fromkeys(pairs, "XGMI"))
    with pytest.raises(InputError, match=r"GPUs 0 1.* are partitions of the device 0000:05:00"):
        read(text, HINTS)
    slow = _amd_smi(bus_ids, LINK_TYPE=dict.fromkeys(pairs, "PCIE"))
    assert read(slow, HINTS).topology.ranks == 2 * functions


@pytest.mark.parametrize(
    ("gpus", "gpu", "message"),
    [
        (10, None, "GPU 0 has 9 xGMIs, and no known GPU has more than 8: if GPUs are partitions"),
        (8, "mi210", "GPU 0 has 7 xGMIs, and a GPU mi210 has at most 3: give another --gpu"),
        (8, "mi250x", "xGMIs to 7 GPUs, and a GPU mi250x has at most 5"),
    ],
)
def test_more_links_than_a_gpu_can_have_are_rejected(
    gpus: int, gpu: str | None, message: str
) -> None:
    bus_ids = [f"0000:{0x20 + i:02x}:00.0" for i in range(gpus)]
    pairs = dict.fromkeys(combinations(range(gpus), 2), "XGMI")
    with pytest.raises(InputError, match=message):
        read(_amd_smi(bus_ids, LINK_TYPE=pairs), Hints("m", gpu=gpu))


def test_mi300a_is_known() -> None:
    speeds = dict.fromkeys(PAIRS, "64000-128000")
    text = _amd_smi(BUS_IDS, LINK_TYPE=XGMI_PAIRS, NUMA_BW=speeds)
    found = read(text, Hints("machine", gpu="MI300A"))
    assert found.topology == read(text, HINTS).topology
    more = read(text.replace("128000", "256000"), Hints("machine", gpu="MI300A"))
    assert "questioned: GPU 0 has 12 xGMIs, and a GPU mi300a has at most 8" in more.assumed
    assert not any("at most" in line for line in found.assumed)


def test_gpu_of_another_vendor_is_rejected() -> None:
    with pytest.raises(InputError, match="a100 is not an AMD GPU"):
        read(EXAMPLE, Hints("m", gpu="a100"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("GPU0   0            XGMI", "GPU0   0            PCIE", "link type has 'PCIE' from GPU 0"),
        ("GPU2   PCIE         PCIE", "GPU2   PCIE", "line 10 has 2 words for 3 GPUs"),
        ("GPU1   XGMI         0            PCIE\n", "GPU0   0  XGMI  PCIE\n", "second of GPU0"),
        ("Weight between two GPUs", "Hops between two GPUs", ""),
        (
            "GPU2   72           72           0\n",
            "GPU3   72           72           0\n",
            "describes GPU3",
        ),
        (
            "       GPU0         GPU1         GPU2\n",
            "       GPU0 GPU1\n",
            "line 3 has 3 words for 2",
        ),
        ("XGMI", "ETHER", "'ETHER' stands where GPU0 and GPU1 are joined"),
        ("=== Link Type", "=== Link Kind", ""),
    ],
)
def test_fault_is_named(old: str, new: str, says: str) -> None:
    assert old in EXAMPLE
    text = EXAMPLE.replace(old, new, 99 if old == "XGMI" else 1)
    found = refusal(_importer(), text)
    assert (says in found) if says else (not found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no table of GPUs"),
        ("HOPS TABLE:\nGPU0 GPU1\nGPU0 0 1\nGPU1 1 0\n", "no table of link types and no table"),
        ("WEIGHT TABLE:\nGPU0 0 15\n", "line 2 describes GPU0, which no earlier header lists"),
        ("WEIGHT TABLE:\nGPU0 GPU0\n", "line 2 names a GPU twice"),
        ("WEIGHT TABLE:\n" + "GPU0 " * 65, "65 GPUs, and tables are read to 64"),
    ],
)
def test_unreadable_file_is_rejected(text: str, says: str) -> None:
    assert says in refusal(_importer(), text)


def test_too_long_listing_is_rejected() -> None:
    with pytest.raises(TooLargeError, match="give the output of rocm-smi --showtopo alone"):
        read(EXAMPLE + " " * MAX_CHARACTERS, HINTS)


@given(shown_by_rocm())
def test_any_tables_are_read_back(machine: ShownByRocm) -> None:
    tables = parse_tables(machine.text())
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
