"""Inferring: which GPUs share a PCIe switch, and where the NIC is, from measurements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.collectives import named_spec
from sccl.core.files.json_text import file_digest
from sccl.core.files.measurements import load_pcie
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import Count
from sccl.core.pcie import PcieHierarchy
from sccl.core.topology import Topology
from sccl.topo.profiles.pcie import pcie_hierarchy, visible_devices


class TopoInferOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo infer'."""

    kind: Literal["topo-infer"] = "topo-infer"
    near_cpu: Annotated[Count, Meta(description="CPU nearest to the NIC.")]
    switches: Annotated[tuple[tuple[Count, ...], ...], Meta(description="GPUs by PCIe switch.")]
    nic_gpus: Annotated[
        tuple[Count, ...],
        Meta(description="GPUs on the switch of the NIC; empty: the NIC has its own."),
    ]
    visible_devices: Annotated[
        tuple[Count, ...] | None,
        Meta(description="GPU for each rank; null: no machine was given."),
    ]


@dataclass(frozen=True, slots=True)
class PcieInference:
    """The conclusions from PCIe measurements.

    Attributes:
        visible_devices: GPU of each rank, so that rank 0 is near the NIC. None: no machine was
            given.
    """

    hierarchy: PcieHierarchy
    visible_devices: tuple[int, ...] | None


def infer_pcie(file: Path, machine: Topology | None) -> PcieInference:
    """Return the conclusions from the measurements in a file.

    Args:
        machine: Machine with the GPUs as ranks, by number. Its symmetries limit the choice.

    Raises:
        InputError: The file has none, they contradict one another, or belong to other GPUs.
    """
    hierarchy = pcie_hierarchy(load_pcie(file))
    if machine is None:
        return PcieInference(hierarchy, None)
    from sccl.topo.symmetry.automorphisms import automorphisms  # noqa: PLC0415 - slow to load

    demand = named_spec("allgather", machine.ranks).at(1)  # which every renaming of ranks preserves
    generators = automorphisms(machine, demand, costs=True)
    return PcieInference(hierarchy, visible_devices(machine, generators, hierarchy))


def infer_output(file: Path, machine: Topology | None, inferred: PcieInference) -> TopoInferOutput:
    """Return the JSON output."""
    inputs = {str(file): file_digest(file)}
    if machine is not None:
        inputs |= question_digests(machine)
    return build_output(
        TopoInferOutput,
        inferred.hierarchy,
        inputs=inputs,
        nic_gpus=inferred.hierarchy.near_gpus,
        visible_devices=inferred.visible_devices,
    )
