"""Algorithms of msccl-tools: written as its tools take them, read back the same, and judged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sccl.collectives import collective_names
from sccl.core.algorithm import Algorithm
from sccl.errors import InputError
from sccl.formats import msccl_json
from sccl.formats.common.contract import SizedPlan
from sccl.judge import violations
from tests.kit.commands import sccl
from tests.kit.easy_algorithms import frontier
from tests.kit.nightly import times

MACHINES = ("ring:4", "star:4", "line:3", "z52-pcie", "mesh:2x3")


def written(algorithm: Algorithm) -> bytes:
    """Return the file of an algorithm."""
    files = msccl_json.write([SizedPlan("plan", algorithm)], msccl_json.Options()).files
    return files["plan.json"]


def read(content: bytes) -> Algorithm:
    """Return the algorithm of a file."""
    plan = msccl_json.read(content, "file").plan
    assert isinstance(plan, Algorithm)
    return plan


def implements(file: dict[str, Any]) -> bool:
    """Return whether every node ends with its demand, by the rule of msccl-tools.

    A chunk of the collective is at its address, once for each of ``instance.chunks``. A send
    carries the content of the address at the start of the step.
    """
    chunks = file["instance"]["chunks"]
    has: dict[tuple[int, int], set[int]] = {}
    wanted = []
    for number, chunk in enumerate(file["collective"]["chunks"]):
        for piece in range(chunks):
            address = chunk["addr"] * chunks + piece
            for rank in chunk["pre"]:
                has.setdefault((address, rank), set()).add(number)
            wanted += [(address, rank, number) for rank in chunk["post"]]
    for step in file["steps"]:
        before = {place: set(numbers) for place, numbers in has.items()}
        for address, src, dst in step["sends"]:
            has.setdefault((address, dst), set()).update(before.get((address, src), ()))
    return all(number in has.get((address, rank), ()) for address, rank, number in wanted)


def keeps_to_links(file: dict[str, Any]) -> bool:
    """Return whether no step sends more than links and switches carry in its rounds."""
    topology = file["topology"]
    nodes = range(file["collective"]["nodes"])
    shared = [([s], [d], topology["links"][d][s]) for s in nodes for d in nodes if s != d]
    shared += [(s, d, lanes) for s, d, lanes, _ in topology["switches"]]
    return all(
        sum(src in srcs and dst in dsts for _, src, dst in step["sends"]) <= lanes * step["rounds"]
        for step in file["steps"]
        for srcs, dsts, lanes in shared
    )


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("collective", sorted(set(collective_names()) - {"allreduce"}))
def test_every_point_is_written_right_and_comes_back(machine: str, collective: str) -> None:
    for algorithm in frontier(machine, collective):
        content = written(algorithm)
        file = json.loads(content)
        assert implements(file)
        assert keeps_to_links(file)
        back = read(content)
        assert violations(back) == []
        assert (back.collective, back.sends) == (algorithm.collective, algorithm.sends)
        assert back.rounds_per_step == algorithm.rounds_per_step
        assert back.topology.same_capacities(algorithm.topology) == (machine != "z52-pcie")


def test_budget_that_is_no_switch_is_left_out_and_said() -> None:
    plan = SizedPlan("plan", frontier("z52-pcie", "allgather")[0])
    notes = msccl_json.write([plan], msccl_json.Options()).notes
    assert "no product of sources and goals, which a switch there is" in notes[-1]


@pytest.mark.parametrize("collective", ["allgather", "alltoall", "reducescatter", "reduce"])
def test_changed_file_gets_the_verdict_of_msccl_tools(collective: str) -> None:
    """A send is removed or moved. The judge also rejects sends of chunks that the sender lacks."""
    draw = random.Random(5)  # noqa: S311 - the same changes every time
    file = json.loads(written(frontier("ring:4", collective)[0]))
    wrong = 0
    for _ in range(times(60)):
        other = json.loads(json.dumps(file))
        sends = draw.choice([step["sends"] for step in other["steps"]])
        if draw.randrange(2):
            sends[draw.randrange(len(sends))][0] = draw.choice(sends)[0]
        else:
            del sends[draw.randrange(len(sends))]
        judged = violations(read(json.dumps(other).encode())) == []
        wrong += not judged
        assert not judged or (implements(other) and keeps_to_links(other))
    assert wrong > 30


def composed(ranks: int = 4) -> dict[str, Any]:
    """Return an allreduce as 'msccl compose allreduce' joins two of a ring: it states one chunk."""
    halves = [
        json.loads(written(frontier(f"ring:{ranks}", collective)[0]))
        for collective in ("reducescatter", "allgather")
    ]
    everyone = list(range(ranks))
    chunks = [{"pre": [rank], "post": everyone, "addr": 0} for rank in everyone]
    first = halves[0]
    return {
        **first,
        "steps": [*first["steps"], *halves[1]["steps"]],
        "collective": {**first["collective"], "name": "Allreduce", "chunks": chunks},
    }


def test_composed_allreduce_is_one_of_all_its_addresses(tmp_path: Path) -> None:
    file = composed()
    assert [file["instance"]["chunks"], file["msccl_type"]] == [1, "algorithm"]
    path, plan = tmp_path / "a.json", tmp_path / "plan.json"
    path.write_text(json.dumps(file))
    code, out, err = sccl("import", path, "-o", plan)
    assert (code, err) == (0, "")
    assert "it states 1 chunks and sends 4" in " ".join(out.split())
    assert sccl("check", path, plan)[0] == 0


def test_allreduce_of_few_chunks_is_cut_for_all_ranks() -> None:
    """Two ranks send each other all they have, in one chunk."""
    everyone = [0, 1]
    file = {
        "msccl_type": "algorithm",
        "instance": {"chunks": 1},
        "steps": [{"rounds": 1, "sends": [[0, 0, 1], [0, 1, 0]]}],
        "collective": {
            "name": "Allreduce(n=2)",
            "nodes": 2,
            "chunks": [{"pre": [rank], "post": everyone, "addr": 0} for rank in everyone],
        },
        "topology": {"name": "pair", "links": [[0, 1], [1, 0]], "switches": []},
    }
    found = msccl_json.read(json.dumps(file).encode(), "file")
    assert "each chunk is cut into 2" in found.notes[-1]
    assert isinstance(found.plan, Algorithm)
    assert violations(found.plan) == []
    assert (found.plan.collective.name, found.plan.collective.chunks) == ("allreduce", 2)
    assert (found.plan.rounds, len(found.plan.sends)) == (2, 4)


def test_collectives_that_sccl_has_not_are_custom() -> None:
    file = json.loads(written(frontier("ring:4", "allgather")[0]))
    chunks = file["collective"]["chunks"]
    chunks[0]["post"] = [0, 1]
    plan = read(json.dumps(file).encode())
    assert plan.collective.name.startswith("msccl-")
    assert violations(plan) == []
    assert read(written(plan)).sends == plan.sends


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("instance", "pipeline"), 1, "it is pipelined"),
        (("instance", "chunks"), 0, r"Expected `int` >= 1 - at `\$\.instance\.chunks`"),
        (("instance", "chunks"), 2**19, "up to 1048576 in all are read"),
        (("collective", "chunks"), [{"pre": [4], "post": [0], "addr": 0}], "is at .4. and wanted"),
        (("collective", "nodes"), 5, "for 5 nodes, and its topology has 4"),
        (("collective", "triggers"), {"0": {"1": 2}}, r"appear when others arrive \(triggers\)"),
        (("steps",), [{"rounds": 1, "sends": [[9, 0, 1]]}], "step 0 sends address 9 from 0 to 1"),
        (("steps",), [{"rounds": 1, "sends": [[0, 0, 4]]}], "step 0 sends address 0 from 0 to 4"),
        (("topology", "links"), [[0]], "its topology has 1|expected|ranks|no links"),
    ],
)
def test_invalid_file_gives_one_sentence(path: tuple[str, ...], value: object, says: str) -> None:
    file = json.loads(written(frontier("ring:4", "allgather")[0]))
    place = file
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(InputError, match=says):
        msccl_json.read(json.dumps(file).encode(), "file")


def test_sums_that_differ_by_rank_are_rejected() -> None:
    file = composed()
    file["collective"]["chunks"][0]["post"] = [0]
    with pytest.raises(InputError, match="differs by rank, as in a scan"):
        msccl_json.read(json.dumps(file).encode(), "file")


def test_allreduce_is_not_written_as_its_stores_would_be_added() -> None:
    with pytest.raises(InputError, match="which stores it, and they add"):
        written(frontier("ring:4", "allreduce")[0])


def test_msccl_json_lists_unused_fields() -> None:
    content = written(frontier("ring:4", "allgather")[0])
    assert not any("not used" in note for note in msccl_json.read(content, "file").notes)
    file = json.loads(content)
    file["steps"][0]["delay_us"] = 3
    file["topology"]["latency"] = [1]
    notes = msccl_json.read(json.dumps(file).encode(), "file").notes
    assert "not used: steps[].delay_us" in notes
    assert "topology: not used: latency" in notes


def of_taccl() -> dict[str, Any]:
    """Return an allgather of two nodes of two GPUs, in two chunks each, as TACCL saves it.

    GPU 1 of a node sends to GPU 0 of the other one, which passes chunks on.
    """
    holders = {address: address // 2 for address in range(8)}
    local = [(a, r, r ^ 1) for a, r in holders.items()]
    remote = [(a, r | 1, (r | 1) ^ 3) for a, r in holders.items()]
    onward = [(a, dst, dst + 1) for a, _, dst in remote]
    steps = [
        [[*one, 10 * k, 0] for k, one in enumerate(sends)]
        for sends in (
            [one for one in local if one[1] % 2 == 0]
            + [one for one in remote if holders[one[0]] % 2],
            [one for one in local if one[1] % 2]
            + [one for one in remote if not holders[one[0]] % 2],
            onward,
        )
    ]
    return {
        "sccl_type": "algorithm",
        "name": "Allgather(n=4)-pair-pair-steps=3",
        "instance": {"sccl_type": "instance", "steps": 3, "chunks": 2, "pipeline": None},
        "input_map": {},
        "output_map": {},
        "steps": [{"sccl_type": "step", "rounds": 1234.5, "sends": sends} for sends in steps],
        "collective": {
            "sccl_type": "collective",
            "name": "Allgather(n=4),chunks=2",
            "nodes": 4,
            "chunks": [
                {"sccl_type": "chunk", "pre": [rank], "post": [0, 1, 2, 3], "addr": address}
                for address, rank in holders.items()
            ],
            "ranks": [{"sccl_type": "rank", "pre": [], "post": [], "id": 0}],
            "triggers": {},
        },
        "topology": {
            "sccl_type": "topology",
            "name": "pair_1MB",
            "copies": 2,
            "ngpus_per_node": 2,
            "node_links": [[0, 1], [1, 0]],
            "node_invbws": [[0, 20], [20, 0]],
            "remote_invbw": 102,
            "remote_alpha": 2,
            "remote_beta": 100,
            "internode_conn": {"1": [0]},
            "local_switches": [],
        },
    }


def test_algorithm_of_taccl_is_read(tmp_path: Path) -> None:
    path, plan = tmp_path / "taccl.sccl.json", tmp_path / "plan.json"
    path.write_text(json.dumps(of_taccl()))
    found = msccl_json.read(path.read_bytes(), "file")
    assert found.about == "an algorithm of TACCL: allgather of 4 ranks, 3 steps, 24 sends"
    assert not any("not used" in note for note in found.notes)
    assert isinstance(found.plan, Algorithm)
    assert violations(found.plan) == []
    assert (found.plan.collective.chunks, found.plan.rounds_per_step) == (2, (2, 2, 4))
    assert sccl("import", path, "-o", plan)[0] == 0
    assert sccl("check", path, plan)[0] == 0


@pytest.mark.parametrize(
    ("sends", "message"),
    [
        ([[0, 0, 1, 5, 0, "rrc"]], "step 0 has sends that reduce"),
        ([[0, 0]], "step 0 has a send of 2 fields"),
        ([[0, 0, "1", 5, 0]], "step 0 has a send of 5 fields"),
    ],
)
def test_algorithm_of_taccl_with_other_sends_is_rejected(sends: list[Any], message: str) -> None:
    file = of_taccl()
    file["steps"][0]["sends"] = sends
    with pytest.raises(InputError, match=message):
        msccl_json.read(json.dumps(file).encode(), "file")
