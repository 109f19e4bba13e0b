"""Read the machine files of NCCL and RCCL: ``NCCL_TOPO_DUMP_FILE``, ``NCCL_TOPO_FILE``.

A ``system`` contains ``cpu`` elements, and these contain trees of ``pci`` elements. A ``pci``
element contains a ``gpu``, which lists ``nvlink`` or ``xgmi`` links by the PCI bus id of the other
end, or a ``nic`` with ``net`` elements. Links to NVSwitches (PCI class 0x068000) become links
between all pairs at the full rate, with budgets for the traffic out of and into each GPU
(:mod:`~sccl.topo.importers.common.gpu_pairs`).

NVLinks to CPUs (class 0x068001, of POWER9) join no GPUs.

Link speeds are those of data sheets, as in the catalogue, so that catalogue machines and imported
ones are comparable. NCCL uses 0.72 to 0.9 of them (src/graph/topo.h).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from sccl.core.formatting import format_count
from sccl.core.ids import Edge
from sccl.errors import FormatError, InputError
from sccl.topo.importers.common.contract import Hints, Imported
from sccl.topo.importers.common.gpu_pairs import (
    GpuPairs,
    Speeds,
    build_machine,
    describe_links,
    describe_nics,
    merge_switch_links,
)
from sccl.topo.importers.common.gpus import (
    NVLINK,
    PCIE,
    XGMI,
    Gpu,
    amd_gpu,
    check_partitions,
    describe_impossible_links,
    describe_speed,
    nvidia_gpu,
    parse_gpu,
    same_architecture,
)
from sccl.topo.importers.common.nccl_tree import (
    ATTRIBUTES,
    CPU_CLASS,
    SWITCH_CLASS,
    Inventory,
    parse_tree,
)
from sccl.topo.importers.common.plain_xml import Element, parse_xml
from sccl.topo.importers.common.unused_fields import unused_attributes, unused_line

NAME = "nccl-xml"
ABOUT = "topology of NCCL or RCCL in XML"
SOURCE = "NVIDIA/nccl and ROCm/rccl, src/graph/xml.cc and src/graph/topo.cc"
EXAMPLE = """\
<system version="1">
  <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:06:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="70" rank="0" gdr="1">
        <nvlink target="0000:07:00.0" count="2" tclass="0x030200"/>
      </gpu>
    </pci>
    <pci busid="0000:07:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="70" rank="1" gdr="1">
        <nvlink target="0000:06:00.0" count="2" tclass="0x030200"/>
      </gpu>
    </pci>
    <pci busid="0000:0a:00.0" class="0x020700" link_speed="8.0 GT/s PCIe" link_width="16">
      <nic>
        <net name="mlx5_0" dev="0" speed="100000" port="1" maxconn="131072" gdr="1"/>
      </nic>
    </pci>
  </cpu>
</system>
"""

MAX_LINKS = 64
"""Maximum ``count`` of a link element."""

_ROOT = re.compile(r"<(?:system|graphs)[\s>]")
_DUMP = "NCCL_TOPO_DUMP_FILE=topo.xml"


def sniff(text: str) -> bool:
    """Return whether a text has the root element of such a file, or of NCCL's graphs."""
    match = _ROOT.search(text[:65536])
    return match is not None and text.lstrip("\ufeff \t\r\n").startswith("<")


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a text describes.

    Raises:
        InputError: The text is no such file, has no GPUs, or has contradictory links.
    """
    system = _system(parse_xml(text))
    tree = parse_tree(system)
    _check_count(tree)
    direct, to_switches = _direct_links(tree), _switch_links(tree)
    kind = _link_kind(tree)
    if direct:
        check_partitions(tree.bus_ids())
    gpu = _identify_gpu(
        tree, hints, max(to_switches.values(), default=0), needed=bool(direct or to_switches)
    )
    lanes = merge_switch_links(direct, to_switches)
    pairs = GpuPairs(len(tree.gpus), lanes, tree.paths(), tuple(g.numa for g in tree.gpus))
    speeds = Speeds(
        kind,
        gpu.gb_per_s if gpu else 0.0,
        pairs.max_links(to_switches),
        _pcie_generation(tree, gpu),
    )
    built = build_machine(pairs, speeds, hints, ABOUT)
    topology = replace(built.topology, pci_bus_ids=tree.bus_ids())
    fast = describe_links(kind, direct, to_switches)
    return Imported(
        topology,
        (
            *_understood_notes(tree),
            *fast,
            *_omitted_notes(tree),
            *built.understood,
            *_nic_notes(tree),
            *unused_line(unused_attributes(system, ATTRIBUTES)),
        ),
        (
            *_gpu_notes(tree, gpu, hints, links=bool(fast)),
            *_link_warnings(tree, direct, to_switches, gpu, hints),
            *built.assumed,
        ),
        tuple(card for card in tree.cards if card.ranks),
    )


def _system(root: Element) -> Element:
    if root.tag == "graphs":
        raise FormatError(
            f"line {root.line}: <graphs> are the rings and trees that NCCL chose, not the "
            f"machine: give the file that {_DUMP} writes"
        )
    if root.tag != "system":
        raise FormatError(
            f"line {root.line}: the root is <{root.tag[:40]}>, expected <system>, as NCCL writes "
            f"it with {_DUMP}"
        )
    return root


def _check_count(tree: Inventory) -> None:
    if not tree.gpus and tree.rankless_gpus:
        raise FormatError(
            f"the rank of all of {format_count(tree.rankless_gpus, 'GPU')} is -1, which is no "
            "rank: run with "
            f"{_DUMP} on GPUs that take part, and give that file"
        )
    if not tree.gpus:
        raise FormatError(
            f"it names no GPUs, which NCCL finds when it runs: run with {_DUMP} and give that file"
        )


def _direct_links(tree: Inventory) -> dict[Edge, int]:
    """Return the number of direct links of each pair of GPUs, the lower GPU first.

    Raises:
        FormatError: A link leads to its own GPU, or the two ends have different numbers.
    """
    links: dict[Edge, tuple[int, int]] = {}
    for rank, place in enumerate(tree.gpus):
        for link in place.links():
            peer = tree.rank_at(place, link.get("target"))
            if peer == rank:
                raise FormatError(
                    f"line {link.line}: <{link.tag}> of the GPU {place.bus_id} leads to that GPU "
                    f"itself: the file was changed, write it anew with {_DUMP}"
                )
            if peer is not None:
                before = links.get((rank, peer), (0, 0))[0]
                links[rank, peer] = before + _link_count(link), link.line
    for (a, b), (lanes, line) in links.items():
        back = links.get((b, a), (0, 0))[0]
        if back != lanes:
            raise FormatError(
                f"line {line}: {format_count(lanes, 'link')} from {tree.gpus[a].bus_id} to "
                f"{tree.gpus[b].bus_id}, and {back} back: expected as many"
            )
    return {(a, b): lanes for (a, b), (lanes, _) in links.items() if a < b}


def _switch_links(tree: Inventory) -> dict[int, int]:
    """Return the nonzero numbers of links from GPUs to switches."""
    counts = {
        rank: sum(map(_link_count, tree.links_to(rank, SWITCH_CLASS)))
        for rank in range(len(tree.gpus))
    }
    return {rank: count for rank, count in counts.items() if count}


def _link_count(link: Element) -> int:
    text = link.get("count")
    count = int(text) if re.fullmatch("[0-9]{1,4}", text) else 0
    if not 1 <= count <= MAX_LINKS:
        raise FormatError(
            f"line {link.line}: count of <{link.tag}> is {text[:40]!r}, expected 1 to {MAX_LINKS}"
        )
    return count


def _link_kind(tree: Inventory) -> str:
    return XGMI if any(g.architecture().startswith("gfx") for g in tree.gpus) else NVLINK


def _identify_gpu(tree: Inventory, hints: Hints, to_switches: int, *, needed: bool) -> Gpu | None:
    """Return the GPU model, from the user or by the architecture and links to switches.

    Raises:
        InputError: The GPUs have links, but the model is unknown or has none.
    """
    if hints.gpu is not None:
        gpu: Gpu | None = parse_gpu(hints.gpu)
    else:
        gpu = _gpu_by_architecture(tree.gpus[0].architecture())
        alike = same_architecture(gpu) if gpu and gpu.links != to_switches else ()
        gpu = next((g for g in alike if g.on_switches and g.links == to_switches), gpu)
    if needed and (gpu is None or gpu.link == PCIE):
        name = gpu.name if gpu else tree.gpus[0].architecture() or "none"
        raise InputError(
            f"the GPU {tree.gpus[0].bus_id} has {_link_kind(tree)}s of unknown speed on {name}: "
            "select "
            "the GPU with --gpu"
        )
    return gpu


def _gpu_by_architecture(name: str) -> Gpu | None:
    if name.startswith("gfx"):
        return amd_gpu(name.removeprefix("gfx")) or amd_gpu(name)
    return nvidia_gpu(int(name.removeprefix("sm_"))) if name else None


def _pcie_generation(tree: Inventory, gpu: Gpu | None) -> int:
    """Return the PCIe generation of the slowest slot or bridge above a GPU."""
    generations = [place.generation for place in tree.gpus if place.generation]
    return min(generations) if generations else (gpu.pcie if gpu else 4)


def _understood_notes(tree: Inventory) -> Iterable[str]:
    kinds = sorted({g.architecture() for g in tree.gpus} - {""})
    of = f" ({', '.join(kinds)})" if kinds else ""
    yield f"{format_count(len(tree.gpus), 'GPU')}{of} at {format_count(tree.cpus, 'NUMA node')}"
    yield f"ranks are numbered by {tree.order}"
    if speeds := sorted({g.speed for g in tree.gpus} - {""}):
        yield f"slowest on the way up from a GPU: {', '.join(speeds)}"


def _link_warnings(
    tree: Inventory,
    direct: dict[Edge, int],
    to_switches: dict[int, int],
    gpu: Gpu | None,
    hints: Hints,
) -> list[str]:
    """Describe numbers of links that no GPU of this kind has."""
    each = range(len(tree.gpus))
    link_counts = [[n for pair, n in direct.items() if rank in pair] for rank in each]
    links = [sum(counts) + to_switches.get(rank, 0) for rank, counts in enumerate(link_counts)]
    kinds = () if gpu is None else (gpu,) if hints.gpu else same_architecture(gpu)
    questions = describe_impossible_links(
        _link_kind(tree), links, list(map(len, link_counts)), kinds
    )
    return [f"questioned: {line}: the file counts them so" for line in questions]


def _omitted_notes(tree: Inventory) -> Iterable[str]:
    if tree.rankless_gpus:
        yield (
            f"{format_count(tree.rankless_gpus, 'GPU')} with rank -1 left out: no rank of the "
            f"communicator"
        )
    if tree.undescribed_gpus:
        devices = format_count(tree.undescribed_gpus, "PCI device")
        yield f"{devices} of a GPU's class left out: the file has no <gpu> in it"
    to_cpus = [
        sum(map(_link_count, tree.links_to(rank, CPU_CLASS))) for rank in range(len(tree.gpus))
    ]
    if any(to_cpus):
        with_some = format_count(sum(map(bool, to_cpus)), "GPU")
        yield (
            f"{sum(to_cpus)} {_link_kind(tree)}s of {with_some} to CPUs left out: they join no GPUs"
        )
    if gone := tree.count_other_links():
        yield f"{format_count(gone, 'link')} to nodes that are not ranks of the file are ignored"
    if c2c := sum(child.tag == "c2c" for g in tree.gpus for child in g.gpu_children()):
        yield (
            f"{format_count(c2c, 'GPU')} with a C2C link to a CPU, which does not connect GPUs to "
            "each other"
        )


def _nic_notes(tree: Inventory) -> Iterable[str]:
    yield from describe_nics(tree.cards)
    if tree.virtual:
        yield f"{format_count(tree.virtual, 'network interface')} without a PCI device left out"


def _gpu_notes(tree: Inventory, gpu: Gpu | None, hints: Hints, *, links: bool) -> Iterable[str]:
    if gpu is not None and links:
        kinds = {place.architecture() for place in tree.gpus}
        several = " (the model of the first GPU: there are several models)"
        first = several if len(kinds) > 1 else ""
        usual = gpu == _gpu_by_architecture(tree.gpus[0].architecture())
        by = "architecture" if usual else "architecture and links to switches"
        assumption = f"GPU model: {gpu.name}{first}, by {by}; --gpu overrides it; "
        named_by = "" if hints.gpu else assumption
        yield f"{named_by}{describe_speed(gpu)}"
    if not any(place.gpu is not None for place in tree.gpus):
        yield (
            "the file lists GPUs by PCI class only, without links, which NCCL detects at run "
            f"time: if the GPUs have links, run NCCL with {_DUMP} and import that file"
        )
    if len({place.host for place in tree.gpus}) > 1:
        yield "GPUs of different hosts are connected by links of the file only, not by their NICs"
