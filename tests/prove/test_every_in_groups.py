"""What no allreduce in process groups beats, of whatever class: sends between sets of ranks."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named
from sccl.collectives import resolve as collective
from sccl.core.bounds import Counted
from sccl.core.files.claims import EveryWire
from sccl.core.topology import Topology
from sccl.prove.bounds import any_bounds
from sccl.prove.bounds.allreduce import told_between
from sccl.prove.check.folder import check
from sccl.prove.check.question import read_case
from sccl.solvers.effort import Effort
from sccl.synth.allreduce.every import proof_of_every
from sccl.synth.settings import Settings
from sccl.tasks.certify import certify_limits
from sccl.tasks.limits import find_limits
from sccl.tasks.subject import Subject
from sccl.topo import resolve
from sccl.view.text.reasons import explain
from tests.kit.nightly import times
from tests.kit.partitions import machine, partitions
from tests.kit.strategies import topologies

CPSAT = Settings("cpsat", Effort())


def test_what_groups_tell_goes_over_the_weak_link_too() -> None:
    """Each of four pairs has a rank in either box, and so a chunk to send over and one back."""
    box = list(combinations(range(4), 2))
    lanes = {**dict.fromkeys(box, 3), **{(u + 4, v + 4): 3 for u, v in box}, (0, 4): 1}
    topology = machine(8, lanes)
    across, within = (collective(f"allreduce@{how}", 8) for how in ("4x2.strided", "2x4"))
    found = any_bounds(topology, across)
    assert found.bandwidth == 4
    assert isinstance(found.evidence, Counted)
    assert (found.evidence.groups, found.evidence.sends) == (((0, 1, 2, 3), (4, 5, 6, 7)), 8)
    assert not found.evidence.approached
    said = explain(found, across)
    assert said.startswith("between the 2 sets {0, 1, 2, 3}, {4, 5, 6, 7} a chunk of each group")
    assert any_bounds(topology, within).bandwidth == Fraction(12, 74)  # nothing has to go over it
    proof = proof_of_every(topology, across, found, found.steps)
    assert (proof.collective, proof.bound) == (across.name, Fraction(4))
    assert not proof.cuts


@settings(max_examples=times(40), deadline=None)
@given(topologies(max_ranks=6), st.data())
def test_one_group_of_all_ranks_is_bounded_as_all_are(
    topology: Topology, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(topology.ranks)))
    group = collective(f"allreduce@{','.join(map(str, order))}", topology.ranks)
    whole = named("allreduce", topology.ranks)
    found, alike = any_bounds(topology, whole), any_bounds(topology, group)
    assert (found.steps, found.bandwidth) == (alike.steps, alike.bandwidth)


def fewest_between(group: tuple[int, ...], sets: list[list[int]]) -> int:
    """Return the fewest sends from set to set by which a group of four ranks knows what it has.

    All orders of sends are looked at, also over ranks that are not of it.
    """
    of = {rank: i for i, some in enumerate(sets) for rank in some}
    goal = sum(1 << rank for rank in group)
    pairs = list(permutations(range(4), 2))
    states = {tuple(1 << rank & goal for rank in range(4))}
    sent = 0
    while True:
        new = states
        while new:
            near = {
                told(k, u, v) for k in new for u, v in permutations(range(4), 2) if of[u] == of[v]
            }
            new = near - states
            states |= new
        if any(all(k[rank] == goal for rank in group) for k in states):
            return sent
        states = {told(k, u, v) for k in states for u, v in pairs if of[u] != of[v]}
        sent += 1


def told(knows: tuple[int, ...], src: int, dst: int) -> tuple[int, ...]:
    return tuple(k | knows[src] if rank == dst else k for rank, k in enumerate(knows))


@pytest.mark.parametrize("text", ["0-1/2-3", "0,2,3", "0-3"])
def test_no_order_of_sends_takes_fewer_than_groups_are_told(text: str) -> None:
    unit = collective(f"allreduce@{text}", 4)
    ranks = {tuple(sorted(map(int, group))) for group in unit.post.pattern} or {(0, 1, 2, 3)}
    for sets in partitions(list(range(4))):
        fewest = sum(fewest_between(group, sets) for group in ranks)
        assert told_between(unit.at(unit.unit), [frozenset(some) for some in sets]) == fewest


def test_of_groups_no_claim_is_of_every_class(tmp_path: Path) -> None:
    """Points say how far above sends they are; the checker knows no such claim."""
    subject = Subject(resolve("ring:4"), collective("allreduce@2x2", 4), ())
    found = find_limits(subject.topology, subject.spec, 2, CPSAT)
    assert [str(found.above_every(point)) for point in found.points] == ["1"]
    certify_limits(subject, found, 2, CPSAT, tmp_path / "proofs")
    case = read_case(tmp_path / "proofs")
    assert not any(isinstance(c, EveryWire) or getattr(c, "every", False) for c in case.claims)
    assert {verdict.state for verdict in check(case)} == {"ok"}
