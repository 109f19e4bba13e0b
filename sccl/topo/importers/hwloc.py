"""Read hwloc's description of a machine: ``lstopo --of xml --whole-io``.

The root is an ``object`` of type Machine that contains sockets, host bridges and PCI devices. An
``OSDev`` in a PCI device has the data of a library, for example NVML's for a GPU. Separate matrices
have the total rate of the NVLinks (since hwloc 2.4) or xGMI links of each pair of GPUs, in 10^6
bytes per second and direction. Links to NVSwitches become links between all pairs at the full rate,
with budgets for the traffic out of and into each GPU
(:mod:`~sccl.topo.importers.common.gpu_pairs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd

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
    XGMI,
    Gpu,
    check_partitions,
    describe_impossible_links,
    describe_speed,
    find_gpu,
    parse_gpu,
)
from sccl.topo.importers.common.hwloc_tree import CPU, NVSWITCH, Distances, Hardware, parse_tree
from sccl.topo.importers.common.plain_xml import Element, parse_xml
from sccl.topo.importers.common.unused_fields import unused_line

NAME = "hwloc"
ABOUT = "topology of hwloc's lstopo in XML"
SOURCE = "open-mpi/hwloc, hwloc/topology-xml.c, topology-nvml.c and topology-rsmi.c"
EXAMPLE = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" gp_index="1">
    <object type="Package" os_index="0" gp_index="2">
      <object type="Bridge" gp_index="3" bridge_type="0-1" depth="0" bridge_pci="0000:[00-07]">
        <object type="PCIDev" gp_index="4" pci_busid="0000:06:00.0" \
pci_type="0302 [10de:1db1] [10de:1212] a1 00" pci_link_speed="15.753846">
          <object type="OSDev" gp_index="5" name="nvml0" subtype="NVML" osdev_type="5">
            <info name="GPUModel" value="Tesla V100-SXM2-16GB"/>
          </object>
        </object>
        <object type="PCIDev" gp_index="6" pci_busid="0000:07:00.0" \
pci_type="0302 [10de:1db1] [10de:1212] a1 00" pci_link_speed="15.753846">
          <object type="OSDev" gp_index="7" name="nvml1" subtype="NVML" osdev_type="5">
            <info name="GPUModel" value="Tesla V100-SXM2-16GB"/>
          </object>
        </object>
      </object>
    </object>
  </object>
  <distances2 type="OSDev" nbobjs="2" kind="25" name="NVLinkBandwidth" indexing="gp">
    <indexes length="4">5 7 </indexes>
    <u64values length="30">1000000 50000 50000 1000000 </u64values>
  </distances2>
</topology>
"""

MAX_LANES = 64
"""Maximum number of lanes between a pair of GPUs."""

_COMMAND = "lstopo --of xml --whole-io topo.xml"
_RSMI_CONSTANT = 100_000
"""The constant that hwloc writes for any xGMI link, because ROCm SMI reports no speed."""

_MAX_SLOWEST_SHOWN = 3
"""Minimum plausible PCIe generation. A lower reported speed is that of a sleeping GPU."""

_UNKNOWN_PCIE = 4
_ROOT = re.compile(r"<topology[\s>]")
_MACHINE = re.compile(r"<object\s[^<>]{0,200}?type=.Machine")


def sniff(text: str) -> bool:
    """Return whether a text has the root element of such a file, and a machine."""
    head = text[:65536]
    return (
        head.lstrip("\ufeff \t\r\n").startswith("<")
        and _ROOT.search(head) is not None
        and _MACHINE.search(head) is not None
    )


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a text describes.

    Raises:
        InputError: The text is no such file, has no GPUs, or its matrices are inconsistent.
    """
    tree = parse_tree(_topology(parse_xml(text)))
    _check_gpus(tree)
    gpu, by = _identify_gpu(tree, hints)
    fast = _fast_links(tree, gpu)
    if fast.direct:
        check_partitions([device.bus_id for device in tree.gpus])
    lanes = merge_switch_links(fast.direct, fast.to_switches)
    places = tuple(device.socket_key for device in tree.gpus)
    pairs = GpuPairs(len(tree.gpus), lanes, tree.paths(), places)
    pcie, assumption = _pcie_generation(tree, gpu)
    built = build_machine(
        pairs, Speeds(fast.kind, fast.lane, pairs.max_links(fast.to_switches), pcie), hints, ABOUT
    )
    topology = replace(built.topology, pci_bus_ids=tuple(device.bus_id for device in tree.gpus))
    models = sorted({model for device in tree.gpus if (model := device.model())})
    of = f" ({', '.join(models)})" if models else ""
    sockets = format_count(len(set(places)), "socket")
    return Imported(
        topology,
        (
            f"{format_count(len(tree.gpus), 'GPU')}{of} at {sockets}",
            f"ranks are numbered by {tree.order}",
            *describe_links(fast.kind, fast.direct, fast.to_switches),
            *fast.notes,
            *built.understood,
            *describe_nics(tree.cards),
            *unused_line(tree.unused),
        ),
        (
            *by,
            *fast.assumed,
            *_link_warnings(pairs.gpus, fast, gpu),
            *filter(None, [assumption]),
            *built.assumed,
        ),
        tuple(card for card in tree.cards if card.ranks),
    )


def _topology(root: Element) -> Element:
    machine = next((child for child in root.children if child.tag == "object"), None)
    if root.tag != "topology" or machine is None or machine.get("type") != "Machine":
        raise FormatError(
            f"line {root.line}: the root is <{root.tag[:40]}>, expected a <topology> with an "
            f"<object> of type Machine, as hwloc writes it with '{_COMMAND}'"
        )
    return root


def _check_gpus(tree: Hardware) -> None:
    if not tree.gpus:
        raise FormatError(
            f"it has no GPUs: write it on the machine that has them, with PCI devices: '{_COMMAND}'"
        )


def _identify_gpu(tree: Hardware, hints: Hints) -> tuple[Gpu | None, list[str]]:
    """Return the GPU model, from the user or the file, and lines that state its source."""
    if hints.gpu is not None:
        return parse_gpu(hints.gpu), []
    model = tree.gpus[0].model()
    gpu = find_gpu(model)
    vendors = sorted({device.vendor for device in tree.gpus})
    lines = []
    if len(vendors) > 1:
        lines.append(
            f"the GPUs come from {len(vendors)} vendors (PCI ids {', '.join(vendors)}), and no "
            "vendor's library supports all of them: imported as one machine"
        )
    if gpu is None:
        said = f" ({model[:60]})" if model else ""
        return None, [*lines, f"the GPU model is not known{said}: --gpu sets it"]
    kinds = {find_gpu(device.model()) for device in tree.gpus}
    others = "" if len(kinds) == 1 else " (the model of the first GPU: there are several models)"
    assumption = f"GPU model: {gpu.name}{others}, from the names in the file; --gpu overrides it"
    return gpu, [*lines, assumption]


def _link_warnings(gpus: int, fast: _FastLinks, gpu: Gpu | None) -> list[str]:
    """Describe numbers of links that no GPU of this kind has."""
    link_counts = [[n for pair, n in fast.direct.items() if rank in pair] for rank in range(gpus)]
    links = [sum(counts) + fast.to_switches.get(rank, 0) for rank, counts in enumerate(link_counts)]
    lines = describe_impossible_links(
        fast.kind, links, list(map(len, link_counts)), [gpu] if gpu else []
    )
    return [f"questioned: {line}, by the file's matrices" for line in lines]


@dataclass(frozen=True, slots=True)
class _FastLinks:
    """The fast links of a machine.

    Attributes:
        lane: rate of one link per direction, 10^9 bytes per second.
        direct: number of links by pair, the lower GPU first.
        to_switches: number of links to switches, by GPU.
        notes: other lines for ``understood``.
        assumed: lines for unknown values.
    """

    kind: str
    lane: float
    direct: dict[Edge, int]
    to_switches: dict[int, int]
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


def _fast_links(tree: Hardware, gpu: Gpu | None) -> _FastLinks:
    """Return the fast links from the matrices.

    Raises:
        InputError: The matrices are inconsistent, or of an unsupported kind.
    """
    xe = tree.matrices.get("XeLinkBandwidth")
    if xe is not None and any(xe.between_gpus().values()):
        raise FormatError(
            f"line {xe.line}: its GPUs have Xe Links, which sccl does not import from hwloc's "
            "XML: write a machine file (docs/how-to/machine.md)"
        )
    if nvlinks := tree.matrices.get("NVLinkBandwidth"):
        return _links_from_matrix(NVLINK, nvlinks, _symmetric_entries(nvlinks), gpu)
    if xgmi := tree.matrices.get("XGMIBandwidth"):
        hops = tree.matrices.get("XGMIHops")
        near = hops.between_gpus() if hops else {}
        direct = {pair: n for pair, n in _symmetric_entries(xgmi).items() if near.get(pair, 1) == 1}
        if set(direct.values()) == {_RSMI_CONSTANT}:
            _check_constant(xgmi, direct, len(tree.gpus), gpu)
        return _links_from_matrix(XGMI, xgmi, direct, gpu)
    return _FastLinks(gpu.link if gpu else NVLINK, 0.0, {}, {}, (), tuple(_no_links_notes(gpu)))


def _check_constant(matrix: Distances, direct: dict[Edge, int], gpus: int, gpu: Gpu | None) -> None:
    """Check that all pairs with xGMI can have a direct link.

    ROCm SMI reports 1 hop for any pair that xGMI joins, at any distance.

    Raises:
        InputError: They cannot, or the dies in a package have more links than other pairs.
    """
    peers = [sum(rank in pair for pair in direct) for rank in range(gpus)]
    lines = describe_impossible_links(XGMI, peers, peers, [gpu] if gpu else [])
    dies = gpu is not None and gpu.peers and gpus > 2 and len(direct) == gpus * (gpus - 1) // 2
    if lines or dies:
        why = lines[0] if lines else f"the dies of {gpu.name if gpu else ''} are joined unequally"
        raise InputError(
            f"line {matrix.line}: every pair has the same bandwidth and 1 hop, which ROCm SMI "
            f"reports for any number of xGMI links ({why}): import the output of 'rocm-smi "
            "--showtopo', which shows the distance by weights"
        )


def _symmetric_entries(matrix: Distances) -> dict[Edge, int]:
    """Return the nonzero numbers of pairs of GPUs, the lower GPU first.

    Raises:
        FormatError: The two directions of a pair have different numbers.
    """
    values = matrix.between_gpus()
    for (a, b), value in values.items():
        if values[b, a] != value:
            raise FormatError(
                f"line {matrix.line}: {value} from GPU {a} to GPU {b}, and {values[b, a]} back: "
                f"expected as many; write the file anew: '{_COMMAND}'"
            )
    return {(a, b): value for (a, b), value in values.items() if a < b and value}


def _links_from_matrix(
    kind: str, matrix: Distances, direct: dict[Edge, int], gpu: Gpu | None
) -> _FastLinks:
    """Return the links of a matrix.

    Raises:
        InputError: The numbers have no common speed, or no speed while the GPU is unknown.
    """
    to_switches = matrix.sums_to(NVSWITCH)
    values = [*direct.values(), *to_switches.values()]
    left_out = tuple(_omitted_notes(kind, matrix))
    if not values:
        return _FastLinks(
            kind, 0.0, {}, {}, left_out, () if left_out else tuple(_no_links_notes(gpu))
        )
    gpu_speed = round(1000 * gpu.gb_per_s) if gpu and gpu.link == kind else 0
    if kind == XGMI and set(values) == {_RSMI_CONSTANT} and gpu_speed != _RSMI_CONSTANT:
        if gpu is None or not gpu_speed:
            raise InputError(
                "the speed of its xGMI links is not in the file (hwloc writes 100 GB/s for any): "
                "select the GPU with --gpu"
            )
        constant = (
            "each pair with xGMI and 1 hop has one direct link, because hwloc writes no number "
            "or speed of links, and ROCm SMI prints 1 hop for any distance; the weights of "
            "'rocm-smi --showtopo' show the distance"
        )
        return _FastLinks(
            kind, gpu.gb_per_s, dict.fromkeys(direct, 1), {}, (), (constant, describe_speed(gpu))
        )
    is_multiple = gpu_speed and not any(value % gpu_speed for value in values)
    lane = gpu_speed if is_multiple else gcd(*values)
    if max(values) > lane * MAX_LANES:
        raise InputError(
            f"line {matrix.line}: the numbers of {matrix.name!r} are not multiples of the speed "
            f"of one {kind}: select the GPU with --gpu"
        )
    return _FastLinks(
        kind,
        lane / 1000,
        {pair: value // lane for pair, value in direct.items()},
        {rank: value // lane for rank, value in to_switches.items()},
        left_out,
        (
            describe_speed(gpu)
            if gpu and is_multiple
            else f"an {kind} carries {lane / 1000:g} GB/s per direction; all numbers in the file "
            "are multiples of it",
        ),
    )


def _omitted_notes(kind: str, matrix: Distances) -> Iterable[str]:
    for target, said in ((CPU, "CPUs"), (None, "devices outside the file")):
        if counts := matrix.sums_to(target):
            yield (
                f"{kind}s of {format_count(len(counts), 'GPU')} to {said} left out: they join no "
                f"GPUs"
            )


def _no_links_notes(gpu: Gpu | None) -> Iterable[str]:
    if gpu is not None and gpu.links:
        tool = "nvidia-smi topo -m" if gpu.link == NVLINK else "rocm-smi --showtopo"
        yield (
            f"the file has no {gpu.link}s, and the GPU {gpu.name} has {gpu.links}: if they join "
            f"GPUs, import the output of '{tool}'"
        )


def _pcie_generation(tree: Hardware, gpu: Gpu | None) -> tuple[int, str]:
    """Return the generation of PCIe, and a note if it is assumed."""
    slowest = max(device.generation() for device in tree.gpus)
    if slowest >= _MAX_SLOWEST_SHOWN:
        return slowest, ""
    generation = gpu.pcie if gpu else _UNKNOWN_PCIE
    slow = "slower than PCIe 3, as GPUs that sleep are" if slowest else "not in the file"
    return generation, f"the speed of the slots is {slow}: generation {generation} assumed"
