"""Read hwloc's description of a machine: ``lstopo --of xml --whole-io``.

The root is an ``object`` of type Machine that contains sockets, host bridges and PCI devices. An
``OSDev`` in a PCI device has the data of a library, for example NVML's for a GPU. Matrices beside
the objects have the total rate of the NVLinks (since hwloc 2.4) or xGMI links of each pair of GPUs,
in 10^6 bytes per second and direction. Links to NVSwitches become those of
:mod:`~sccl.topo.importers.pairs`: any pair at the full rate, with budgets for the traffic out of
and into each GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import gcd

from sccl.core.ids import Edge
from sccl.core.words import counted
from sccl.errors import FormatError, InputError
from sccl.topo.importers.contract import Hints, Imported
from sccl.topo.importers.gpus import (
    NVLINK,
    XGMI,
    Gpu,
    check_partitions,
    gpu_named,
    gpu_of_user,
    link_questions,
    speed_said,
)
from sccl.topo.importers.hwloc_tree import CPU, NVSWITCH, Distances, Hardware, tree_of
from sccl.topo.importers.pairs import (
    Pairs,
    Speeds,
    build,
    links_said,
    nics_said,
    with_switches,
)
from sccl.topo.importers.plain_xml import Element, parsed
from sccl.topo.importers.unused import unused_line

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
"""Limit for the lanes of a pair of GPUs."""

_COMMAND = "lstopo --of xml --whole-io topo.xml"
_RSMI_CONSTANT = 100_000
"""The constant that hwloc writes for any xGMI link, because ROCm SMI reports no speed."""

_SLOWEST_TOLD = 3
"""The PCIe generation below which a reported speed is that of a GPU in a sleep state."""

_UNKNOWN_PCIE = 4
_ROOT = re.compile(r"<topology[\s>]")
_MACHINE = re.compile(r"<object\s[^<>]{0,200}?type=.Machine")


def sniff(text: str) -> bool:
    """Return whether a text has the root of such a file, and a machine in it."""
    head = text[:65536]
    return (
        head.lstrip("\ufeff \t\r\n").startswith("<")
        and _ROOT.search(head) is not None
        and _MACHINE.search(head) is not None
    )


def read(text: str, hints: Hints) -> Imported:
    """Return the machine that a text describes.

    Raises:
        InputError: it is no such file, has no GPUs, or its matrices contradict themselves.
    """
    tree = tree_of(_topology(parsed(text)))
    _check_gpus(tree)
    gpu, by = _gpu(tree, hints)
    fast = _fast(tree, gpu)
    if fast.direct:
        check_partitions([one.bus_id for one in tree.gpus])
    lanes = with_switches(fast.direct, fast.to_switches)
    places = tuple(one.place for one in tree.gpus)
    pairs = Pairs(len(tree.gpus), lanes, tree.paths(), places)
    pcie, told = _pcie(tree, gpu)
    built = build(
        pairs, Speeds(fast.kind, fast.lane, pairs.most_links(fast.to_switches), pcie), hints, ABOUT
    )
    topology = replace(built.topology, pci_bus_ids=tuple(one.bus_id for one in tree.gpus))
    models = sorted({model for one in tree.gpus if (model := one.model())})
    of = f" ({', '.join(models)})" if models else ""
    sockets = counted(len(set(places)), "socket")
    return Imported(
        topology,
        (
            f"{counted(len(tree.gpus), 'GPU')}{of} at {sockets}",
            f"ranks are numbered by {tree.order}",
            *links_said(fast.kind, fast.direct, fast.to_switches),
            *fast.said,
            *built.understood,
            *nics_said(tree.cards),
            *unused_line(tree.unused),
        ),
        (
            *by,
            *fast.assumed,
            *_questions(pairs.gpus, fast, gpu),
            *filter(None, [told]),
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


def _gpu(tree: Hardware, hints: Hints) -> tuple[Gpu | None, list[str]]:
    """Return the GPU model, from the user or the file, and lines that state its source."""
    if hints.gpu is not None:
        return gpu_of_user(hints.gpu), []
    model = tree.gpus[0].model()
    found = gpu_named(model)
    vendors = sorted({one.vendor for one in tree.gpus})
    lines = []
    if len(vendors) > 1:
        lines.append(
            f"the GPUs are of {len(vendors)} vendors (PCI ids {', '.join(vendors)}), and no "
            "library of one of them joins all: taken as one machine"
        )
    if found is None:
        said = f" ({model[:60]})" if model else ""
        return None, [*lines, f"the GPU model is not known{said}: --gpu sets it"]
    kinds = {gpu_named(one.model()) for one in tree.gpus}
    others = "" if len(kinds) == 1 else " (by the first: they are of several kinds)"
    told = f"GPU model: {found.name}{others}, from the names in the file; --gpu overrides it"
    return found, [*lines, told]


def _questions(gpus: int, fast: _Fast, gpu: Gpu | None) -> list[str]:
    """Return, in words, the numbers of links that no GPU of this kind has."""
    own = [[n for pair, n in fast.direct.items() if rank in pair] for rank in range(gpus)]
    links = [sum(counts) + fast.to_switches.get(rank, 0) for rank, counts in enumerate(own)]
    lines = link_questions(fast.kind, links, list(map(len, own)), [gpu] if gpu else [])
    return [f"questioned: {line}, by the file's matrices" for line in lines]


@dataclass(frozen=True, slots=True)
class _Fast:
    """The fast links of a machine.

    Attributes:
        lane: rate of one link per direction, 10^9 bytes per second.
        direct: number of links by pair, the lower GPU first.
        to_switches: number of links to switches, by GPU.
        said: other lines for ``understood``.
        assumed: lines for unknown values.
    """

    kind: str
    lane: float
    direct: dict[Edge, int]
    to_switches: dict[int, int]
    said: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


def _fast(tree: Hardware, gpu: Gpu | None) -> _Fast:
    """Return the fast links that matrices tell.

    Raises:
        InputError: they are not right, or of a kind that is not read.
    """
    xe = tree.matrices.get("XeLinkBandwidth")
    if xe is not None and any(xe.between_gpus().values()):
        raise FormatError(
            f"line {xe.line}: its GPUs are joined by Xe Links, which are not read from hwloc's XML:"
            " write the machine's own file, as docs/how-to/machine.md has it"
        )
    if nvlinks := tree.matrices.get("NVLinkBandwidth"):
        return _of_matrix(NVLINK, nvlinks, _symmetric(nvlinks), gpu)
    if xgmi := tree.matrices.get("XGMIBandwidth"):
        hops = tree.matrices.get("XGMIHops")
        near = hops.between_gpus() if hops else {}
        direct = {pair: n for pair, n in _symmetric(xgmi).items() if near.get(pair, 1) == 1}
        if set(direct.values()) == {_RSMI_CONSTANT}:
            _check_constant(xgmi, direct, len(tree.gpus), gpu)
        return _of_matrix(XGMI, xgmi, direct, gpu)
    return _Fast(gpu.link if gpu else NVLINK, 0.0, {}, {}, (), tuple(_none_told(gpu)))


def _check_constant(matrix: Distances, direct: dict[Edge, int], gpus: int, gpu: Gpu | None) -> None:
    """Check that GPUs can be joined as xGMI of one speed and one hop tells.

    ROCm SMI's hops are 1 for any pair that xGMI joins, however far.

    Raises:
        InputError: They cannot, or dies in a package are joined by more links than others.
    """
    peers = [sum(rank in pair for pair in direct) for rank in range(gpus)]
    lines = link_questions(XGMI, peers, peers, [gpu] if gpu else [])
    dies = gpu is not None and gpu.peers and gpus > 2 and len(direct) == gpus * (gpus - 1) // 2
    if lines or dies:
        why = lines[0] if lines else f"the dies of {gpu.name if gpu else ''} are joined unequally"
        raise InputError(
            f"line {matrix.line}: every pair has the same bandwidth and 1 hop, which ROCm SMI "
            f"reports over any number of xGMI links ({why}): import the output of 'rocm-smi "
            "--showtopo', whose weights show the distance"
        )


def _symmetric(matrix: Distances) -> dict[Edge, int]:
    """Return the numbers of pairs of GPUs that have one, the lower GPU first.

    Raises:
        FormatError: another is told for the way back.
    """
    told = matrix.between_gpus()
    for (a, b), value in told.items():
        if told[b, a] != value:
            raise FormatError(
                f"line {matrix.line}: {value} from GPU {a} to GPU {b}, and {told[b, a]} back: "
                f"expected as many; write the file anew: '{_COMMAND}'"
            )
    return {(a, b): value for (a, b), value in told.items() if a < b and value}


def _of_matrix(kind: str, matrix: Distances, direct: dict[Edge, int], gpu: Gpu | None) -> _Fast:
    """Return the links of a matrix.

    Raises:
        InputError: the numbers have no speed in common, or tell none and the GPU is not known.
    """
    to_switches = matrix.to(NVSWITCH)
    told = [*direct.values(), *to_switches.values()]
    left_out = tuple(_left_out(kind, matrix))
    if not told:
        return _Fast(kind, 0.0, {}, {}, left_out, () if left_out else tuple(_none_told(gpu)))
    own = round(1000 * gpu.gb_per_s) if gpu and gpu.link == kind else 0
    if kind == XGMI and set(told) == {_RSMI_CONSTANT} and own != _RSMI_CONSTANT:
        if gpu is None or not own:
            raise InputError(
                "the speed of its xGMI links is not in the file (hwloc writes 100 GB/s for any): "
                "select the GPU with --gpu"
            )
        constant = (
            "each pair with xGMI and 1 hop has one direct link, because hwloc writes neither "
            "number nor speed of links, and ROCm SMI prints 1 hop for any distance; the weights "
            "of 'rocm-smi --showtopo' show the distance"
        )
        return _Fast(
            kind, gpu.gb_per_s, dict.fromkeys(direct, 1), {}, (), (constant, speed_said(gpu))
        )
    known = own and not any(value % own for value in told)
    lane = own if known else gcd(*told)
    if max(told) > lane * MAX_LANES:
        raise InputError(
            f"line {matrix.line}: the numbers of {matrix.name!r} are not multiples of the speed "
            f"of one {kind}: select the GPU with --gpu"
        )
    return _Fast(
        kind,
        lane / 1000,
        {pair: value // lane for pair, value in direct.items()},
        {one: value // lane for one, value in to_switches.items()},
        left_out,
        (
            speed_said(gpu)
            if gpu and known
            else f"an {kind} carries {lane / 1000:g} GB/s per direction; all numbers in the file "
            "are multiples of it",
        ),
    )


def _left_out(kind: str, matrix: Distances) -> Iterable[str]:
    for what, said in ((CPU, "CPUs"), (None, "devices outside the file")):
        if found := matrix.to(what):
            yield f"{kind}s of {counted(len(found), 'GPU')} to {said} left out: they join no GPUs"


def _none_told(gpu: Gpu | None) -> Iterable[str]:
    if gpu is not None and gpu.links:
        tool = "nvidia-smi topo -m" if gpu.link == NVLINK else "rocm-smi --showtopo"
        yield (
            f"the file has no {gpu.link}s, and the GPU {gpu.name} has {gpu.links}: if they join "
            f"GPUs, import the output of '{tool}'"
        )


def _pcie(tree: Hardware, gpu: Gpu | None) -> tuple[int, str]:
    """Return the generation of PCIe, and how it is known."""
    told = max(one.generation() for one in tree.gpus)
    if told >= _SLOWEST_TOLD:
        return told, ""
    found = gpu.pcie if gpu else _UNKNOWN_PCIE
    slow = "slower than PCIe 3, as GPUs that sleep are" if told else "not in the file"
    return found, f"the speed of the slots is {slow}: taken as of generation {found}"
