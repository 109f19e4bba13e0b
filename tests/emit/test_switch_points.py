"""Switch points by the costs of a machine, its own or a measured one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import named
from sccl.core.algorithm import Algorithm, send
from sccl.core.cost import Costs
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.text import text_of
from sccl.core.files.topologies import topology_to_wire
from sccl.core.topology import Link, Topology
from sccl.emit.bundle import bundle
from sccl.errors import ParameterError


def pair(alpha_us: float, gb_per_s: float, lanes: int = 1) -> Topology:
    links = tuple(Link(u, 1 - u, lanes, alpha_us, gb_per_s) for u in (0, 1))
    return Topology("pair", 2, links, alpha_us, gb_per_s)


OWN = pair(1.0, 25.0)
QUICK = Algorithm(OWN, named("broadcast", 2).at(1), (2,), (send(0, 0, 1, 0),))
LONG = Algorithm(OWN, named("broadcast", 2).at(2), (1, 1), (send(0, 0, 1, 0), send(1, 0, 1, 1)))
"""One step of R/C = 2, two of R/C = 1: as fast as one another at alpha / beta bytes."""


@pytest.mark.parametrize(
    ("machine", "bytes_at"),
    [(None, 25_000), (pair(2.0, 25.0), 50_000), (pair(1.0, 5.0, lanes=2), 10_000)],
)
def test_the_costs_of_a_machine_decide_from_where_on_another_serves(
    machine: Topology | None, bytes_at: int
) -> None:
    """Two lanes of 5 GB/s are one of 10, on a link that has one."""
    costs = Costs.of if machine is None else partial(Costs.on, machine=machine)
    made = bundle([QUICK, LONG], serial=True, protocols=[("e", 0)], costs=costs)
    (entry,) = made.entries
    first, second = entry.switches
    assert [entry.algorithms[s.index].algorithm.steps for s in (first, second)] == [1, 2]
    assert second.from_bytes == bytes_at


def test_a_machine_that_lacks_a_link_is_refused() -> None:
    one_way = replace(OWN, name="one way", links=OWN.links[:1])
    with pytest.raises(ParameterError, match="'one way' has no link 1->0, which an algorithm for"):
        Costs.on(OWN, one_way)


def test_a_project_takes_them_from_a_file(tmp_path: Path) -> None:
    for name, algorithm in (("quick", QUICK), ("long", LONG)):
        (tmp_path / f"{name}.json").write_text(text_of(algorithm_to_wire(algorithm)))
    machine = tmp_path / "machine"
    machine.mkdir()
    file = machine / "measured.json"
    file.write_text(text_of(topology_to_wire(pair(2.0, 25.0))))
    words = ["codegen", *(str(tmp_path / f"{n}.json") for n in ("quick", "long"))]
    words += ["-o", str(tmp_path / "project"), "--topo", str(file)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "50000=1" in (tmp_path / "project" / "program.json").read_text()
    both = CliRunner().invoke(app, [*words, "--select", "broadcast:0=0e"])
    assert both.exit_code == 2
    assert "--select and --topo both say" in both.output
