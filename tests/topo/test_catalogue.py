"""Facts of the machines of the catalogue that papers and vendors state."""

from __future__ import annotations

from collections import Counter

import pytest

from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.topo import resolve_topology
from sccl.topo.measures import measure_topology


def costs(machine: Topology) -> Counter[tuple[float, float]]:
    """Return how many links have which GB/s and alpha, all lanes of a link together."""
    return Counter((k.lanes * k.gb_per_s, k.alpha_us) for k in machine.links)


@pytest.mark.parametrize(
    ("name", "ranks", "gb_per_s"),
    [("dgx-b200", 8, 900), ("gb200-nvl72", 72, 900), ("ndv4", 8, 300), ("dgx-a100", 8, 300)],
)
def test_nvswitch_machines_are_as_fast_as_what_leaves_a_gpu(
    name: str, ranks: int, gb_per_s: float
) -> None:
    machine = resolve_topology(name)
    assert machine.ranks == ranks
    assert len(machine.links) == ranks * (ranks - 1)
    assert {b.chunks_per_round * machine.gb_per_s for b in machine.budgets} == {gb_per_s}
    assert len(machine.budgets) == 2 * ranks


def test_ndv4x2_are_two_on_rails() -> None:
    machine, one = resolve_topology("ndv4x2"), resolve_topology("ndv4")
    between = {k.edge: k for k in machine.links if k.src // 8 != k.dst // 8}
    assert set(between) == {e for g in range(8) for e in ((g, g + 8), (g + 8, g))}
    assert {(k.lanes * k.gb_per_s, k.alpha_us) for k in between.values()} == {(25.0, 1.7)}
    inside = {e: n for e, n in machine.lanes().items() if e not in between}
    assert inside == {(a + c, b + c): n for (a, b), n in one.lanes().items() for c in (0, 8)}
    assert len(machine.budgets) == 2 * len(one.budgets)


def test_mi250x8_is_joined_as_rocm_smi_prints_it() -> None:
    """One hop is a weight of 15: each die has three neighbours, and 4 links to the other of its."""
    machine = resolve_topology("mi250x8")
    lanes = machine.lanes()
    near = {0: {1, 2, 6}, 1: {0, 3, 5}, 2: {0, 3, 4}, 3: {1, 2, 7}, 4: {2, 5, 6}, 5: {1, 4, 7}}
    near |= {6: {0, 4, 7}, 7: {3, 5, 6}}
    assert machine.edges == {(a, b) for a, others in near.items() for b in others}
    assert all(lanes[a, b] == lanes[b, a] for a, b in lanes)
    assert {e for e, n in lanes.items() if n == 4} == {(r, r ^ 1) for r in range(8)}
    assert Counter(lanes.values()) == {4: 8, 2: 4, 1: 12}
    assert machine.gb_per_s == 50


def test_mi300x8_is_full() -> None:
    machine = resolve_topology("mi300x8")
    assert machine.edges == resolve_topology("full:8").edges
    assert costs(machine) == {(64.0, 0.7): 56}


def test_teccls_machines_have_its_capacities_and_alphas() -> None:
    assert costs(resolve_topology("teccl-dgx1")) == {(50, 0.7): 16, (25, 0.7): 16}
    assert costs(resolve_topology("teccl-ndv2x2")) == {(50, 0.7): 32, (25, 0.7): 32, (12.5, 1.3): 2}
    assert costs(resolve_topology("teccl-ndv2x4")) == {(50, 0.7): 64, (25, 0.7): 64, (12.5, 1.3): 8}
    assert costs(resolve_topology("teccl-dgx2x2")) == {(125, 0.35): 64, (12.5, 2.6): 16}
    assert costs(resolve_topology("teccl-amd")) == {(200, 0.7): 16, (100, 0.7): 8, (50, 0.7): 32}
    assert len(resolve_topology("teccl-amdx2").links) == 208
    cross = {k.edge for k in resolve_topology("teccl-dgx2x2").links if k.alpha_us == 2.6}
    assert (1, 16) in cross
    assert (31, 14) in cross


def test_teccls_dgx1_is_a_dgx1() -> None:
    ours, theirs = resolve_topology("dgx1"), resolve_topology("teccl-dgx1")
    degree = [Counter(n for (a, _), n in m.lanes().items() if a == 0) for m in (ours, theirs)]
    assert degree == [{1: 2, 2: 2}] * 2
    assert measure_topology(ours).diameter == measure_topology(theirs).diameter == 2


def test_tpu_v4_wraps_where_it_is_of_whole_cubes() -> None:
    cube = resolve_topology("tpu-v4:4x4x8")
    assert cube.edges == resolve_topology("torus:4x4x8").edges
    assert costs(cube) == {(50.0, 1.0): 6 * 128}
    assert resolve_topology("tpu-v4:2x2x4").edges == resolve_topology("mesh:2x2x4").edges
    assert "mesh" in resolve_topology("tpu-v4:2x2x4").source
    assert {k.alpha_us for k in resolve_topology("tpu-v4:4x4x4@2us").links} == {2.0}
    with pytest.raises(ParameterError, match="three sides such as 4x4x4"):
        resolve_topology("tpu-v4:4x4")
