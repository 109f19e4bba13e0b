"""Small files of all formats, as they were when they were last looked at, and executed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from sccl import formats
from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm, make_send
from sccl.formats.common.contract import SizedPlan
from sccl.formats.common.program_graph import StepProgram
from sccl.formats.files.export_plans import parse_options
from sccl.judge import violations
from sccl.topo import resolve_topology
from sccl.transform.invert import invert
from sccl.transform.retime import schedule_algorithm
from tests.kit.astra_reference import Machine, nodes, simulate
from tests.kit.commands import sccl
from tests.kit.formats import program_faults
from tests.kit.goal_reference import run_goal
from tests.kit.messages import ring_allgather
from tests.kit.paths import GOLDEN

RANKS = 4
CHUNK = 2**16
Files = Mapping[str, bytes]


def allgather() -> Algorithm:
    """Return that of a ring, one way around, which no solver has to find."""
    rows = zip(*(column.tolist() for column in ring_allgather(RANKS)), strict=True)
    sends = tuple(make_send(chunk, src, dst, step) for step, chunk, src, dst in rows)
    collective = named_spec("allgather", RANKS).at(1)
    return Algorithm(resolve_topology("ring:4"), collective, (1,) * (RANKS - 1), sends)


ALGORITHMS = {
    "allgather": allgather(),
    "reducescatter": invert(allgather(), named_spec("reducescatter", RANKS).at(RANKS)),
}


def traces_end(files: Files, algorithm: Algorithm) -> None:
    """Check that every rank ends, not before the chunks that follow one another have come."""
    ranks = [nodes(files[f"{_prefix(files)}.{rank}.et"]) for rank in range(RANKS)]
    found = simulate(Machine("Ring", RANKS, 25.0, 700.0), ranks)
    assert min(end or 0 for end in found) >= algorithm.steps * CHUNK / 25


def _prefix(files: Files) -> str:
    return "algorithm" if "algorithm.0.et" in files else "plan"


def goal_brings_all(files: Files, algorithm: Algorithm) -> None:
    """Check that every message arrives."""
    assert run_goal(files["plan.goal"].decode(), CHUNK) == algorithm.num_sends


def table_has_all(files: Files, algorithm: Algorithm) -> None:
    """Check that the sends of a table are right by themselves."""
    rows = csv.DictReader(files["plan.csv"].decode().splitlines())
    sends = tuple(
        make_send(
            int(row["chunk"]), int(row["src"]), int(row["dst"]), int(row["step"]),
            reduce=row["reduce"] == "1",
        )
        for row in rows
    )  # fmt: skip
    collective, rounds = algorithm.collective, algorithm.rounds_per_step
    assert violations(Algorithm(algorithm.topology, collective, rounds, sends)) == []


def trace_has_all(files: Files, algorithm: Algorithm) -> None:
    """Check that a picture has every send."""
    events = json.loads(files["trace.json"])["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == algorithm.num_sends


def is_right(files: Files, algorithm: Algorithm) -> None:
    """Check that each file is read as a correct program at any speed."""
    for name, content in files.items():
        format_of = formats.detect_format(content)
        assert format_of is not None
        plan = format_of.read(content, name).plan
        assert plan is not None
        assert plan.collective == algorithm.collective
        if isinstance(plan, StepProgram):
            assert program_faults(plan) == []
        else:
            assert violations(plan) == []


EXECUTED: dict[str, Callable[[Files, Algorithm], None]] = {
    "astra-sim": traces_end,
    "chakra": traces_end,
    "chrome-trace": trace_has_all,
    "csv": table_has_all,
    "goal": goal_brings_all,
    "msccl-json": is_right,
    "msccl-xml": is_right,
    "mscclpp": is_right,
}


def test_every_format_that_is_written_has_some() -> None:
    by_comparing = {"tuner-csv"}
    assert set(EXECUTED) | by_comparing == {n for n in formats.names() if formats.load(n).TAKES}


def written(name: str, algorithm: Algorithm) -> Files:
    """Return the files of a format, as small as they can be."""
    form = formats.load(name)
    options = parse_options(form, ["blocks=1"] if name == "mscclpp" else [])
    takes = Algorithm in form.TAKES
    plan = algorithm if takes else schedule_algorithm(algorithm, CHUNK)
    size = CHUNK * algorithm.collective.chunks
    return form.write([SizedPlan("plan", plan, size_bytes=size)], options).files


@pytest.mark.parametrize("collective", ALGORITHMS)
@pytest.mark.parametrize("name", EXECUTED)
def test_files_are_as_they_were(name: str, collective: str, request: pytest.FixtureRequest) -> None:
    algorithm = ALGORITHMS[collective]
    assert violations(algorithm) == []
    files = written(name, algorithm)
    folder = GOLDEN / "formats" / name / collective
    if request.config.getoption("--update-golden"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert files == kept, f"{folder}: see 'pytest --update-golden'"
    EXECUTED[name](kept, algorithm)


def test_rules_for_the_tuner_are_as_they_were(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A separate test covers the plugin's use of such rules."""
    golden, file = GOLDEN / "formats" / "tuner-csv" / "allreduce-dgx1.csv", tmp_path / "rules.csv"
    told = ("--only", "multi-ring,double-binary-tree,direct", "--size", "1KB..16MB")
    words = ("--collective", "allreduce", "--topo", "dgx1", *told, "--tuner", file)
    assert sccl("compare", *words)[0] == 0
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_bytes(file.read_bytes())
    assert file.read_bytes() == golden.read_bytes(), f"{golden}: see 'pytest --update-golden'"
