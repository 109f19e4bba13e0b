"""Networks of ASTRA-sim: its examples, random ones against a slow reader, invalid ones."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.errors import InputError
from sccl.topo import resolve_topology
from sccl.topo.importers import Hints, load_importer
from sccl.topo.measures import measure_topology
from tests.kit.samples import imported, sample

ASTRA = load_importer("astra-sim")
GIB = 1.073741824


@pytest.mark.parametrize(
    ("name", "ranks", "links", "switches", "speeds"),
    [
        ("HGX-H100-validated.yml", 8, 16, 1, {400}),
        ("Ring_4npus.yml", 4, 8, 0, {50}),
        ("Ring_8npus.yml", 8, 16, 0, {50}),
        ("Ring_16npus.yml", 16, 32, 0, {50}),
        ("dgx_v100_4gpu.yml", 4, 8, 0, {3.125}),
        ("hgx_h100_2gpu.yml", 2, 4, 1, {741.34}),
        ("hgx_h100_4gpu.yml", 4, 8, 1, {741.34}),
        ("hgx_h100_8gpu.yml", 8, 16, 1, {400}),
        ("hgx_h100_16gpu.yml", 16, 32 + 16, 2, {400, 50}),
        ("hgx_h100_32gpu.yml", 32, 64 + 64, 4, {400, 50}),
        ("tpu_v3_8.yml", 8, 16, 0, {80}),
        ("tpu_v3_32_ring.yml", 32, 64, 0, {80}),
        ("tpu_v3_32_2dtorus.yml", 32, 128, 0, {80}),
        ("old_3d_Ring_FullyConnected_Switch.yml", 64, 64 + 448 + 128, 16, {200, 100, 50}),
        ("old_FullyConnected_64.yml", 64, 64 * 63, 0, {50}),
        ("old_scalar_topology_switch.yml", 4, 8, 1, {25}),
        ("old_hierarchical_2020.json", 32, 32 + 224 + 64, 16, {250, 25, 12.5}),
        ("old_hierarchical_dimension_type_2021.json", 32, 32 + 224 + 64, 16, {250, 25, 12.5}),
    ],
)
def test_examples(name: str, ranks: int, links: int, switches: int, speeds: set[float]) -> None:
    machine = imported(f"astra_sim/network/{name}", "astra-sim").topology
    assert (machine.ranks, len(machine.links), len(machine.switches)) == (ranks, links, switches)
    found = {round(link.gb_per_s / GIB, 6) for link in machine.links}
    assert found == speeds
    assert measure_topology(machine).unreachable is None


def test_ring_of_2_with_two_links_has_two_lanes() -> None:
    machine = imported("astra_sim/network/old_hierarchical_2020.json", "astra-sim").topology
    assert {k.lanes for k in machine.links if k.gb_per_s > 200} == {2}


def test_two_rings_are_the_torus_with_its_sides_the_other_way_round() -> None:
    machine = imported("astra_sim/network/tpu_v3_32_2dtorus.yml", "astra-sim").topology
    assert machine.edges == resolve_topology("torus:8x4").edges


def test_values_that_are_to_be_done_are_rejected() -> None:
    text = sample("astra_sim/network/dgx_v100_8gpu.yml").read_text()
    with pytest.raises(InputError, match=r"at `\$\.bandwidth\[0\]`"):
        ASTRA.read(text, Hints("m"))


@pytest.mark.parametrize("name", ["sample_4nodes_1D", "sample_16nodes_2D"])
def test_logical_dimensions_alone_are_no_machine(name: str) -> None:
    assert not ASTRA.sniff(sample(f"astra_sim/network/{name}.json").read_text())


KINDS = ("Ring", "FullyConnected", "Switch")


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(2, 4)), min_size=1, max_size=3))
def test_random_networks_are_wired_as_they_say(dimensions: list[tuple[str, int]]) -> None:
    sizes = [size for _, size in dimensions]
    text = (
        f"topology: [{', '.join(kind for kind, _ in dimensions)}]\nnpus_count: {sizes}\n"
        f"bandwidth: {[10 * (i + 1) for i in range(len(sizes))]}\nlatency: {[500] * len(sizes)}\n"
    )
    machine = ASTRA.read(text, Hints("m")).topology
    places = [place[::-1] for place in product(*(range(size) for size in reversed(sizes)))]
    number = {place: i for i, place in enumerate(places)}
    expected: dict[tuple[object, object], int] = {}
    for place, (i, (kind, size)) in product(places, enumerate(dimensions)):
        rest = (*place[:i], *place[i + 1 :])
        if kind == "Switch":
            expected[number[place], (i, rest)] = expected[(i, rest), number[place]] = i
        for there in range(size):
            near = (there - place[i]) % size in {1, size - 1}
            if there != place[i] and kind != "Switch" and (near or kind == "FullyConnected"):
                expected[number[place], number[*place[:i], there, *place[i + 1 :]]] = i
    at: dict[object, object] = {rank: rank for rank in range(machine.ranks)}
    groups: dict[int, set[object]] = {}
    for link in machine.links:
        if link.dst >= machine.ranks:
            i = round(link.gb_per_s / GIB / 10) - 1
            own = places[link.src]
            groups.setdefault(link.dst, set()).add((i, (*own[:i], *own[i + 1 :])))
    for switch, named in groups.items():
        (at[switch],) = named
    found = {(at[k.src], at[k.dst]): round(k.gb_per_s / GIB / 10) - 1 for k in machine.links}
    assert found == expected
    assert {link.alpha_us for link in machine.links} == {0.5}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topology: [Mesh2D]", r"topology\[0\] is 'Mesh2D'"),
        ("npus_count: [1]", r"npus_count\[0\] is 1"),
        ("npus_count: [4, 4]", "npus_count has 2 entries, expected 1"),
        ("npus_count: [70000]", "npus_count"),
        ("npus_count: *a", "alias"),
        ("bandwidth: [0]", r"bandwidth\[0\] is 0"),
        ("latency: [nan]", r"latency\[0\] is nan"),
        ("topology: [FullyConnected]\nnpus_count: [2000]", "joined pairs"),
    ],
)
def test_invalid_file_is_reported(line: str, message: str) -> None:
    fields = {
        "topology": "[Ring]",
        "npus_count": "[4]",
        "bandwidth": "[50]",
        "latency": "[500]",
    }
    for one in line.splitlines():
        name, value = one.split(": ")
        fields[name] = value
    with pytest.raises(InputError, match=message):
        ASTRA.read("".join(f"{name}: {value}\n" for name, value in fields.items()), Hints("m"))


def test_links_that_do_not_divide_are_rejected() -> None:
    text = sample("astra_sim/network/old_hierarchical_2020.json").read_text()
    with pytest.raises(InputError, match=r"links-count\[1\] is 6 for AllToAll of 8"):
        ASTRA.read(text.replace("[2, 7, 1]", "[2, 6, 1]"), Hints("m"))
