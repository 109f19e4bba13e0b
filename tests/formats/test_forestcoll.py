"""Trees of ForestColl: read as the allgather that goes along them, and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sccl import formats
from sccl.core.algorithm import Algorithm
from sccl.errors import InputError
from sccl.formats import forestcoll
from sccl.judge import violations
from tests.kit.commands import sccl
from tests.kit.easy_algorithms import frontier
from tests.kit.formats import check_damage

Trees = Mapping[tuple[int, int], Sequence[tuple[int, int]]]
"""By (root, index), the sends of a tree from the root on."""


NUMBERS = tuple(map(str, range(16)))


def text_of(trees: Trees, chunks: int, via: str = "", names: Sequence[str] = NUMBERS) -> bytes:
    """Return trees of one chunk each in ForestColl's format.

    Args:
        via: Text between two nodes, after a comma.
    """
    lines = [f'<Algo nchunkspernode="{chunks}">']
    for (root, index), sends in trees.items():
        lines.append(f'  <tree root="{names[root]}" index="{index}" nchunks="1" height="9">')
        for src, dst in sends:
            a, b = names[src], names[dst]
            lines.append(f'    <send src="{a}" dst="{b}" path="{a}{via},{b}"/>')
        lines.append("  </tree>")
    return "\n".join([*lines, "</Algo>", ""]).encode()


def trees_of(algorithm: Algorithm) -> Trees:
    """Return along which trees the chunks of an allgather go, as far as each comes first."""
    trees: dict[tuple[int, int], list[tuple[int, int]]] = {}
    ranks = algorithm.collective.ranks
    for chunk in range(algorithm.collective.num_chunks):
        index, root = divmod(chunk, ranks)
        come, sends = {root}, trees.setdefault((root, index), [])
        for one in algorithm.sends:
            if one.chunk == chunk and one.dst not in come:
                come.add(one.dst)
                sends.append((one.src, one.dst))
    return {tree: sorted(sends) for tree, sends in trees.items()}


def read(content: bytes) -> Algorithm:
    """Return the algorithm of trees."""
    plan = forestcoll.read(content, "file").plan
    assert isinstance(plan, Algorithm)
    return plan


@pytest.mark.parametrize("machine", ["ring:4", "line:3", "mesh:2x3", "dgx1"])
def test_trees_are_the_algorithm_that_they_were_made_of(machine: str) -> None:
    for algorithm in frontier(machine, "allgather"):
        back = read(text_of(trees_of(algorithm), algorithm.collective.chunks))
        assert violations(back) == []
        assert back.collective == algorithm.collective
        assert back.steps <= algorithm.steps
        assert trees_of(back) == trees_of(algorithm)


RING = {(r, 0): [((r + i) % 4, (r + i + 1) % 4) for i in range(3)] for r in range(4)}


def test_chunks_that_go_together_are_one() -> None:
    content = text_of(RING, 6).replace(b'nchunks="1"', b'nchunks="6"')
    assert read(content) == read(text_of(RING, 1))


def test_flows_over_a_hop_share_it() -> None:
    """All to all at once over a switch take three rounds, which the links alone would not."""
    star = {(r, 0): [(r, s) for s in range(4) if s != r] for r in range(4)}
    assert read(text_of(star, 1)).rounds == 1
    over = read(text_of(star, 1, ",sw"))
    assert (over.rounds, len(over.topology.budgets)) == (3, 8)
    assert violations(over) == []


def test_nodes_are_sorted_by_their_numbers() -> None:
    names = ("(0, 'GPU', 2)", "(0, 'GPU', 10)", "(1, 'GPU', 0)", "(1, 'x', 0)")
    found = forestcoll.read(text_of(RING, 1, names=names), "file")
    assert found.plan == read(text_of(RING, 1))
    assert found.notes[-1] == "rank 0 is (0, 'GPU', 2), rank 3 is (1, 'x', 0)"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'nchunkspernode="1"', b'nchunkspernode="2"', "of '0' carry 1 chunks, expected the 2"),
        (b'nchunks="1"', b'nchunks="0"', "nchunks is '0', expected a whole number from 1"),
        (b'path="0,1"', b'path="0,2"', "has a path with other ends"),
        (b'src="0" dst="1" path="0,1"', b'src="3" dst="1" path="3,1"', "are no tree from '0'"),
        (b'root="0"', b'root="9"', "are no tree from '9'"),
        (b'dst="1" path="0,1"', b'dst="8" path="0,8"', "are no tree|'8', which has no tree"),
        (b"<tree", b"<!DOCTYPE a><tree", "not XML|document type"),
    ],
)
def test_invalid_file_gives_one_sentence(old: bytes, new: bytes, says: str) -> None:
    content = text_of(RING, 1)
    assert old in content
    with pytest.raises(InputError, match=says):
        forestcoll.read(content.replace(old, new, 1), "file")


def test_rank_without_is_found_by_the_judge() -> None:
    lacking = {**RING, (2, 0): RING[2, 0][:-1]}
    assert {v.kind for v in violations(read(text_of(lacking, 1)))} == {"postcondition"}


def test_damaged_files_are_rejected_in_a_sentence() -> None:
    content = text_of(RING, 1)
    assert forestcoll.sniff(content)
    check_damage(formats.load("forestcoll"), content)


def test_trees_become_an_algorithm_on_a_machine(tmp_path: Path) -> None:
    path, plan = tmp_path / "trees.xml", tmp_path / "plan.json"
    path.write_bytes(text_of(RING, 1))
    assert sccl("check", path)[0] == 0
    assert sccl("import", path, "--topo", "ring:4", "-o", plan)[0] == 0
    assert sccl("simulate", plan, "--size", "1MB")[0] == 0
    code, _, err = sccl("export", plan, "--format", "forestcoll", "-o", tmp_path / "x")
    assert (code, "nothing runs them" in " ".join(err.split())) == (2, True)


def test_forestcoll_lists_unused_attributes() -> None:
    text = text_of(RING, 1)
    assert not any("not used" in note for note in forestcoll.read(text, "file").notes)
    text = text.replace(b' index="0"', b' index="0" weight="3"').replace(
        b"</Algo>", b"<cut/></Algo>"
    )
    assert "not used: weight of <tree>, <cut>" in forestcoll.read(text, "file").notes
