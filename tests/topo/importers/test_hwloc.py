"""hwloc's XML: random machines, every kind of matrix, and invalid files."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.topo import importers, resolve_topology
from sccl.topo.importers import Hints, Imported
from sccl.topo.importers.common.gpu_pairs import BRIDGE, NODE, SOCKETS, SWITCH, SWITCHES
from sccl.topo.importers.common.hwloc_tree import MAX_OBJECTS, parse_tree
from sccl.topo.importers.common.plain_xml import parse_xml
from sccl.topo.importers.hwloc import EXAMPLE, read
from tests.kit.hwloc import GPU, HEAD, PART, SLOT, written
from tests.kit.nccl import Machine, bus_id, check_topology, machines

HINTS = Hints("machine")
PAIR = Machine({(0, 1): 4}, 0, (0, 1))
NO_LINKS = Machine({}, 0, (0, 1))


def _lanes(topology: Topology) -> dict[tuple[int, int], int]:
    return {edge: lanes for edge, lanes in topology.lanes().items() if edge[0] < edge[1]}


def _said(found: Imported) -> str:
    return "\n".join((*found.understood, *found.assumed))


@given(machines(), st.sampled_from(["\n", "\r\n"]))
def test_any_machine_is_read_as_it_was_written(machine: Machine, newline: str) -> None:
    text = written(machine, newline)
    assert [
        one for one in importers.importer_names() if importers.load_importer(one).sniff(text)
    ] == ["hwloc"]
    topology = read(text, HINTS).topology
    check_topology(machine, topology)
    fast = {link.gb_per_s for link in topology.links} - {12.5}
    assert fast <= {25.0}


@given(machines(), st.data())
def test_truncated_machine_is_read_or_rejected(machine: Machine, data: st.DataObject) -> None:
    lines = written(machine).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    with contextlib.suppress(InputError):
        read("".join(lines[:at] + lines[at + 1 :]), HINTS)


def test_dgx2_equals_the_catalog() -> None:
    """Six links of each of 16 V100 to switches, as hwloc describes a DGX-2."""
    text = written(Machine({}, 3, tuple(range(16)))).replace("NVIDIA A100-SXM4-40GB", "Tesla V100")
    found, own = read(text, HINTS).topology, resolve_topology("dgx2")
    assert found.lanes() == own.lanes()
    limits = {(frozenset(b.edges), b.chunks_per_round) for b in own.budgets}
    assert {(frozenset(b.edges), b.chunks_per_round) for b in found.budgets} == limits


def _power8() -> str:
    """Return two sockets of a GPU each, joined to the CPUs by two NVLinks of 20 GB/s."""
    values = "1000000 0 40000 0 0 1000000 0 40000 40000 0 1000000 0 0 40000 0 1000000"
    socket = (
        '<object type="Package" gp_index="{}"><object type="Bridge" bridge_type="0-1">'
        '<object type="PCIDev" gp_index="{}" pci_busid="000{}:01:00.0" '
        'pci_type="0302 [10de:15f9] [10de:116b] a1 00" pci_link_speed="15.753846">'
        '<object type="OSDev" gp_index="{}" name="cuda{}"><info name="GPUModel" '
        'value="Tesla P100-SXM2-16GB"/></object></object></object></object>'
    )
    return (
        f'{HEAD}<topology version="3.0"><object type="Machine" gp_index="1">'
        f"{socket.format(2, 12, 2, 22, 1)}{socket.format(3, 13, 3, 23, 0)}</object>"
        '<distances2hetero nbobjs="4" kind="25" name="NVLinkBandwidth">'
        f"<indexes>OSDev:22 OSDev:23 Package:2 Package:3 </indexes><u64values>{values} "
        "</u64values></distances2hetero></topology>"
    )


def test_nvlinks_to_cpus_join_no_gpus() -> None:
    found = read(_power8(), HINTS)
    assert found.topology.pci_bus_ids == ("0003:01:00.0", "0002:01:00.0")  # by cuda's numbers
    assert {link.gb_per_s for link in found.topology.links} == {12.5}
    assert "NVLinks of 2 GPUs to CPUs left out" in _said(found)


def _above(*chains: str) -> str:
    """Return a GPU for each chain of bridges, which are by letters: ``abc`` is c in b in a.

    A capital letter is a socket.
    """
    inside: dict[str, str] = {}
    for rank, chain in enumerate(chains):
        device = (
            f'<object type="PCIDev" gp_index="{GPU + rank}" pci_busid="{bus_id(rank)}" '
            f'pci_type="1200 [1002:74a1] [1002:74a1] 00 00" {SLOT}/>'
        )
        inside[chain] = inside.get(chain, "") + device
    while set(inside) != {""}:
        chain = max(inside, key=len)
        kind = "Package" if chain[-1].isupper() else "Bridge"
        text = f'<object type="{kind}">{inside.pop(chain)}</object>'
        inside[chain[:-1]] = inside.get(chain[:-1], "") + text
    return f'<topology><object type="Machine">{inside[""]}</object></topology>'


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        ("Ahru", "Ahru", SWITCH),
        ("Ahruv", "Ahruw", SWITCH),
        ("Ahruvxy", "Ahruwz", SWITCHES),
        ("Ahr", "Ahs", BRIDGE),
        ("Ahr", "Air", NODE),
        ("hr", "ir", NODE),
        ("Ahr", "Bhr", SOCKETS),
    ],
)
def test_how_far_a_way_goes_is_told_by_the_bridges_above(one: str, other: str, path: int) -> None:
    assert parse_tree(parse_xml(_above(one, other))).paths() == {(0, 1): path}


@pytest.mark.parametrize(
    ("hops", "lanes"),
    [("", {(0, 1): 1, (0, 2): 1, (1, 2): 1}), ("0 1 2 1 0 1 2 1 0", {(0, 1): 1, (1, 2): 1})],
)
def test_xgmi_links_have_the_speed_of_the_gpu(hops: str, lanes: dict[tuple[int, int], int]) -> None:
    text = _xgmi("0 100000 100000 100000 0 100000 100000 100000 0", hops)
    found = read(text, Hints("machine", gpu="mi300x"))
    assert _lanes(found.topology) == lanes
    assert {link.gb_per_s for link in found.topology.links} == {64.0}
    assert "hwloc writes no number or speed of links" in _said(found)
    with pytest.raises(InputError, match="--gpu"):
        read(text, HINTS)


def _xgmi_of_dies(gpus: int, values: str, hops: str, model: str = "AMD Instinct MI250X") -> str:
    """Return GPUs of ROCm SMI in one socket, with matrices of their xGMI."""
    devices = "".join(
        f'<object type="Bridge"><object type="PCIDev" gp_index="{GPU + rank}" '
        f'pci_busid="{bus_id(rank)}" pci_type="0380 [1002:7408] [1002:0b0c] 01 00" {SLOT}>'
        f'<object type="OSDev" gp_index="{PART + rank}" name="rsmi{rank}" subtype="RSMI">'
        f'<info name="GPUModel" value="{model}"/></object></object></object>'
        for rank in range(gpus)
    )
    numbers = " ".join(str(PART + rank) for rank in range(gpus))
    matrices = "".join(
        f'<distances2 type="OSDev" nbobjs="{gpus}" kind="5" name="{name}" indexing="gp">'
        f"<indexes>{numbers}</indexes><u64values>{words}</u64values></distances2>"
        for name, words in (("XGMIBandwidth", values), ("XGMIHops", hops))
    )
    return (
        f'<topology version="2.0"><object type="Machine"><object type="Package">{devices}'
        f"</object></object>{matrices}</topology>"
    )


def _square(gpus: int, diagonal: int, other: int) -> str:
    each = range(gpus)
    return " ".join(str(diagonal if a == b else other) for a in each for b in each)


@pytest.mark.parametrize("gpus", [4, 8])
def test_one_hop_between_all_dies_is_not_believed(gpus: int) -> None:
    values, hops = _square(gpus, 1_000_000, 100_000), _square(gpus, 0, 1)
    with pytest.raises(InputError, match=r"^line 1: every pair .* 1 hop.*'rocm-smi --showtopo'"):
        read(_xgmi_of_dies(gpus, values, hops), HINTS)


def test_one_hop_between_all_of_a_mesh_is_reported() -> None:
    values, hops = _square(8, 1_000_000, 100_000), _square(8, 0, 1)
    found = read(_xgmi_of_dies(8, values, hops, "AMD Instinct MI300X"), HINTS)
    assert len(_lanes(found.topology)) == 28
    assert "ROCm SMI prints 1 hop for any distance" in _said(found)


def test_bandwidths_of_dies_are_lanes() -> None:
    hops = "0 1 2 1 0 1 2 1 0"
    values = "0 200000 0 200000 0 50000 0 50000 0"
    found = read(_xgmi_of_dies(3, values, hops), HINTS)
    assert _lanes(found.topology) == {(0, 1): 4, (1, 2): 1}
    more = read(_xgmi_of_dies(3, values.replace(" 50000", " 250000"), hops), HINTS)
    assert "questioned: GPU 1 has 9 xGMIs, and a GPU mi250x has at most 8" in _said(more)
    assert "questioned" not in _said(found)


def test_more_nvlinks_than_a_gpu_has_are_questioned() -> None:
    text = EXAMPLE.replace(" 50000 50000 ", " 175000 175000 ")
    assert "questioned: GPU 0 has 7 NVLinks, and a GPU v100 has at most 6" in _said(
        read(text, HINTS)
    )
    assert "questioned" not in _said(read(EXAMPLE, HINTS))


def test_devices_without_a_library_and_second_matrices_are_listed() -> None:
    bare = '<object type="PCIDev" pci_busid="0000:08:00.0" pci_type="0302 [10de:1db1]"/>'
    text = EXAMPLE.replace(
        "      </object>\n    </object>\n  </object>",
        f"{bare}      </object>\n    </object>\n  </object>",
    )
    assert text != EXAMPLE
    said = _said(read(text, HINTS))
    assert "not used: 1 PCI devices of GPU class that no library names" in said
    matrix = EXAMPLE[EXAMPLE.index("  <distances2") : EXAMPLE.index("</topology>")]
    twice = EXAMPLE.replace("</topology>", f"{matrix}</topology>")
    assert "not used: second matrix NVLinkBandwidth" in _said(read(twice, HINTS))


def test_gpus_of_several_vendors_are_reported() -> None:
    text = written(NO_LINKS)
    assert "vendors" not in _said(read(text, HINTS))
    mixed = text.replace("[10de:20b0]", "[1002:738c]", 1)
    assert "the GPUs come from 2 vendors (PCI ids 1002, 10de)" in _said(read(mixed, HINTS))


def test_gpus_without_fast_links_are_joined_by_pcie() -> None:
    text = written(NO_LINKS).replace("NVIDIA A100-SXM4-40GB", "Tesla T4")
    assert "Tesla T4" in text
    assert "all GPUs are joined by PCIe\n" in _said(read(text, HINTS))
    assert "no PCIe between them" not in _said(read(text, HINTS))


def test_gpus_of_several_kinds_are_reported() -> None:
    mixed = EXAMPLE.replace("Tesla V100-SXM2-16GB", "Tesla P100-SXM2-16GB", 1)
    assert "p100 (the model of the first GPU: there are several models)" in _said(
        read(mixed, HINTS)
    )
    assert "several models" not in _said(read(EXAMPLE, HINTS))


def test_partitions_of_a_device_are_rejected() -> None:
    text = _xgmi("0 100000 100000 100000 0 100000 100000 100000 0")
    text = text.replace(bus_id(1), bus_id(0).replace(".0", ".1"))
    with pytest.raises(InputError, match="GPUs 0 1 are partitions of the device"):
        read(text, Hints("machine", gpu="mi300x"))


def test_names_that_are_not_read_are_listed() -> None:
    assert "not used" not in _said(read(EXAMPLE, HINTS))
    text = EXAMPLE.replace("</topology>", EXAMPLE[EXAMPLE.index("  <distances2") :])
    text = text[::-1].replace("NVLinkBandwidth"[::-1], "GPULatency"[::-1], 1)[::-1]
    text = text.replace('subtype="NVML"', 'subtype="NVML" links="6"', 1)
    assert "not used: matrix GPULatency, links of <object>" in read(text, HINTS).understood


def test_speeds_without_a_measure_want_to_know_the_gpu() -> None:
    with pytest.raises(InputError, match=r"^line 1: the numbers of .* are not multiples .* --gpu"):
        read(_xgmi("0 50001 50000 50001 0 50000 50000 50000 0"), HINTS)


def test_xgmi_links_of_told_speeds_have_these() -> None:
    found = read(_xgmi("0 200000 50000 200000 0 50000 50000 50000 0"), HINTS).topology
    assert _lanes(found) == {(0, 1): 4, (0, 2): 1, (1, 2): 1}
    assert {link.gb_per_s for link in found.links} == {50.0}


def _xgmi(values: str, hops: str = "") -> str:
    matrices = "".join(
        f'<distances2 type="PCIDev" indexing="gp" nbobjs="3" name="{of}"><indexes>{GPU} {GPU + 1} '
        f"{GPU + 2}</indexes><u64values>{words}</u64values></distances2>"
        for of, words in (("XGMIBandwidth", values), ("XGMIHops", hops))
        if words
    )
    return _above("Ahr", "Ahs", "Bhr").replace("</topology>", f"{matrices}</topology>")


def test_speed_that_the_gpu_does_not_have_is_what_is_reported() -> None:
    found = read(written(PAIR).replace(" 100000 100000 ", " 30000 30000 "), HINTS)
    assert found.topology.lanes()[0, 1] == 1
    assert {link.gb_per_s for link in found.topology.links} == {30.0}
    assert "an NVLink carries 30 GB/s" in _said(found)


def test_nics_are_nearest_to_gpus_of_their_socket() -> None:
    text = written(Machine({}, 0, (0, 1, 2, 3)))
    for rank, name in enumerate(["mlx5_0", "", "mlx5_1"]):
        at = f'<object type="PCIDev" gp_index="{GPU + rank}"'
        text = text.replace(at, f"{_nic(rank, name)}{at}" if name else at, 1)
    cards = read(text, HINTS).nics
    assert [(card.name, card.ranks) for card in cards] == [("mlx5_0", (0, 1)), ("mlx5_1", (2, 3))]
    untold = text.replace("NodeGUID", "Address")
    assert [card.name for card in read(untold, HINTS).nics] == ["0000:90:00.0", "0000:92:00.0"]


def _nic(number: int, name: str) -> str:
    return (
        f'<object type="PCIDev" pci_busid="0000:9{number}:00.0" '
        f'pci_type="0207 [15b3:101b] [15b3:0006] 00 00"><object type="OSDev" name="{name}">'
        '<info name="NodeGUID" value="0"/></object></object>'
    )


def test_console_is_no_gpu_where_others_are() -> None:
    console = '<object type="PCIDev" pci_busid="0000:03:00.0" pci_type="0300 [1002:515e]"/>'
    text = _above("Ahr", "Ahs").replace(
        '<object type="Bridge">', f'{console}<object type="Bridge">', 1
    )
    assert read(text, HINTS).topology.ranks == 2
    games = _above("Ahr", "Ahs").replace("1200 [1002:74a1]", "0300 [10de:2684]")
    assert read(games, HINTS).topology.ranks == 2


def test_sleeping_slot_tells_nothing() -> None:
    found = read(written(NO_LINKS).replace("31.507692", "3.938462"), HINTS)
    assert {link.gb_per_s for link in found.topology.links} == {25.0}  # of the A100
    assert "slower than PCIe 3, as GPUs that sleep are" in _said(found)
    assert "the file has no NVLinks, and the GPU a100 has 12" in _said(found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("1000000 50000", "1000000 25000"), "^line 20: 25000 from GPU 0 to GPU 1, and 50000 back"),
        (('nbobjs="2"', 'nbobjs="3"'), "^line 20: .* has 2 numbers in indexes, expected 3"),
        (('nbobjs="2"', 'nbobjs="no"'), "^line 20: .* has nbobjs 'no'"),
        (
            ("50000 1000000 <", "50000 much <"),
            "^line 20: .* has 3 numbers in u64values, expected 4",
        ),
        (("0000:07:00.0", "0000:06:00.0"), "^line 12: two GPUs have the pci_busid 0000:06:00.0"),
        (("0000:07:00.0", "there"), "^line 12: pci_busid of the GPU is 'there'"),
        (("<topology", "<!ENTITY"), "^line 3: not well-formed"),
        (('"Machine"', '"System"'), "^line 3: the root is <topology>, expected .* of type Machine"),
        (('name="NVLink', 'name="XeLink'), "^line 20: its GPUs have Xe Links"),
    ],
)
def test_messages_name_the_line(change: tuple[str, str], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(EXAMPLE.replace(*change, 1), HINTS)


def test_file_without_gpus_says_how_to_write_one() -> None:
    with pytest.raises(FormatError, match=r"no GPUs: .*lstopo --of xml --whole-io"):
        read('<topology version="2.0"><object type="Machine"/></topology>', HINTS)


def test_large_file_is_rejected() -> None:
    with pytest.raises(TooLargeError, match=f"expected at most {MAX_OBJECTS}"):
        read(EXAMPLE.replace('nbobjs="2"', f'nbobjs="{MAX_OBJECTS + 1}"'), HINTS)


def test_doctype_names_a_file_that_is_not_read() -> None:
    for doctype in ('SYSTEM "file:///nowhere/x.dtd"', 'PUBLIC "a" "http://localhost/x.dtd"'):
        text = EXAMPLE.replace('SYSTEM "hwloc2.dtd"', doctype)
        assert read(text, HINTS).topology == read(EXAMPLE, HINTS).topology
    text = EXAMPLE.replace("<object", "<x>&what;</x><object", 1)
    with pytest.raises(FormatError, match=r"^line 4: it declares or uses an entity"):
        read(text, HINTS)


def test_links_to_what_the_file_lacks_are_left_out() -> None:
    text = written(PAIR).replace(f"{PART + 1} </indexes>", "999 </indexes>")
    assert "NVLinks of 1 GPU to devices outside the file left out" in _said(read(text, HINTS))
