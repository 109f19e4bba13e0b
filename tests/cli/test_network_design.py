"""Designed networks attain their claims, and nothing exceeds the bounds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.comparison.network_design import bandwidth_lower_bound, search_designs
from sccl.core.files.topologies import load_topology
from sccl.prove.bounds.lower_bounds import lower_bounds
from sccl.topo import resolve_topology
from sccl.topo.designs import NetworkSize, basic_designs, composite_designs, moore_steps
from sccl.topo.measures import measure_topology
from tests.kit.commands import sccl
from tests.kit.nightly import times


def test_table_that_is_published() -> None:
    """N = 1,024 and d = 4 (Zhao et al., NSDI 2025): R/C d / N by steps."""
    published = {"kautz:4x1024": (5, 1.332), "linegraph:3:circulant:16:3,4": (6, 1.020)}
    for name, (steps, cost) in published.items():
        code, told, _ = sccl("bound", "--collective", "allgather", "--topo", name)
        assert code == 0
        line = next(line for line in told.splitlines() if line.startswith("attained"))
        assert f"S = {steps}, R/C = " in line
        ratio = Fraction(line.split("R/C = ")[1].split(",")[0])
        assert round(float(ratio) * 4 / 1024, 3) == cost
    assert moore_steps(NetworkSize(1024, 4)) == 5
    assert (
        round(float(bandwidth_lower_bound("allgather", NetworkSize(1024, 4))) * 4 / 1024, 3)
        == 0.999
    )


@pytest.mark.parametrize(
    ("ranks", "degree", "collective"),
    [(8, 2, "allgather"), (12, 3, "allgather"), (16, 4, "allgather"), (12, 3, "reducescatter")],
)
def test_networks_are_what_they_claim(ranks: int, degree: int, collective: str) -> None:
    found = search_designs(collective, ranks, degree)
    assert found.networks
    costs = [(n.steps, Fraction(n.bandwidth)) for n in found.networks]
    assert costs == sorted(costs)
    for network, cost in zip(found.networks, costs, strict=True):
        machine = resolve_topology(network.name)
        m = measure_topology(machine)
        assert (machine.ranks, m.diameter) == (ranks, network.steps)
        assert max(*m.out_lanes, *m.in_lanes) <= degree
        assert cost[0] >= found.moore_steps
        bounds = lower_bounds(machine, named_spec(collective, ranks))
        assert cost[1] >= bounds.bandwidth >= Fraction(found.bandwidth)
        dominated = any(a <= cost[0] and b <= cost[1] and (a, b) != cost for a, b in costs)
        assert not (network.best and dominated)
    assert found.networks[0].best


@pytest.mark.parametrize("collective", ["reducescatter", "allreduce"])
def test_reductions_attain_the_claim_on_one_way_links(collective: str, tmp_path: Path) -> None:
    """The best of the fewest rounds, as an algorithm that the judge accepts."""
    found = search_designs(collective, 8, 2)
    best = [n for n in found.networks if n.best][-1]
    machine = resolve_topology(best.name)
    assert not machine.reversed().same_capacities(machine)
    cost, spec = Fraction(best.bandwidth), named_spec(collective, 8)
    assert cost == bandwidth_lower_bound(collective, NetworkSize(8, 2)) == Fraction(found.bandwidth)
    phases = 2 if collective == "allreduce" else 1
    chunks = spec.unit * cost.denominator * phases
    asked = f"--chunks {chunks} --steps {best.steps} --rounds {int(chunks * cost)}".split()
    told = ("--collective", collective, "--topo", best.name)
    code, out, err = sccl("solve", *told, *asked, "-o", tmp_path / "found.json")
    assert code == 0, out + err
    assert "verified" in " ".join(out.split())


def test_allreduces_are_gathered_composed_or_halved_and_doubled() -> None:
    found = [n for n in search_designs("allreduce", 8, 3).networks if n.name == "hypercube:3"]
    told = {(n.by, n.steps, n.bandwidth) for n in found}
    assert told == {
        ("gathered", 3, "7/3"),
        ("composed", 6, "7/12"),
        ("exchanged", 3, "1"),
        ("exchanged", 4, "2/3"),
        ("exchanged", 5, "7/12"),
    }


@settings(max_examples=times(20), deadline=None)
@given(st.integers(2, 40), st.integers(1, 6), st.integers(0, 3))
def test_names_are_of_machines_of_that_size(ranks: int, degree: int, seed: int) -> None:
    wanted = NetworkSize(ranks, degree)
    names = list(basic_designs(wanted, seed))
    assert names == list(basic_designs(wanted, seed))
    for name in names:
        machine = resolve_topology(name)
        assert machine.ranks == ranks
        assert max(measure_topology(machine).out_lanes) <= degree
    for way, sizes in composite_designs(wanted):
        bases = [f"circulant:{s.ranks}:1" if s.degree > 1 else f"ring:{s.ranks}" for s in sizes]
        assert way.count("{}") == len(sizes)
        assert all(s.degree < max(degree, s.ranks) for s in sizes)
        assert resolve_topology(way.format(*bases)).ranks > 0


def test_interrupted_it_tells_what_there_is() -> None:
    seen: list[str] = []

    def stop(name: str) -> None:
        seen.append(name)
        if len(seen) > 20:
            raise KeyboardInterrupt

    found = search_designs("allgather", 16, 4, on_progress=stop)
    assert found.ended == "interrupted"
    assert 0 < found.tried <= 21


def test_network_design_is_printed_drawn_and_written(tmp_path: Path) -> None:
    file, picture = tmp_path / "n.json", tmp_path / "n.svg"
    code, told, _ = sccl(
        *("topo", "design", "--ranks", "8", "--degree", "2", "-o", file, "--plot", picture)
    )
    assert code == 0
    assert "lower bounds for networks of this size: 3 steps (Moore), R/C 7/2" in told
    machine = load_topology(file)
    assert machine.ranks == 8
    assert machine.name in picture.read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ranks", "1", "--degree", "1"), "ranks is 1, expected 2 to 4096"),
        (("--ranks", "4", "--degree", "4"), "degree is 4, expected 1 to 3"),
        (("--ranks", "8", "--degree", "2", "--collective", "reduce"), "expected allgather, red"),
        (("--ranks", "8", "--degree", "2", "--steps", "2"), "takes 2 steps at the most"),
        (("--ranks", "8", "--degree", "2", "--plot", "x.txt"), "x.txt"),
    ],
)
def test_impossible_designs_are_rejected(words: tuple[str, ...], says: str) -> None:
    code, _, told = sccl("topo", "design", *words)
    assert (code, says in " ".join(told.split())) == (2, True), told
