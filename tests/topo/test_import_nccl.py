"""Topologies of NCCL and RCCL: every captured one, any that could be, and what is none."""

from __future__ import annotations

import contextlib
import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.topo import importers, resolve
from sccl.topo.importers import Hints
from sccl.topo.importers.nccl_xml import EXAMPLE, read, sniff
from sccl.topo.importers.plain_xml import MAX_DEPTH, MAX_ELEMENTS, parsed
from tests.kit.importers import check_damage, check_imported
from tests.kit.nccl import Machine, bus_id, machines, written
from tests.kit.paths import SHARED
from tests.kit.samples import imported, sample

FOLDER = "nccl_topo_xml"
HINTS = Hints("machine")

REFUSED = {
    "aws_g5.48xl-topo.xml": "it names no GPUs.*NCCL_TOPO_DUMP_FILE",
    "aws_p5.48xl-topo_2023.xml": "it names no GPUs.*NCCL_TOPO_DUMP_FILE",
    "azure_ncv4-topo.xml": "^line 5: .*leads to that GPU itself",
    "fragment_dgx1v_cut_off.xml": "^line 16: not well-formed",
    "graph_azure_ncv4.xml": "^line 1: <graphs>",
    "graph_msccl_2021.xml": "^line 1: <graphs>",
    "graph_yccl.xml": "^line 1: <graphs>",
}


def _expected() -> dict[str, dict[str, Any]]:
    file = SHARED / "data" / "samples" / FOLDER / "expected.json"
    return json.loads(file.read_text()) if file.exists() else {"": {}}


def _lanes(topology: Topology, gb_per_s: float) -> dict[tuple[int, int], int]:
    return {link.edge: link.lanes for link in topology.links if link.gb_per_s == gb_per_s}


@pytest.mark.parametrize("name", _expected())
def test_every_sample_is_read_as_it_says(name: str) -> None:
    text = sample(f"{FOLDER}/{name}").read_text()
    assert [one for one in importers.names() if importers.load(one).sniff(text)] == ["nccl-xml"]
    if name in REFUSED:
        with pytest.raises(FormatError, match=REFUSED[name]):
            read(text, HINTS)
        return
    expected = _expected()[name]
    found = check_imported(importers.load("nccl-xml"), text)
    topology = found.topology
    assert topology.ranks == expected["gpu_elements"] or expected["pci_gpu_class"]
    buses = expected.get("gpu_bus", topology.pci_bus_ids)
    assert sorted(topology.pci_bus_ids) == sorted(buses)
    nodes = expected["cpus"]
    assert f"at {nodes} NUMA node" in found.understood[0]
    if "lanes" in expected:
        fastest = max(link.gb_per_s for link in topology.links)
        ranks = [topology.pci_bus_ids.index(bus) for bus in buses]  # matrices are by dev
        wanted = {
            (ranks[a], ranks[b]): lanes
            for a, row in enumerate(expected["lanes"])
            for b, lanes in enumerate(row)
            if lanes
        }
        assert _lanes(topology, fastest) == wanted
    if own := expected.get("lanes_to_switches_per_gpu"):
        assert {budget.chunks_per_round for budget in topology.budgets} == set(own)
        assert len(topology.budgets) == 2 * topology.ranks
    speeds = {nic.gb_per_s for nic in found.nics if nic.gb_per_s}
    assert speeds <= {mbps / 8000 for mbps in expected.get("net_speed_mbps", [])}


def test_a_dump_of_a_dgx1_is_the_catalogues() -> None:
    found = imported(f"{FOLDER}/CONSTRUCTED_dgx1v_8gpu_nvlink_p2p.xml", "nccl-xml").topology
    assert sorted(_lanes(found, 25.0).values()) == sorted(resolve("dgx1").lanes().values())
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


def test_a_bridge_slower_than_the_slot_below_it_decides() -> None:
    found = imported(f"{FOLDER}/aws_p5.48xl-topo_2026.xml", "nccl-xml").topology
    assert {link.gb_per_s for link in found.links} == {25.0}


def test_nics_are_nearest_to_gpus_of_their_switch() -> None:
    found = imported(f"{FOLDER}/dump_h800_8gpu_nvswitch.xml", "nccl-xml")
    assert [nic.ranks for nic in found.nics] == [(rank,) for rank in range(8)]
    assert {nic.gb_per_s for nic in found.nics} == {50.0}


@given(machines(), st.sampled_from(["\n", "\r\n"]))
def test_any_machine_is_read_as_it_was_written(machine: Machine, newline: str) -> None:
    topology = read(written(machine, newline), HINTS).topology
    assert topology.pci_bus_ids == tuple(bus_id(rank) for rank in range(machine.gpus))
    island = list(range(machine.gpus))
    for a, b in machine.lanes:
        island = [island[a] if i == island[b] else i for i in island]
    for a, b in combinations(range(machine.gpus), 2):
        if machine.to_switches:
            assert topology.lanes()[a, b] == topology.lanes()[b, a] == 2 * machine.to_switches
        elif island[a] == island[b]:
            assert topology.lanes().get((a, b), 0) == machine.lanes.get((a, b), 0)
        else:
            assert (a, b) in topology.edges  # of PCIe
    if machine.to_switches and machine.gpus > 2:
        assert {b.chunks_per_round for b in topology.budgets} == {2 * machine.to_switches}
        assert len(topology.budgets) == 2 * machine.gpus


@given(machines(), st.data())
def test_what_is_left_of_a_machine_is_read_or_refused(
    machine: Machine, data: st.DataObject
) -> None:
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
        (('sm="70"', 'sm="999"'), "NVLinks, and how fast .* sm_999 is not known: .*--gpu"),
    ],
)
def test_messages_name_the_line(change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(EXAMPLE.replace(*change, 1), HINTS)


LAUGHS = "".join(f'<!ENTITY e{i + 1} "{f"&e{i};" * 10}">' for i in range(9))
BOMBS = {
    "billion laughs": f'<!DOCTYPE s [<!ENTITY e0 "ha">{LAUGHS}]><system>&e9;</system>',
    "external": '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system>&x;</system>',
    "parameter": '<!DOCTYPE s [<!ENTITY % p SYSTEM "http://localhost/">%p;]><system/>',
}


@pytest.mark.parametrize("name", BOMBS)
def test_entities_are_refused(name: str) -> None:
    with pytest.raises(FormatError, match=r"^line 1: it declares or uses an entity"):
        read(BOMBS[name], HINTS)


def test_what_is_deep_or_long_is_refused() -> None:
    with pytest.raises(TooLargeError, match=f"more than {MAX_DEPTH} elements in one another"):
        read("<system>" + "<pci>" * 10**5, HINTS)
    with pytest.raises(TooLargeError, match=f"more than {MAX_ELEMENTS} elements"):
        read("<system>" + "<pci/>" * 10**6, HINTS)
    attributes = " ".join(f"a{i}='1'" for i in range(99))
    with pytest.raises(TooLargeError, match="attributes"):
        parsed(f"<system {attributes}/>")
    many = written(Machine({}, 1, tuple(range(2))))
    gpu = many[many.index("<pci") : many.index("</pci>") + 6]
    each = (gpu.replace("0000:10", f"{i:04x}:10") for i in range(65))
    with pytest.raises(TooLargeError, match="65 GPUs"):
        read(f"<system><cpu>{''.join(each)}</cpu></system>", HINTS)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with contextlib.suppress(InputError):
        text = importers.text_of_bytes(content, "f")
        sniff(text)
        read(text, HINTS)


def test_samples_are_read_or_refused_whatever_is_left_of_them() -> None:
    importer = importers.load("nccl-xml")
    for name in ("dump_h800_8gpu_nvswitch.xml", "rccl_topo_8p_ts1.xml"):
        check_damage(importer, sample(f"{FOLDER}/{name}").read_text())
