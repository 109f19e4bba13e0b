"""Collectives against Tables 1 and 2 of the paper, duals, custom files, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from sccl.collectives import collective_names, dual_of, named_spec, resolve_collective
from sccl.core.collective import Relation, RelationKind
from sccl.core.files.collectives import collective_from_wire, collective_to_wire
from sccl.core.files.json_text import parse, to_text
from sccl.core.files.shapes import CollectiveWire
from sccl.core.topology import to_ranks
from sccl.errors import CollectiveError, FormatError, InputError, ParameterError


def test_tables_1_and_2() -> None:
    everyone = set(range(4))
    for chunks in (4, 8):
        for c in range(4 * chunks):
            allgather, alltoall = (
                named_spec("allgather", 4).at(chunks),
                named_spec("alltoall", 4).at(chunks),
            )
            assert allgather.holders(c) == {c % 4}
            assert allgather.destinations(c) == everyone
            assert alltoall.holders(c) == {c % 4}
            assert alltoall.destinations(c) == {c // 4 % 4}
        for c in range(chunks):
            broadcast, scatter = (
                named_spec("broadcast", 4, 2).at(chunks),
                named_spec("scatter", 4, 2),
            )
            assert broadcast.holders(c) == {2}
            assert broadcast.destinations(c) == everyone
            assert scatter.at(chunks).holders(c) == {2}
            assert scatter.at(chunks).destinations(c) == {c % 4}
    gather = named_spec("gather", 4, 1).at(2)
    assert [gather.holders(c) for c in range(8)] == [{c % 4} for c in range(8)]
    assert {gather.destinations(c) for c in range(8)} == {frozenset({1})}


@pytest.mark.parametrize(
    ("name", "chunks", "total"),
    [
        ("allgather", 3, 24),
        ("gather", 3, 24),
        ("broadcast", 3, 3),
        ("reduce", 3, 3),
        ("scatter", 16, 16),
        ("reducescatter", 16, 16),
        ("allreduce", 16, 16),
        ("alltoall", 16, 128),
    ],
)
def test_global_chunk_counts(name: str, chunks: int, total: int) -> None:
    assert named_spec(name, 8).at(chunks).num_chunks == total


def test_duals() -> None:
    found = {name: dual_of(named_spec(name, 8)) for name in collective_names()}
    assert {n for n, d in found.items() if d.is_identity} == {
        "allgather", "alltoall", "broadcast", "gather", "scatter",
    }  # fmt: skip
    assert found["reduce"].spec == named_spec("broadcast", 8)
    assert found["reduce"].on_reversed
    assert found["reducescatter"].spec == named_spec("allgather", 8)
    assert found["reducescatter"].chunk_factor == 8
    assert found["allreduce"].spec == named_spec("allgather", 8)
    assert (found["allreduce"].phases, found["allreduce"].chunk_factor) == (2, 8)
    assert "compositions" in found["allreduce"].scope
    assert dual_of(named_spec("reduce", 8, 5)).spec == named_spec("broadcast", 8, 5)


@pytest.mark.parametrize("name", collective_names())
def test_collectives_survive_json(name: str) -> None:
    collective = named_spec(name, 4).at(8)
    text = to_text(collective_to_wire(collective))
    assert collective_from_wire(parse(text, CollectiveWire, "x"), "x") == collective


@pytest.mark.parametrize(
    ("name", "root", "chunks", "says"),
    [
        ("allgahter", None, 1, "did you mean 'allgather'"),
        ("allgather", 0, 1, "has no root"),
        ("broadcast", 8, 1, "root is 8, expected a rank from 0 to 7"),
        ("broadcast", -1, 1, "root is -1"),
        ("alltoall", None, 9, "such as 8 or 16"),
        ("scatter", None, 3, "multiple of 8 such as 8"),
        ("allgather", None, 0, "chunks is 0"),
        ("allreduce", None, 12, "multiple of 8"),
    ],
)
def test_bad_collectives(name: str, root: int | None, chunks: int, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        resolve_collective(name, 8, root).at(chunks)


def write(tmp_path: Path, **fields: object) -> str:
    path = tmp_path / "custom.json"
    path.write_text(json.dumps({"name": "mine", "ranks": 3, **fields}))
    return str(path)


def test_allgatherv_from_a_file(tmp_path: Path) -> None:
    """Rank 0 has two chunks, rank 1 one, rank 2 none."""
    text = write(
        tmp_path,
        pre=[[0, 0], [1, 0], [2, 1]],
        post=[[c, r] for c in range(3) for r in range(3)],
    )
    collective = resolve_collective(text, 3).at(2)
    assert collective.num_chunks == 6
    assert [sorted(collective.holders(c)) for c in range(6)] == [[0], [0], [1]] * 2
    again = collective_from_wire(collective_to_wire(collective), "x")
    assert again == collective


def test_custom_reduction_whose_root_contributes(tmp_path: Path) -> None:
    text = write(tmp_path, pre=[[0, 0], [0, 1], [0, 2]], post=[[0, 0]], combining=True)
    assert dual_of(resolve_collective(text, 3)).spec.at(1).destinations(0) == {0, 1, 2}


def test_no_rank_has_more_chunks_than_there_are() -> None:
    """Size limits of a file keep R/C and its derived values finite."""
    wire = collective_to_wire(named_spec("allgather", 3).at(2))
    with pytest.raises(FormatError, match="chunks is 7, expected at most the total of 6"):
        collective_from_wire(msgspec.structs.replace(wire, chunks=7), "file")


def test_custom_chunk_counts_add_up() -> None:
    from dataclasses import replace

    collective = named_spec("allgather", 3).at(2)
    relation = Relation(RelationKind.PAIRS, pattern=(to_ranks([0]),) * 3)
    with pytest.raises(CollectiveError, match="3 chunks does not divide the total of 6"):
        replace(collective, pre=relation, chunks=3)
    with pytest.raises(CollectiveError, match="patterns of 3 and 6 chunks"):
        replace(collective, pre=relation, post=replace(relation, pattern=relation.pattern * 2))
    with pytest.raises(CollectiveError, match="0 chunks does not divide"):
        replace(collective, pre=Relation(RelationKind.PAIRS))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"pre": [[0, 0]], "post": [[1, 1]]}, "chunk 1 has no source"),
        ({"pre": [[0, 0], [2, 0]], "post": [[2, 1]]}, "chunk 1 has no source"),
        ({"pre": [], "post": [[0, 1]]}, "$.pre"),
        ({"pre": [[0, 3]], "post": [[0, 1]]}, "rank 3"),
        ({"pre": [[0, 0]], "post": [[0, 7]]}, "rank 7"),
        ({"pre": [[0, 0], [0, 0]], "post": [[0, 1]]}, "$.pre[1]: the pair [0, 0] occurs twice"),
        ({"pre": [[0, -1]], "post": [[0, 1]]}, "$.pre[0][1]"),
        ({"pre": [[0, 0]], "post": [[0, 0]]}, "already at its destinations"),
        ({"pre": [[0, 0]], "post": [[0, 1]], "ranks": 4}, "for 4 ranks, the topology has 3"),
        ({"pre": [[0, 0]], "post": [[0, 1]], "name": "allgather"}, "sccl's own"),
        (
            {"pre": [[0, 0]], "post": [[0, 1], [0, 2]], "combining": True},
            "has 2 destinations",
        ),
    ],
)
def test_bad_custom_collectives(fields: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        resolve_collective(write(tmp_path, **fields), 3)


def test_huge_chunk_number_is_rejected_quickly(tmp_path: Path) -> None:
    text = write(tmp_path, pre=[[0, 0]], post=[[10**12, 1]])
    with pytest.raises(InputError, match="has no source"):
        resolve_collective(text, 3)


def test_custom_collectives_have_no_root(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="has none"):
        resolve_collective(write(tmp_path, pre=[[0, 0]], post=[[0, 1]]), 3, root=0)
