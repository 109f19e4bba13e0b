"""Link speeds of each GPU, which machine files leave out, with their sources.

Speeds of NVLink and xGMI are those of data sheets, per link and direction, as in the catalogue.
Programs reach less: NCCL uses 18 to 20.6 of NVLink's 20 to 25 GB/s (NVIDIA/nccl, src/graph/topo.h).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sccl.errors import InputError, unknown_name

NVLINK, XGMI, METAX, PCIE = "NVLink", "xGMI", "MetaXLink", "PCIe"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU model.

    Attributes:
        name: Name in ``--gpu``. Its words occur in the names that tools print for the GPU.
        arch: Architecture as in compiler options: ``sm_80``, ``gfx90a``.
        links: number of NVLinks or xGMI links. 0: only PCIe.
        gb_per_s: Bandwidth of one link per direction, 10^9 bytes per second. 0: no links.
        pcie: PCIe generation.
        source: source of the link numbers.
        peers: Maximum number of directly linked GPUs. 0: the number of links.
        on_switches: Whether boards with NVSwitches exist for it.
    """

    name: str
    arch: str
    links: int
    gb_per_s: float
    pcie: int
    source: str
    peers: int = 0
    on_switches: bool = False

    @property
    def max_peers(self) -> int:
        """Return the maximum number of directly linked GPUs."""
        return self.peers or self.links

    @property
    def link(self) -> str:
        """Return the name of its fast links."""
        if not self.links:
            return PCIE
        return NVLINK if self.arch.startswith("sm_") else XGMI


_NVIDIA = "NVIDIA {} data sheet: {} GB/s both ways"
_AMD = "AMD Instinct {} data sheet: {} GB/s both ways per link"

GPUS = (
    Gpu("p100", "sm_60", 4, 20.0, 3, _NVIDIA.format("P100", 160)),
    Gpu("v100", "sm_70", 6, 25.0, 3, _NVIDIA.format("V100", 300), on_switches=True),
    Gpu("rtx-2080-ti", "sm_75", 2, 25.0, 3, _NVIDIA.format("RTX 2080 Ti", 100)),
    Gpu("a100", "sm_80", 12, 25.0, 4, _NVIDIA.format("A100", 600), on_switches=True),
    Gpu("a800", "sm_80", 8, 25.0, 4, _NVIDIA.format("A800", 400), on_switches=True),
    Gpu("a30", "sm_80", 4, 25.0, 4, _NVIDIA.format("A30", 200)),
    Gpu("a6000", "sm_86", 4, 14.0625, 4, _NVIDIA.format("RTX A6000", 112.5)),
    Gpu("a40", "sm_86", 4, 14.0625, 4, _NVIDIA.format("A40", 112.5)),
    Gpu("rtx-3090", "sm_86", 4, 14.0625, 4, _NVIDIA.format("RTX 3090", 112.5)),
    Gpu("h100", "sm_90", 18, 25.0, 5, _NVIDIA.format("H100 SXM", 900), on_switches=True),
    Gpu("h100-nvl", "sm_90", 12, 25.0, 5, _NVIDIA.format("H100 NVL", 600)),
    Gpu("h100-pcie", "sm_90", 12, 25.0, 5, _NVIDIA.format("H100 PCIe", 600)),
    Gpu("h800", "sm_90", 8, 25.0, 5, _NVIDIA.format("H800", 400), on_switches=True),
    Gpu("h20", "sm_90", 18, 25.0, 5, _NVIDIA.format("H20", 900), on_switches=True),
    Gpu("h200", "sm_90", 18, 25.0, 5, _NVIDIA.format("H200", 900), on_switches=True),
    Gpu("gh200", "sm_90", 18, 25.0, 5, _NVIDIA.format("GH200", 900), on_switches=True),
    Gpu("b200", "sm_100", 18, 50.0, 5, _NVIDIA.format("B200", 1800), on_switches=True),
    Gpu("gb200", "sm_100", 18, 50.0, 5, _NVIDIA.format("GB200", 1800), on_switches=True),
    Gpu("b300", "sm_103", 18, 50.0, 6, _NVIDIA.format("B300", 1800), on_switches=True),
    Gpu("gb300", "sm_103", 18, 50.0, 6, _NVIDIA.format("GB300", 1800), on_switches=True),
    Gpu("p40", "sm_61", 0, 0.0, 3, "NVIDIA P40 data sheet: PCIe only"),
    Gpu("t4", "sm_75", 0, 0.0, 3, "NVIDIA T4 data sheet: PCIe only"),
    Gpu("a10", "sm_86", 0, 0.0, 4, "NVIDIA A10 data sheet: PCIe only"),
    Gpu("a10g", "sm_86", 0, 0.0, 4, "NVIDIA A10 data sheet: PCIe only"),
    Gpu("l4", "sm_89", 0, 0.0, 4, "NVIDIA L4 data sheet: PCIe only"),
    Gpu("l20", "sm_89", 0, 0.0, 4, "NVIDIA L20 data sheet: PCIe only"),
    Gpu("l40", "sm_89", 0, 0.0, 4, "NVIDIA L40 data sheet: PCIe only"),
    Gpu("l40s", "sm_89", 0, 0.0, 4, "NVIDIA L40S data sheet: PCIe only"),
    Gpu("rtx-4090", "sm_89", 0, 0.0, 4, "NVIDIA RTX 4090 data sheet: PCIe only"),
    Gpu("rtx-5090", "sm_120", 0, 0.0, 5, "NVIDIA RTX 5090 data sheet: PCIe only"),
    Gpu("mi50", "gfx906", 2, 46.0, 4, _AMD.format("MI50", 92)),
    Gpu("mi60", "gfx906", 2, 50.0, 4, _AMD.format("MI60", 100)),
    Gpu("mi100", "gfx908", 3, 46.0, 4, _AMD.format("MI100", 92)),
    Gpu("mi210", "gfx90a", 3, 50.0, 4, _AMD.format("MI210", 100)),
    # A GPU is one of two dies in a package: 4 links join the dies, 3 or 4 links per die lead out
    # (AMD CDNA 2 white paper, figures of nodes with MI250 and MI250X).
    Gpu("mi250", "gfx90a", 7, 50.0, 4, _AMD.format("MI250", 100), peers=4),
    Gpu("mi250x", "gfx90a", 8, 50.0, 4, _AMD.format("MI250X", 100), peers=5),
    # An MI300X uses its eighth link as PCIe, an MI300A can use all for GPUs (their data sheets).
    Gpu("mi300x", "gfx942", 7, 64.0, 5, _AMD.format("MI300X", 128)),
    Gpu("mi300a", "gfx942", 8, 64.0, 5, _AMD.format("MI300A", 128)),
    Gpu("mi325x", "gfx942", 7, 64.0, 5, _AMD.format("MI325X", 128)),
    Gpu("mi350x", "gfx950", 7, 76.8, 5, _AMD.format("MI350X", 153.6)),
    Gpu("mi355x", "gfx950", 7, 76.8, 5, _AMD.format("MI355X", 153.6)),
)
"""The known GPUs, with the limits of their hardware. The most common GPU of an architecture comes
before its variants, except for :data:`_DEFAULT_BY_ARCH`.
"""

_DEFAULT_BY_ARCH = {
    "sm_86": "a6000",
    "sm_89": "rtx-4090",
    "gfx90a": "mi250x",
    "gfx942": "mi300x",
}
"""The most common GPU of architectures where the first GPU in the list is another one."""

_OTHER_NAMES = {"gfx910": "gfx90a", "gfx940": "gfx942", "gfx941": "gfx942"}
"""Aliases of architectures: older RCCL's name of gfx90a, and early steppings of gfx942 (LLVM,
AMDGPUUsage: gfx940 and gfx941 came before gfx942).
"""

_EARLY_GPUS = {"gfx940": "mi300a"}
"""GPUs of early steppings that differ from the most common GPU of the final architecture."""

PCIE_X16_GB_PER_S = {1: 3.125, 2: 6.25, 3: 12.5, 4: 25.0, 5: 50.0, 6: 100.0}
"""Bandwidth of 16 lanes of PCIe per direction, 10^9 bytes per second, by generation. It is four
fifths of PCI-SIG's 2.5 to 64 GT/s. NCCL uses 12 GB/s for generation 3 (NVIDIA/nccl,
src/graph/topo.h). SCCL (section 5.1.2) measured 27 for generation 4. Multiples of 12.5 fit NVLink's
25: synthesis is faster for lanes of one speed, and few of them.
"""

SOCKET_GB_PER_S = {1: 12.5, 2: 12.5, 3: 12.5, 4: 12.5, 5: 25.0, 6: 50.0}
"""Bandwidth between two sockets per direction, 10^9 bytes per second, by PCIe generation.

Source: NVIDIA/nccl, src/graph/topo.h has 10 for Skylake's UPI, 16 for AMD's links, 22 for Sapphire
Rapids and 40 for Emerald Rapids. The values are rounded like those of PCIe.
"""

ALPHA_US = {NVLINK: 0.7, XGMI: 0.7, METAX: 0.7, PCIE: 1.0}
"""Latency of a transfer by kind of link, microseconds."""

_ALPHA_SOURCES = {
    NVLINK: "NVLink on NDv2 and DGX-2, TACCL (NSDI 2023) Table 1",
    XGMI: "no figure is published; assumed as for NVLink",
    METAX: "no figure is published; assumed as for NVLink",
    PCIE: "NCCL's model of a step over PCIe, LL protocol (src/graph/tuning.cc)",
}

GPU_NAMES = tuple(sorted(gpu.name for gpu in GPUS))


def find_gpu(text: str) -> Gpu | None:
    """Find the GPU with a name that a user or tool wrote, None if it is unknown.

    All words of the GPU's name must be in the text, or the text must be the name without
    separators.
    """
    words = re.findall(r"[a-z0-9]+", text.lower())
    glued = "".join(words)
    fits = [
        gpu
        for gpu in GPUS
        if (parts := gpu.name.split("-")) and (set(parts) <= set(words) or glued == "".join(parts))
    ]
    return max(fits, key=lambda gpu: gpu.name.count("-"), default=None)


def parse_gpu(text: str) -> Gpu:
    """Return the GPU of a value of ``--gpu``.

    Raises:
        UnknownNameError: The GPU is unknown.
    """
    gpu = find_gpu(text)
    if gpu is None:
        raise unknown_name("GPU", text, GPU_NAMES, f"those known are {', '.join(GPU_NAMES)}")
    return gpu


def nvidia_gpu(sm: int) -> Gpu | None:
    """Return the most common GPU of a compute capability such as 80, None if unknown."""
    return _default_gpu(f"sm_{sm}")


def amd_gpu(gcn: str) -> Gpu | None:
    """Return the most common GPU of an architecture: ``gfx942``, or ``906`` in older RCCL files."""
    name = gcn if gcn.startswith("gfx") else f"gfx{gcn}"
    early = _EARLY_GPUS.get(name)
    return find_gpu(early) if early else _default_gpu(_OTHER_NAMES.get(name, name))


def _default_gpu(arch: str) -> Gpu | None:
    fits = [gpu for gpu in GPUS if gpu.arch == arch]
    usual = [gpu for gpu in fits if gpu.name == _DEFAULT_BY_ARCH.get(arch)]
    return next(iter(usual + fits), None)


def same_architecture(gpu: Gpu) -> tuple[Gpu, ...]:
    """Return all GPUs with the architecture of a GPU, including itself."""
    return tuple(candidate for candidate in GPUS if candidate.arch == gpu.arch)


def max_links(kind: str) -> int:
    """Return the maximum number of links of a kind (NVLink, xGMI) of any known GPU."""
    return max((gpu.links for gpu in GPUS if gpu.link == kind), default=0)


def describe_impossible_links(
    kind: str, links: Sequence[int], peers: Sequence[int], gpus: Sequence[Gpu]
) -> list[str]:
    """Describe link counts that none of the possible GPUs can have.

    Args:
        kind: NVLink or xGMI.
        links: number of links of each GPU of the machine.
        peers: number of GPUs that each is linked to directly, not through switches.
        gpus: possible GPU models. Empty: any known model.
    """
    candidates = [gpu for gpu in gpus or GPUS if gpu.link == kind]
    if not candidates:
        return []
    name = f"a GPU {candidates[0].name} has at most" if gpus else "no known GPU has more than"
    lines = []
    for verb, label, counts, limit in (
        ("has", f"{kind}s", links, max(gpu.links for gpu in candidates)),
        (f"has {kind}s to", "GPUs", peers, max(gpu.max_peers for gpu in candidates)),
    ):
        if (worst := max(counts, default=0)) > limit:
            lines.append(
                f"GPU {list(counts).index(worst)} {verb} {worst} {label}, and {name} {limit}"
            )
    return lines


def find_partitions(bus_ids: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of GPUs that are partitions of one device, by bus and device number.

    Tools number the partitions of an MI300 as functions 1, 2, ... of its bus id (open-mpi/hwloc,
    topology-rsmi.c, and ROCm/rocm_smi_lib, CHANGELOG).
    """
    devices: dict[str, list[int]] = {}
    for gpu, bus_id in enumerate(bus_ids):
        devices.setdefault(bus_id.rpartition(".")[0], []).append(gpu)
    return tuple(tuple(gpus) for device, gpus in devices.items() if device and len(gpus) > 1)


def check_partitions(bus_ids: Sequence[str]) -> None:
    """Check that no device appears as several GPUs, whose links would be those of the device.

    Raises:
        InputError: A device does.
    """
    for gpus in find_partitions(bus_ids):
        device = bus_ids[gpus[0]].rpartition(".")[0]
        numbers = " ".join(map(str, gpus))
        raise InputError(
            f"GPUs {numbers} are partitions of the device {device}, which share its links in an "
            "unknown way: set the devices to one partition each (amd-smi set --compute-partition "
            "SPX) and print it again"
        )


def pcie_gb_per_s(generation: int, lanes: int = 16) -> float:
    """Return the rate of a PCIe link per direction, 10^9 bytes per second."""
    return PCIE_X16_GB_PER_S[generation] * lanes / 16


def describe_alpha(link: str) -> str:
    """Return the text of an assumption: the latency of a kind of link and its source."""
    return (
        f"alpha of {link} is {ALPHA_US[link]:g} us ({_ALPHA_SOURCES[link]}); --alpha-us overrides "
        "it"
    )


def describe_speed(gpu: Gpu) -> str:
    """Return the text of an assumption: the speed of a GPU's fast links and its source."""
    return f"an {gpu.link} carries {gpu.gb_per_s:g} GB/s per direction ({gpu.source})"
