"""Files of strangers that are large: refused before anything is held against everything."""

from __future__ import annotations

import json

import pytest

from sccl.errors import FormatError, TooLargeError
from sccl.topo.importers import Hints, load_importer
from sccl.topo.importers.common.gpu_pairs import MAX_CARDS, MAX_GPUS

HINTS = Hints("machine")


def hwloc(gpus: int, cards: int) -> str:
    device = '<object type="PCIDev" pci_busid="{:04x}:{:02x}:0{}.0" pci_type="{} [1002:74a1]"/>'
    lines = [device.format(i >> 8, i & 255, 0, 1200) for i in range(gpus)]
    lines += [device.format(i >> 8, i & 255, 1, "0207") for i in range(cards)]
    return f'<topology><object type="Machine">{"".join(lines)}</object></topology>'


def nccl_xml(gpus: int, cards: int) -> str:
    device = '<pci busid="{:04x}:{:02x}:0{}.0" class="0x0{}"/>'
    lines = [device.format(i >> 8, i & 255, 0, 30200) for i in range(gpus)]
    lines += [device.format(i >> 8, i & 255, 1, 20700) for i in range(cards)]
    return f"<system><cpu>{''.join(lines)}</cpu></system>"


def nvidia_smi(gpus: int, cards: int) -> str:
    names = [*(f"GPU{i}" for i in range(gpus)), *(f"mlx5_{i}" for i in range(cards))]
    rows = [
        "\t".join([f"GPU{i}", *("X" if i == j else "SYS" for j in range(gpus)), *["PIX"] * cards])
        for i in range(gpus)
    ]
    return "\n".join(["\t" + "\t".join(names), *rows])


FORMATS = {"hwloc": hwloc, "nccl-xml": nccl_xml, "nvidia-smi": nvidia_smi}


@pytest.mark.parametrize("name", FORMATS)
def test_cards_are_limited(name: str) -> None:
    importer, text = load_importer(name), FORMATS[name]
    assert len(importer.read(text(2, 20), HINTS).nics) == 20
    with pytest.raises(TooLargeError, match=f"more than {MAX_CARDS} network cards"):
        importer.read(text(8, 20_000), HINTS)


@pytest.mark.parametrize("gpus", [MAX_GPUS + 1, 20_000])
@pytest.mark.parametrize("name", ["hwloc", "nccl-xml"])
def test_gpus_are_limited(name: str, gpus: int) -> None:
    with pytest.raises(TooLargeError, match=f"{gpus} GPUs, and files are read to {MAX_GPUS}"):
        load_importer(name).read(FORMATS[name](gpus, gpus), HINTS)


def test_matrix_of_more_numbers_than_it_says_is_read_no_further() -> None:
    matrix = '<distances2 name="NVLinkBandwidth" nbobjs="2"><indexes>1 2</indexes>'
    matrix += f"<u64values>{'1 ' * 10**6}</u64values></distances2>"
    text = f'<topology><object type="Machine"/>{matrix}</topology>'
    with pytest.raises(FormatError, match="has more than 4 numbers in u64values, expected 4"):
        load_importer("hwloc").read(text, HINTS)


def test_pairs_that_switches_join_are_limited() -> None:
    everyone = list(range(64))
    links = [[int(a != b) for a in everyone] for b in everyone]
    switches = [[everyone, everyone, 1, "s"]] * 257
    told = {"msccl_type": "topology", "name": "x", "switches": switches, "links": links}
    with pytest.raises(TooLargeError, match="its switches join 1052672 pairs of ranks"):
        load_importer("msccl-topology").read(json.dumps(told), HINTS)


def test_box_of_many_gpus_is_read() -> None:
    """Each edge is read once, without a scan of all edges for each GPU."""
    importer = load_importer("infragraph")
    text = importer.EXAMPLE.replace("choice: xpu, count: 2", "choice: xpu, count: 4000")
    text = text.replace("count: 1}", "count: 8}", 1)
    machine = importer.read(
        text.replace("host, device: box, count: 2", "host, device: box, count: 1"), HINTS
    )
    assert machine.topology.ranks == 4000
