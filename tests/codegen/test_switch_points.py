"""Switch points by the costs of a machine, its own or a measured one."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from sccl.cli.doctor.schema import schema_of_kind
from sccl.cli.main import app
from sccl.codegen.bundle import build_bundle
from sccl.codegen.chunk_coarsening import MAX_COST_RATIO
from sccl.codegen.project_writer import generate, write_project
from sccl.codegen.switch_points import ModeledProgram, choose_switch_points, longest_block
from sccl.codegen.targets.codegen_options import CodegenOptions
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.core.cost import Costs
from sccl.core.files.json_text import to_text
from sccl.core.files.topologies import topology_to_wire
from sccl.core.topology import Link, Topology
from sccl.formats.files.plans import write_plan
from sccl.judge import violations


def pair(alpha_us: float, gb_per_s: float, lanes: int = 1) -> Topology:
    links = tuple(Link(u, 1 - u, lanes, alpha_us, gb_per_s) for u in (0, 1))
    return Topology("pair", 2, links, alpha_us, gb_per_s)


OWN = pair(1.0, 25.0)
QUICK = Algorithm(OWN, named_spec("broadcast", 2).at(1), (2,), (make_send(0, 0, 1, 0),))
LONG = Algorithm(
    OWN, named_spec("broadcast", 2).at(2), (1, 1), (make_send(0, 0, 1, 0), make_send(1, 0, 1, 1))
)
"""One step of R/C = 2, two of R/C = 1: as fast as one another at alpha / beta bytes."""


@pytest.mark.parametrize(
    ("machine", "bytes_at"),
    [(None, 25_000), (pair(2.0, 25.0), 50_000), (pair(1.0, 5.0, lanes=2), 10_000)],
)
def test_costs_of_a_machine_decide_from_where_on_another_serves(
    machine: Topology | None, bytes_at: int
) -> None:
    """Two lanes of 5 GB/s are one of 10, on a link that has one."""
    costs = Costs.from_topology if machine is None else partial(Costs.from_machine, machine=machine)
    made = build_bundle([QUICK, LONG], serial=True, protocols=[("e", 0)], costs=costs)
    (entry,) = made.entries
    first, second = entry.switches
    assert [entry.algorithms[s.index].algorithm.steps for s in (first, second)] == [1, 2]
    assert second.from_bytes == bytes_at


SWITCHED = Topology(
    "switched",
    4,
    tuple(Link(a, b, 18, 0.7, 25.0) for a in range(4) for b in range(4) if a != b),
    0.7,
    25.0,
)
"""Links of eighteen lanes, as behind a switch."""


def test_small_sizes_are_served_by_programs_of_few_parts() -> None:
    """A link carries up to 18 chunks in one round."""
    sends = tuple(
        make_send(4 * part + src, src, dst, 0)
        for part in range(72)
        for src in range(4)
        for dst in range(4)
        if src != dst
    )
    many = Algorithm(SWITCHED, named_spec("allgather", 4).at(72), (4,), sends)
    protocols = [("p", 0), ("e", 8192), ("d", 65536)]
    (entry,) = build_bundle([many], serial=False, protocols=protocols).entries
    given, few = entry.algorithms
    assert given.algorithm is many
    assert violations(few.algorithm) == []
    assert few.algorithm.collective.chunks == 14
    assert few.algorithm.bandwidth_cost <= MAX_COST_RATIO * many.bandwidth_cost
    assert longest_block(few.eager) <= longest_block(given.eager) / 5
    indices = [s.index for s in entry.switches]
    assert indices == sorted(indices, reverse=True)  # few parts first
    assert set(indices) == {0, 1}
    (entry,) = build_bundle([many], serial=True, protocols=[("a", 0)]).entries
    assert [one.algorithm for one in entry.algorithms] == [many]


def test_call_of_many_pieces_pays_for_each() -> None:
    """If slots limit pieces, the program of more parts serves smaller buffers already."""
    few = ModeledProgram(0, 2, 2, 16, 16, Costs(0.7, 25.0), instructions=10, slot_bytes=327680)
    many = replace(few, rounds=14, chunks=144, parts=144, instructions=90)
    protocols = [("d", 0)]
    (_, pieces) = choose_switch_points([few, many], protocols)
    (_, whole) = choose_switch_points(
        [replace(one, slot_bytes=None) for one in (few, many)], protocols
    )
    assert 16 * 327680 < pieces.from_bytes < whole.from_bytes
    first, last = (
        few.time_us(pieces.from_bytes + n) - many.time_us(pieces.from_bytes + n) for n in (-1, 0)
    )
    assert first < 0 <= last


def test_project_takes_them_from_a_file(tmp_path: Path) -> None:
    for name, algorithm in (("quick", QUICK), ("long", LONG)):
        write_plan(tmp_path / f"{name}.json", algorithm)
    machine = tmp_path / "machine"
    machine.mkdir()
    file = machine / "measured.json"
    file.write_text(to_text(topology_to_wire(pair(2.0, 25.0))))
    words = ["project", "new", *(str(tmp_path / f"{n}.json") for n in ("quick", "long"))]
    words += ["-o", str(tmp_path / "project"), "--topo", str(file)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "50000=1" in (tmp_path / "project" / "program.json").read_text()
    both = CliRunner().invoke(app, [*words, "--select", "broadcast:0=0e"])
    assert both.exit_code == 2
    assert "--select and --topo both set" in both.output


ONE_WAY = replace(OWN, name="one way", links=OWN.links[:1])
TRIO = Topology("trio", 3, (*OWN.links, Link(0, 2, 1, 1.0, 1.0)), 1.0, 1.0)


def written(
    folder: Path, target: str = "host", transport: str = "kernel", machine: Topology = OWN
) -> dict[str, str]:
    """Write a project and return its content."""
    costs = partial(Costs.from_machine, machine=machine)
    made = generate([QUICK, LONG], target, CodegenOptions(None, transport), None, costs)
    write_project(folder, made)
    return made


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def tune(folder: Path, machine: Topology, *more: str) -> tuple[int, str, str]:
    file = folder.parent / f"{machine.name}.json"
    file.write_text(to_text(topology_to_wire(machine)))
    done = CliRunner().invoke(app, ["project", "tune", str(folder), "--topo", str(file), *more])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("target", "transport", "bytes_at"),
    [("host", "kernel", 2_500_000), ("cuda", "kernel", 2_525_000), ("hip", "dma", 2_500_000)],
)
def test_tune_sets_what_the_project_would_have_been_made_with(
    target: str, transport: str, bytes_at: int, tmp_path: Path
) -> None:
    """A hundred times the latency: few steps serve a hundred times as far. Nothing is built.

    Blocks of a kernel have two more instructions for two chunks, at 0.5 us each.
    """
    slow = pair(100.0, 25.0)
    written(tmp_path / "project", target, transport)
    code, said, _ = tune(tmp_path / "project", slow)
    assert code == 0
    assert f",{bytes_at}=1" in said
    assert "# by the costs of pair; next: " in said
    anew = written(tmp_path / "anew", target, transport, slow)
    found = contents(tmp_path / "project")
    for file in ("program.json", "selection.hpp"):
        assert found[file] == anew[file]
    assert tune(tmp_path / "project", OWN)[0] == 0
    assert contents(tmp_path / "project") == written(tmp_path / "own", target, transport)


def test_tune_says_in_json_whose_costs_it_took(tmp_path: Path) -> None:
    written(tmp_path / "project")
    told = json.loads(tune(tmp_path / "project", pair(2.0, 25.0), "--json")[1])
    jsonschema.validate(told, schema_of_kind("tune"))
    assert (told["machine"], told["selection"]) == ("pair", "broadcast:0=0a,50000=1a")
    assert {"topology", str(tmp_path / "project")} == set(told["inputs"])


@pytest.mark.parametrize(
    ("machine", "more", "says"),
    [
        (TRIO, (), "topology 'trio' has 3 ranks, an algorithm for 'pair' needs 2"),
        (ONE_WAY, (), "topology 'one way' has no link 1->0, which an algorithm for 'pair' may use"),
        (
            OWN,
            ("--size", "1..4"),
            "--size sets a measurement, and --topo gives the costs of links",
        ),
        (OWN, ("--repeat", "3"), "--repeat sets a measurement"),
        (OWN, ("--mpi", "."), "--mpi sets a measurement"),
        (OWN, ("--ranks", "3"), "3 ranks are asked for, but "),
        (OWN, ("--collective", "reduce"), "has no 'reduce', only broadcast"),
    ],
)
def test_unfit_costs_leave_the_project_unchanged(
    machine: Topology, more: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    before = written(tmp_path / "project", machine=pair(2.0, 25.0))
    code, said, why = tune(tmp_path / "project", machine, *more)
    assert (code, said, why.count("\n")) == (2, "", 1)
    assert says in why
    assert contents(tmp_path / "project") == before


@pytest.mark.parametrize("lacking", ["links", "protocols"])
def test_project_that_does_not_tell_its_links_has_to_be_measured(
    lacking: str, tmp_path: Path
) -> None:
    written(tmp_path / "project")
    file = tmp_path / "project" / "program.json"
    program = json.loads(file.read_text())
    place = program["collectives"][0]["algorithms"][1] if lacking == "links" else program
    del place[lacking]
    file.write_text(json.dumps(program))
    before = contents(tmp_path / "project")
    code, _, why = tune(tmp_path / "project", OWN)
    assert code == 2
    assert "the project was written by an older sccl" in why
    assert contents(tmp_path / "project") == before


def test_tune_leaves_other_collectives_alone(tmp_path: Path) -> None:
    """A reduce by the reversed algorithms has the same switch point."""
    back = [
        Algorithm(OWN, named_spec("reduce", 2).at(a.collective.chunks), a.rounds_per_step,
                  tuple(make_send(s.chunk, 1, 0, s.step, reduce=True) for s in a.sends))
        for a in (QUICK, LONG)
    ]  # fmt: skip
    write_project(tmp_path / "project", generate([QUICK, LONG, *back], "host"))
    code, said, _ = tune(tmp_path / "project", pair(2.0, 25.0), "--collective", "reduce")
    assert (code, said.splitlines()[:2]) == (
        0,
        ["broadcast:0=0a,25000=1a", "reduce:0=0a,50000=1a"],
    )
