"""Topologies of NCCL and RCCL: every captured one, random ones, and invalid ones."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.topo import importers, resolve_topology
from sccl.topo.importers import Hints
from sccl.topo.importers.common.plain_xml import MAX_DEPTH, MAX_ELEMENTS, parse_xml
from sccl.topo.importers.nccl_xml import EXAMPLE, read
from tests.kit.importers import check_damage, check_imported
from tests.kit.nccl import SLOT, Machine, check_topology, machines, written
from tests.kit.samples import expected, imported, sample

FOLDER = "nccl_topo_xml"
HINTS = Hints("machine")
EXPECTED = expected(FOLDER)

REFUSED = {
    "aws_g5.48xl-topo.xml": "it names no GPUs.*NCCL_TOPO_DUMP_FILE",
    "aws_p5.48xl-topo_2023.xml": "it names no GPUs.*NCCL_TOPO_DUMP_FILE",
    "azure_ncv4-topo.xml": "^line 5: .*leads to that GPU itself",
    "fragment_dgx1v_cut_off.xml": "^line 16: not well-formed",
    "graph_azure_ncv4.xml": "^line 1: <graphs>",
    "graph_msccl_2021.xml": "^line 1: <graphs>",
    "graph_yccl.xml": "^line 1: <graphs>",
}


def _lanes(topology: Topology, gb_per_s: float) -> dict[tuple[int, int], int]:
    return {link.edge: link.lanes for link in topology.links if link.gb_per_s == gb_per_s}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_sample_is_read_as_it_says(name: str) -> None:
    text = sample(f"{FOLDER}/{name}").read_text()
    assert [
        one for one in importers.importer_names() if importers.load_importer(one).sniff(text)
    ] == ["nccl-xml"]
    if name in REFUSED:
        with pytest.raises(FormatError, match=REFUSED[name]):
            read(text, HINTS)
        return
    known = EXPECTED[name]
    found = check_imported(importers.load_importer("nccl-xml"), text)
    topology = found.topology
    assert topology.ranks == known["gpu_elements"] or known["pci_gpu_class"]
    buses = known.get("gpu_bus", topology.pci_bus_ids)
    assert sorted(topology.pci_bus_ids) == sorted(buses)
    nodes = known["cpus"]
    assert f"at {nodes} NUMA node" in found.understood[0]
    if "lanes" in known:
        fastest = max(link.gb_per_s for link in topology.links)
        ranks = [topology.pci_bus_ids.index(bus) for bus in buses]  # matrices are by dev
        wanted = {
            (ranks[a], ranks[b]): lanes
            for a, row in enumerate(known["lanes"])
            for b, lanes in enumerate(row)
            if lanes
        }
        assert _lanes(topology, fastest) == wanted
    if own := known.get("lanes_to_switches_per_gpu"):
        assert {budget.chunks_per_round for budget in topology.budgets} == set(own)
        assert len(topology.budgets) == 2 * topology.ranks
    speeds = {nic.gb_per_s for nic in found.nics if nic.gb_per_s}
    assert speeds <= {mbps / 8000 for mbps in known.get("net_speed_mbps", [])}


def test_dump_of_a_dgx1_is_the_catalogues() -> None:
    found = imported(f"{FOLDER}/CONSTRUCTED_dgx1v_8gpu_nvlink_p2p.xml", "nccl-xml").topology
    assert sorted(_lanes(found, 25.0).values()) == sorted(resolve_topology("dgx1").lanes().values())
    matrix = imported("nvidia_smi_topo/dgx1v_8gpu_4nic.txt", "nvidia-smi").topology
    assert found.links == matrix.links


def test_line_ends_say_nothing() -> None:
    crlf = sample(f"{FOLDER}/azure_ndv5-topo_crlf.xml").read_bytes().decode()
    assert "\r\n" in crlf
    lf = sample(f"{FOLDER}/azure_ndv5-topo.xml").read_text()
    assert read(crlf, HINTS).topology == read(lf, HINTS).topology


def test_ranks_are_those_of_the_dump_where_they_differ_from_dev() -> None:
    found = imported(f"{FOLDER}/rccl_topo_8p_940vm.xml", "nccl-xml")
    assert found.topology.pci_bus_ids[:4] == (
        "0021:00:00.0",
        "0011:00:00.0",
        "0031:00:00.0",
        "0071:00:00.0",
    )


def test_bridge_slower_than_the_slot_below_it_decides() -> None:
    found = imported(f"{FOLDER}/aws_p5.48xl-topo_2026.xml", "nccl-xml").topology
    assert {link.gb_per_s for link in found.links} == {25.0}


def test_nics_are_nearest_to_gpus_of_their_switch() -> None:
    found = imported(f"{FOLDER}/dump_h800_8gpu_nvswitch.xml", "nccl-xml")
    assert [nic.ranks for nic in found.nics] == [(rank,) for rank in range(8)]
    assert {nic.gb_per_s for nic in found.nics} == {50.0}


@given(machines(), st.sampled_from(["\n", "\r\n"]))
def test_any_machine_is_read_as_it_was_written(machine: Machine, newline: str) -> None:
    check_topology(machine, read(written(machine, newline), HINTS).topology)


@given(machines(), st.data())
def test_truncated_machine_is_read_or_rejected(machine: Machine, data: st.DataObject) -> None:
    lines = written(machine).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    text = "".join(lines[:at] + lines[at + 1 :])
    with contextlib.suppress(InputError):
        read(text, HINTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('count="2"', 'count="0"'), "^line 5: count of <nvlink> is '0', expected 1 to 64"),
        (('count="2"', 'count="1"'), "^line 5: 1 link from .*06:00.0 to .*07:00.0, and 2 back"),
        (('busid="0000:07:00.0"', 'busid="0000:06:00.0"'), "^line 8: two GPUs have the busid"),
        (('busid="0000:06:00.0"', 'busid="here"'), "^line 3: busid of the GPU is 'here'"),
        (("<cpu", "<!ENTITY"), "^line 2: not well-formed"),
        (('sm="70"', 'sm="999"'), "NVLinks of unknown speed on .*sm_999: .*--gpu"),
    ],
)
def test_messages_name_the_line(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(EXAMPLE.replace(*change, 1), HINTS)


def _cpu(*gpus: str, numa: int = 0) -> str:
    """Return a NUMA node of GPUs from the device content of each rank."""
    devices = (
        f'<pci busid="{numa:04x}:{rank:02x}:00.0" class="0x030200" {SLOT}>\n{inside}\n</pci>\n'
        for rank, inside in enumerate(gpus, 1)
    )
    return f'<cpu numaid="{numa}">\n{"".join(devices)}</cpu>\n'


def _gpu(rank: int, *links: tuple[str, int, str], sm: int = 70) -> str:
    inner = "".join(
        f'<nvlink target="{to}" count="{count}" tclass="{tclass}"/>\n'
        for to, count, tclass in links
    )
    return f'<gpu dev="{rank}" sm="{sm}" rank="{rank}">\n{inner}</gpu>'


def _power9(cpu_class: str) -> str:
    """Return two sockets of two GPUs each: 3 NVLinks between these, 3 to the CPU from each."""
    cpus = [
        _cpu(
            _gpu(2 * at, (f"{at:04x}:02:00.0", 3, "0x030200"), ("0009:09:00.0", 3, cpu_class)),
            _gpu(2 * at + 1, (f"{at:04x}:01:00.0", 3, "0x030200"), ("0009:09:00.0", 3, cpu_class)),
            numa=at,
        )
        for at in (0, 1)
    ]
    return f"<system version='1'>{''.join(cpus)}</system>"


def test_nvlinks_to_cpus_join_no_gpus() -> None:
    found = read(_power9("0x068001"), HINTS)
    assert _lanes(found.topology, 25.0) == {(0, 1): 3, (1, 0): 3, (2, 3): 3, (3, 2): 3}
    assert "12 NVLinks of 4 GPUs to CPUs left out: they join no GPUs" in found.understood
    assert not any("switches" in line for line in found.understood)
    switched = read(_power9("0x068000"), HINTS)
    assert _lanes(switched.topology, 25.0)[0, 2] == 3
    assert _lanes(switched.topology, 25.0)[0, 1] == 6


def test_several_ranks_of_a_gpu_are_rejected() -> None:
    link = ("0000:02:00.0", 4, "0x030200")
    text = f"<system>{_cpu(_gpu(0, link) + _gpu(1, link), _gpu(2), _gpu(3))}</system>"
    with pytest.raises(FormatError, match=r"^line 5: 2 ranks are on the GPU '0000:01:00.0'"):
        read(text, HINTS)


def test_rank_minus_one_is_no_rank() -> None:
    ends = [(f"0000:{b:02x}:00.0", 2, "0x030200") for b in (1, 2, 3)]
    gpus = [_gpu(i, *(end for j, end in enumerate(ends) if j != i)) for i in range(3)]
    text = f"<system>{_cpu(*gpus)}</system>"
    assert read(text, HINTS).topology.ranks == 3
    found = read(text.replace('rank="1"', 'rank="-1"'), HINTS)
    assert found.topology.pci_bus_ids == ("0000:01:00.0", "0000:03:00.0")
    assert found.topology.lanes() == {(0, 1): 2, (1, 0): 2}
    assert "1 GPU with rank -1 left out: no rank of the communicator" in found.understood
    assert "ranks are numbered by 'rank'" in found.understood
    nobody = re.sub(r'rank="\d"', 'rank="-1"', text)
    with pytest.raises(FormatError, match="the rank of all of 3 GPUs is -1, which is no rank"):
        read(nobody, HINTS)


def test_names_that_the_format_does_not_have_are_listed() -> None:
    assert not any(line.startswith("not used") for line in read(EXAMPLE, HINTS).understood)
    text = EXAMPLE.replace('sm="70"', 'sm="70" nvlinks="4"', 1).replace("<nic>", "<hca/><nic>")
    assert "not used: nvlinks of <gpu>, <hca>" in read(text, HINTS).understood


def test_width_that_is_not_told_is_reported() -> None:
    text = EXAMPLE.replace('link_width="16"', 'link_width="?"')
    assert any("16 lanes, since link_width is missing" in k for k in read(text, HINTS).understood)


@pytest.mark.parametrize(("count", "questions"), [(6, 0), (7, 1)])
def test_more_links_than_a_gpu_has_are_questioned(count: int, questions: int) -> None:
    found = read(EXAMPLE.replace('count="2"', f'count="{count}"'), HINTS)
    lines = [line for line in found.assumed if "and a GPU v100 has at most 6" in line]
    assert len(lines) == questions
    assert _lanes(found.topology, 25.0)[0, 1] == count


def test_devices_without_a_gpu_are_counted() -> None:
    bare = '<pci busid="0000:03:00.0" class="0x030200"/>'
    text = EXAMPLE.replace("</cpu>", f"{bare}</cpu>")
    line = "1 PCI device of a GPU's class left out: the file has no <gpu> in it"
    assert line in read(text, HINTS).understood
    assert line not in read(EXAMPLE, HINTS).understood


@pytest.mark.parametrize(
    ("to_each_switch", "says"),
    [
        (6, "GPU model: a100, by architecture; "),
        (4, "GPU model: a800, by architecture and links to switches; "),
        (3, "GPU model: a100, by architecture; "),
    ],
)
def test_gpus_at_switches_are_those_with_as_many_links(to_each_switch: int, says: str) -> None:
    """Two switches. GPUs of one architecture differ: an A100 has 12 links and an A800 8."""
    text = written(Machine({}, to_each_switch, (0, 1, 2)))
    assert any(line.startswith(says) for line in read(text, HINTS).assumed)


def test_gpus_of_several_kinds_are_reported() -> None:
    found = read(EXAMPLE.replace('sm="70"', 'sm="80"', 1), HINTS)
    assert any(
        "a100 (the model of the first GPU: there are several models)" in k for k in found.assumed
    )
    assert not any("several models" in line for line in read(EXAMPLE, HINTS).assumed)


def test_partitions_of_a_device_are_rejected() -> None:
    text = EXAMPLE.replace("0000:07:00.0", "0000:06:00.1")
    with pytest.raises(InputError, match=r"GPUs 0 1 are partitions of the device 0000:06:00"):
        read(text, HINTS)


def test_early_name_of_an_architecture_is_known() -> None:
    for gcn, kind in (("940", "mi300a"), ("gfx940", "mi300a"), ("gfx941", "mi300x")):
        text = EXAMPLE.replace("nvlink", "xgmi").replace('sm="70"', f'gcn="{gcn}"')
        found = read(text, HINTS)
        assert {k.gb_per_s for k in found.topology.links} == {64.0}
        assert any(line.startswith(f"GPU model: {kind}, ") for line in found.assumed)


LAUGHS = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(9))
BOMBS = {
    "billion laughs": f'<!DOCTYPE s [<!ENTITY e0 "ha">{LAUGHS}]><system>&e9;</system>',
    "external": '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system>&x;</system>',
    "parameter": '<!DOCTYPE s [<!ENTITY % p SYSTEM "http://localhost/">%p;]><system/>',
}


@pytest.mark.parametrize("name", BOMBS)
def test_entities_are_rejected(name: str) -> None:
    with pytest.raises(FormatError, match=r"^line 1: it declares or uses an entity"):
        read(BOMBS[name], HINTS)


def test_deep_or_long_file_is_rejected() -> None:
    with pytest.raises(TooLargeError, match=f"more than {MAX_DEPTH} elements in one another"):
        read("<system>" + "<pci>" * 10**5, HINTS)
    with pytest.raises(TooLargeError, match=f"more than {MAX_ELEMENTS} elements"):
        read("<system>" + "<pci/>" * 10**6, HINTS)
    attributes = " ".join(f"a{i}='1'" for i in range(99))
    with pytest.raises(TooLargeError, match="attributes"):
        parse_xml(f"<system {attributes}/>")


def test_samples_are_read_or_refused_whatever_is_left_of_them() -> None:
    importer = importers.load_importer("nccl-xml")
    for name in ("dump_h800_8gpu_nvswitch.xml", "rccl_topo_8p_ts1.xml"):
        check_damage(importer, sample(f"{FOLDER}/{name}").read_text())
