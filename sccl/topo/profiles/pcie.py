"""Infer the GPUs and the NIC at each PCIe switch: TACCL (NSDI 2023), section 4.2.

Two concurrent copies over a shared link get half of the bandwidth of a single copy. So the measured
bandwidths fall into two clusters, of copies that share a link and of copies that do not, a factor
of two apart. The widest gap between sorted bandwidths separates the clusters if its ratio exceeds
the square root of two. Noise of up to 10 % spreads a cluster by a factor of 1.1/0.9 = 1.22 and
leaves a factor of 0.9/0.55 = 1.64 between the clusters, so it neither closes nor opens a gap. The
result must be consistent: sharing a switch is an equivalence, and the NIC is on at most one switch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.collectives import named_spec
from sccl.core.files.json_text import file_digest
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import Count
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo.profiles.measurement_files import load_pcie
from sccl.topo.profiles.measurements import (
    PcieHierarchy,
    PcieMeasurements,
    nic_copy_name,
    paired_copies_name,
)
from sccl.topo.symmetry.permutations import Permutation, compose, identity_permutation

GAP = math.sqrt(2)
"""Minimum ratio between unshared and shared bandwidths."""

NEARER = 1.05
"""Minimum ratio between the latencies of the second nearest and the nearest CPU."""

_MAX_SYMMETRIES = 100_000


def pcie_hierarchy(measurements: PcieMeasurements) -> PcieHierarchy:
    """Return the GPUs that share a switch, the switch with the NIC, and the CPU nearest to it.

    Raises:
        ParameterError: The measurements contradict one another or are ambiguous. It names them.
    """
    near = _nearest_cpu(measurements)
    bound = _sharing_threshold(measurements)
    switches = _group_by_switch(measurements, bound)
    return PcieHierarchy(near, switches, _find_nic_switch(measurements, switches, bound))


def _nearest_cpu(measurements: PcieMeasurements) -> int:
    """Return the CPU with the fastest loopback."""
    medians = [statistics.median(us) for us in measurements.loopback_us]
    first, *others = sorted(range(len(medians)), key=lambda cpu: (medians[cpu], cpu))
    if others and medians[others[0]] < NEARER * medians[first]:
        raise ParameterError(
            f"{measurements.name}: a loopback between the NIC and CPU {first} takes "
            f"{medians[first]:g} us, with CPU {others[0]} {medians[others[0]]:g} us, less than "
            f"{NEARER - 1:.0%} apart: measure more repetitions, so that the nearer one shows"
        )
    return first


def _sharing_threshold(measurements: PcieMeasurements) -> float:
    """Return the bandwidth that separates sharing copies from others, 0 if none share.

    Raises:
        ParameterError: All bandwidths are alike, and nothing shows whether all share or none.
    """
    rates = sorted(statistics.median(figures) for _, figures in measurements.copies())
    low, high = max(pairwise(rates), key=lambda pair: pair[1] / pair[0])
    if high > GAP * low:
        return math.sqrt(low * high)
    if measurements.alone:
        return 0.0
    raise ParameterError(
        f"{measurements.name}: all copies get about the same, {rates[0]:g} to {rates[-1]:g} GB/s, "
        "so either all of them share something, or none does: add 'alone', the bandwidth of each "
        "GPU by itself"
    )


def _group_by_switch(measurements: PcieMeasurements, bound: float) -> tuple[tuple[int, ...], ...]:
    """Return the GPUs by switch.

    Raises:
        ParameterError: Two GPUs share with a third, but not with each other.
    """
    rates = {pair.gpus: statistics.median(pair.gb_per_s) for pair in measurements.pairs}
    shared = {gpus for gpus, rate in rates.items() if rate < bound}
    for three in combinations(range(measurements.gpus), 3):
        pairs = list(combinations(three, 2))
        apart = [pair for pair in pairs if pair not in shared]
        if len(apart) == 1:
            slow = " and ".join(
                _describe_bandwidths(rates, pair) for pair in pairs if pair in shared
            )
            raise ParameterError(
                f"{measurements.name}: {slow} share a switch by their bandwidth, but "
                f"{_describe_bandwidths(rates, apart[0])} do not, so that these contradict one "
                "another: measure "
                "the three again"
            )
    first = [min([a for a in range(gpu) if (a, gpu) in shared], default=gpu)
             for gpu in range(measurements.gpus)]  # fmt: skip
    groups = [tuple(g for g in range(len(first)) if first[g] == head) for head in sorted({*first})]
    return tuple(groups)


def _describe_bandwidths(rates: dict[tuple[int, int], float], gpus: tuple[int, int]) -> str:
    return f"{paired_copies_name(gpus)} ({rates[gpus]:g} GB/s)"


def _find_nic_switch(
    measurements: PcieMeasurements, switches: Sequence[tuple[int, ...]], bound: float
) -> int | None:
    """Return the index of the NIC's switch, None if it has no GPUs.

    Raises:
        ParameterError: The GPUs that share with the NIC are not those of one switch.
    """
    rates = [statistics.median(figures) for figures in measurements.beside_nic]
    slow = {gpu for gpu, rate in enumerate(rates) if rate < bound}
    touched = [place for place, gpus in enumerate(switches) if slow & {*gpus}]
    if not touched:
        return None
    if len(touched) > 1:
        a, b = (min(slow & {*switches[place]}) for place in touched[:2])
        raise ParameterError(
            f"{measurements.name}: {nic_copy_name(a)} ({rates[a]:g} GB/s) and {nic_copy_name(b)} "
            f"({rates[b]:g} GB/s) share its switch by their bandwidth, but "
            f"{paired_copies_name((a, b))} "
            "do not share one: measure these three again"
        )
    (place,) = touched
    if left := [gpu for gpu in switches[place] if gpu not in slow]:
        a, b = min(slow), left[0]
        raise ParameterError(
            f"{measurements.name}: {nic_copy_name(a)} ({rates[a]:g} GB/s) shares its switch by its "
            f"bandwidth and {nic_copy_name(b)} ({rates[b]:g} GB/s) does not, but "
            f"{paired_copies_name((min(a, b), max(a, b)))} share one: measure these three again"
        )
    return place


def visible_devices(
    machine: Topology, generators: Sequence[Permutation], hierarchy: PcieHierarchy
) -> Permutation:
    """Return the GPU of each rank such that rank 0 is near the NIC and links keep their costs.

    Among all symmetries of the machine with this property, return the one in which GPUs that share
    switches have the lowest ranks, those at the NIC first. So machines with differently numbered
    GPUs get the same ranks.

    Args:
        machine: Machine with the GPUs as ranks, by number.
        generators: Generators of its symmetries.

    Raises:
        ParameterError: The machine has another number of GPUs, the NIC shares no switch with a GPU,
            or no symmetry places rank 0 near the NIC.
    """
    gpus = sum(len(group) for group in hierarchy.switches)
    if machine.ranks != gpus:
        raise ParameterError(
            f"topology {machine.name!r} has {machine.ranks} ranks, but {gpus} GPUs were measured: "
            "give the machine that these GPUs are"
        )
    near = hierarchy.near_gpus
    if not near:
        raise ParameterError(
            "the NIC shares a switch with no GPU, so that none of them is nearest to it: leave "
            "--topo out"
        )
    fitting = [image for image in _group_elements(generators, gpus) if image[0] in near]
    if not fitting:
        shown = ", ".join(map(str, near))
        raise ParameterError(
            f"no symmetry of topology {machine.name!r} puts rank 0 on GPU {shown}, near the NIC: "
            "number the ranks of the machine so that its rank 0 can be there"
        )
    return min(fitting, key=lambda image: (_ranks_by_switch(hierarchy, image), image))


def _ranks_by_switch(hierarchy: PcieHierarchy, image: Permutation) -> tuple[tuple[int, ...], ...]:
    """Return the ranks by switch, the NIC's switch first, where rank r is GPU ``image[r]``."""
    rank = {gpu: r for r, gpu in enumerate(image)}
    near, *others = [
        tuple(sorted(rank[gpu] for gpu in group))
        for group in (hierarchy.near_gpus, *(g for g in hierarchy.switches))
    ]
    return (near, *sorted(group for group in others if group != near))


def _group_elements(generators: Sequence[Permutation], ranks: int) -> list[Permutation]:
    """Return the elements of a group.

    Raises:
        ParameterError: There are too many elements.
    """
    seen = {identity_permutation(ranks)}
    queue = list(seen)
    for element in queue:
        for generator in generators:
            image = compose(element, generator)
            if image not in seen:
                seen.add(image)
                queue.append(image)
        if len(seen) > _MAX_SYMMETRIES:
            raise ParameterError(
                f"the machine has more than {_MAX_SYMMETRIES} symmetries: its GPUs are alike, so "
                "leave --topo out, and put one that is near the NIC first yourself"
            )
    return queue


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
        InputError: The file has no measurements, or these are contradictory or of other GPUs.
    """
    hierarchy = pcie_hierarchy(load_pcie(file))
    if machine is None:
        return PcieInference(hierarchy, None)
    from sccl.topo.symmetry.automorphisms import automorphisms  # noqa: PLC0415 - slow to load

    demand = named_spec("allgather", machine.ranks).at(1)  # invariant under all renamings
    generators = automorphisms(machine, demand, costs=True)
    return PcieInference(hierarchy, visible_devices(machine, generators, hierarchy))


def infer_output(file: Path, machine: Topology | None, inferred: PcieInference) -> TopoInferOutput:
    """Return the JSON output for an inference."""
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
