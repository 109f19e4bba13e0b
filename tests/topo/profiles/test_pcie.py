"""GPUs that share a PCIe switch: known machines, recovered from noisy measurements."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo import resolve_topology
from sccl.topo.profiles.measurements import PairedCopies, PcieHierarchy, PcieMeasurements
from sccl.topo.profiles.pcie import pcie_hierarchy, visible_devices
from sccl.topo.symmetry.automorphisms import automorphisms
from tests.kit.nightly import times
from tests.kit.profiles import pcie_of

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))


@st.composite
def _hierarchies(draw: st.DrawFn) -> tuple[PcieHierarchy, int]:
    """Return a machine of any partition into switches, and how many CPUs it has."""
    colours = draw(st.lists(st.integers(0, 3), min_size=2, max_size=9))
    groups = [tuple(g for g, c in enumerate(colours) if c == one) for one in sorted({*colours})]
    switches = tuple(sorted(groups))
    cpus = draw(st.integers(1, 4))
    nic = draw(st.none() | st.integers(0, len(switches) - 1))
    return PcieHierarchy(draw(st.integers(0, cpus - 1)), switches, nic), cpus


@given(_hierarchies(), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.05, 0.1]))
@settings(max_examples=times(100))
def test_hierarchy_is_found_again(
    made: tuple[PcieHierarchy, int], rng: random.Random, noise: float
) -> None:
    hierarchy, cpus = made
    shown = pcie_of(hierarchy.switches, hierarchy.nic_switch, hierarchy.near_cpu, cpus, rng, noise)
    assert pcie_hierarchy(shown) == hierarchy


def _paper(nic: int = 2) -> PcieMeasurements:
    return pcie_of(PAIRS, nic, 1, 2, "paper", 0.05, alone=False)


def _paired(shown: PcieMeasurements, gpus: tuple[int, int], rate: float) -> PcieMeasurements:
    pairs = [PairedCopies(p.gpus, (rate,)) if p.gpus == gpus else p for p in shown.pairs]
    return replace(shown, pairs=tuple(pairs))


def _beside(shown: PcieMeasurements, gpu: int, rate: float) -> PcieMeasurements:
    rates = [(rate,) if g == gpu else one for g, one in enumerate(shown.beside_nic)]
    return replace(shown, beside_nic=tuple(rates))


CONTRADICTIONS = {
    "not an equivalence": (
        _paired(_paper(), (1, 2), 6.4),
        (
            r"GPUs 0 and 1 at once \(6\.\d+ GB/s\) and GPUs 1 and 2 at once \(6.4 GB/s\) share a "
            r"switch by their bandwidth, but GPUs 0 and 2 at once \(1\d\.\d+ GB/s\) do not"
        ),
    ),
    "a nic on two switches": (
        _beside(_beside(_paper(), 6, 6.0), 7, 6.0),
        (
            r"GPU 4 at the same time as the NIC \(6\.\d+ GB/s\) and "
            r"GPU 6 at the same time as the NIC \(6 GB/s\) share its "
            r"switch by their bandwidth, but GPUs 4 and 6 at once do not share one"
        ),
    ),
    "a nic on half of a switch": (
        _beside(_paper(), 5, 13.0),
        (
            r"GPU 4 at the same time as the NIC .* shares its switch by its bandwidth and "
            r"GPU 5 at the same time as the NIC "
            r"\(13 GB/s\) does not, but GPUs 4 and 5 at once share one"
        ),
    ),
    "two CPUs alike": (
        replace(_paper(), loopback_us=((1.70,), (1.72,))),
        r"between the NIC and CPU 0 takes 1.7 us, with CPU 1 1.72 us, less than 5% apart",
    ),
    "all alike": (
        pcie_of(((0,), (1,)), None, 0, 1, "paper", 0.1, alone=False),
        (
            r"all copies get about the same, .* so either all of them share "
            r"something, or none does: add 'alone'"
        ),
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_are_told_with_the_measurements(name: str) -> None:
    shown, says = CONTRADICTIONS[name]
    with pytest.raises(ParameterError, match=says):
        pcie_hierarchy(shown)


def test_one_bad_repetition_changes_nothing() -> None:
    shown = _paper()
    first, *others = shown.pairs
    moved = replace(first, gb_per_s=(first.gb_per_s[0], first.gb_per_s[1], 13.0))
    assert pcie_hierarchy(replace(shown, pairs=(moved, *others))) == pcie_hierarchy(shown)


def _generators(machine: Topology) -> tuple[tuple[int, ...], ...]:
    return automorphisms(machine, named_spec("allgather", machine.ranks).at(1), costs=True)


@pytest.mark.parametrize("nic", [0, 2])
def test_rank_0_is_put_near_the_nic_and_links_stay_what_they_are(nic: int) -> None:
    machine = resolve_topology("dgx1")
    hierarchy = pcie_hierarchy(_paper(nic))
    image = visible_devices(machine, _generators(machine), hierarchy)
    assert image[0] in hierarchy.near_gpus
    lanes = machine.lanes()
    assert {(image[u], image[v]): n for (u, v), n in lanes.items()} == lanes


def test_machines_that_are_numbered_differently_look_alike() -> None:
    machine = resolve_topology("dgx1")
    seen = set()
    for nic in (0, 2):
        hierarchy = pcie_hierarchy(_paper(nic))
        image = visible_devices(machine, _generators(machine), hierarchy)
        rank = {gpu: r for r, gpu in enumerate(image)}
        seen.add(tuple(tuple(sorted(rank[g] for g in group)) for group in hierarchy.switches)[nic])
    assert seen == {(0, 1)}


@pytest.mark.parametrize(
    ("machine", "hierarchy", "says"),
    [
        ("ring:4", PcieHierarchy(0, PAIRS, 0), "has 4 ranks, but 8 GPUs were measured"),
        ("dgx1", PcieHierarchy(0, PAIRS, None), "the NIC shares a switch with no GPU"),
        ("dgx1", PcieHierarchy(0, PAIRS, 1), "no symmetry of topology 'dgx1' puts rank 0 on GPU 2"),
        ("full:9", PcieHierarchy(0, (tuple(range(9)),), 0), "more than 100000 symmetries"),
    ],
)
def test_ambiguous_nic_location_is_reported(
    machine: str, hierarchy: PcieHierarchy, says: str
) -> None:
    topology = resolve_topology(machine)
    with pytest.raises(ParameterError, match=says):
        visible_devices(topology, _generators(topology), hierarchy)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": " "}, "the measurements have no name"),
        (
            {"beside_nic": ((5e-324,),) * 8},
            "at the same time as the NIC has 4.94066e-324, expected numbers",
        ),
        ({"loopback_us": ()}, "loopback_us is empty"),
        ({"loopback_us": ((1.0,), (-2.0,))}, "loopback_us of CPU 1 has -2"),
        ({"beside_nic": ((1.0,),)}, "beside_nic has 1 rows, expected one for each GPU: 2 to 64"),
        ({"alone": ((1.0,),)}, "alone has 1 rows, expected one for each of 8 GPUs"),
        ({"alone": ((float("nan"),),) * 8}, "bandwidth of GPU 0 alone has nan"),
        ({"pairs": ()}, "pairs lacks GPUs 0 and 1: expected a measurement"),
        ({"pairs": (PairedCopies((1, 0), (1.0,)),)}, "ascending order"),
        ({"pairs": (PairedCopies((0, 1), (1.0,)),) * 2}, "GPUs 0 and 1 twice"),
    ],
)
def test_measurements_check_themselves(change: dict[str, object], says: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(says)):
        replace(_paper(), **change)  # type: ignore[arg-type]
