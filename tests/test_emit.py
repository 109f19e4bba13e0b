"""Generated text: for every frontier point, golden files, hostile names, bad input."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.core.algorithm import Algorithm
from sccl.core.codec import algorithm_to_wire
from sccl.core.text import text_of
from sccl.emit import Options, generate, targets, write_project
from sccl.emit.bundle import bundle, identifier
from sccl.errors import InputError, ParameterError, UnknownNameError
from sccl.runtime import Timing, fastest, load_project, speedup, tuned_selection
from tests.found import FRONTIERS, frontier
from tests.projects import tool

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(("machine", "collective"), FRONTIERS)
def test_every_frontier_point_is_emitted(machine: str, collective: str) -> None:
    algorithms = frontier(machine, collective)
    for target in targets():
        files = generate(algorithms, target)
        program = json.loads(files["program.json"])
        (entry,) = program["collectives"]
        assert len(entry["algorithms"]) == len(algorithms)
        assert f"sccl_{collective}(" in files["sccl.h"]
        steps = files["steps.hpp"]
        assert steps.count("SCCL_STEPS void steps_") == 2 * len(algorithms)
        sends = sum(len(a.sends) for a in algorithms)
        assert steps.count("m.send(") <= 2 * sends  # eager and direct; redundant sends are dropped


@pytest.mark.parametrize("target", targets())
def test_golden_files(target: str, request: pytest.FixtureRequest) -> None:
    files = generate(frontier("line:3", "allreduce"), target)
    for name in ("steps.hpp", "tables.hpp", "selection.hpp", "sccl.h", "Makefile", "README.md"):
        golden = GOLDEN / target / name
        if request.config.getoption("--update-golden"):
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(files[name])
        assert files[name] == golden.read_text(), f"{golden}: see 'pytest --update-golden'"


def test_all_targets_share_the_steps() -> None:
    texts = {t: generate(frontier("dgx1", "allgather"), t)["steps.hpp"] for t in targets()}
    assert texts["cuda"] == texts["hip"]
    calls = {t: set(re.findall(r"m\.(\w+)\(", text)) for t, text in texts.items()}
    assert calls["host"] <= calls["cuda"]  # ranks that are one thread need no marks
    shown = {t: re.sub(r"(?s)^.*?// allgather", "", text) for t, text in texts.items()}
    assert shown["host"].count("m.send(") == shown["cuda"].count("m.send(")


def test_same_input_same_bytes() -> None:
    algorithms = frontier("ring:4", "allreduce")
    for target in targets():
        assert generate(algorithms, target) == generate(list(algorithms), target)


HOSTILE = [
    '"; system("touch owned"); //',
    "a\n#include <evil>\n",
    "$(shell touch owned)",
    "*/ int x; /*",
    "`touch owned`' \\",
    "{{ 7 * 7 }}{% raw %}",
]


INJECTED = ("system(", "#include <evil", "$(shell touch", "*/ int", "touch owned", "49", "`")


def renamed(algorithm: Algorithm, name: str) -> Algorithm:
    return replace(algorithm, topology=replace(algorithm.topology, name=name))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_do_not_reach_code(name: str, tmp_path: Path) -> None:
    algorithms = [renamed(a, name) for a in frontier("ring:4", "allgather")]
    algorithms += [
        replace(a, collective=replace(a.collective, name=f"mine {name}"))
        for a in frontier("ring:4", "alltoall")
    ]
    for target in targets():
        files = generate(algorithms, target)
        for file, text in files.items():
            if file == "program.json":
                assert json.loads(text)["collectives"][0]["algorithms"][0]["topology"] == name
                continue
            for bad in (
                "system(",
                "#include <evil",
                "$(shell touch",
                "*/ int",
                "touch owned",
                "49",
                "`",
            ):
                clean = generate(frontier("ring:4", "allgather"), target)[file]
                assert bad in clean or bad not in text, f"{file} has {bad!r}"
    write_project(tmp_path / "p", generate(algorithms, "host"))
    shown = subprocess.run(
        [tool("make", "install it"), "-n", "-C", str(tmp_path / "p"), "MPICXX=true"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "owned" not in shown.stdout
    assert not list(tmp_path.rglob("owned"))


def test_identifiers_are_of_c() -> None:
    for name in [*HOSTILE, "allgather", "Große Sammlung", ""]:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", identifier(name))
    assert identifier("allgather") == "allgather"
    assert identifier("Allgather") != "allgather"


def test_switch_points_come_from_the_cost_model() -> None:
    """As the sweep prints: C=2 S=2 R=3 up to 51.3 KiB, then C=6 S=3 R=7."""
    algorithms = frontier("dgx1", "allgather")
    made = bundle(algorithms, serial=True, eager_part_bytes=1 << 40)
    assert made.selection().startswith("allgather:0=0e")
    costs = [(a.steps, a.bandwidth_cost) for a in algorithms]
    if len(costs) > 1:
        (s0, b0), (s1, b1) = costs[:2]
        turn = (s1 - s0) / (b0 - b1) * int(0.7 * 25e3)
        assert abs(made.entries[0].switches[1].from_bytes - turn) <= 1


def save(algorithm: Algorithm, path: Path) -> str:
    path.write_text(text_of(algorithm_to_wire(algorithm)))
    return str(path)


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 2, done.output
    return " ".join(done.output.split())


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    four = frontier("ring:4", "allgather")[0]
    good = save(four, tmp_path / "good.json")
    bad = save(replace(four, sends=four.sends[1:]), tmp_path / "bad.json")
    three = save(frontier("line:3", "allgather")[0], tmp_path / "three.json")
    out = str(tmp_path / "out")
    assert "the judge rejects this algorithm" in refused("codegen", bad, "-o", out)
    assert "are for 3 and 4 ranks" in refused("codegen", good, three, "-o", out)
    assert "unknown target 'cudda'" in refused("codegen", good, "--target", "cudda", "-o", out)
    assert "blocks-per-link is 0" in refused("codegen", good, "--blocks-per-link", "0", "-o", out)
    assert "expected collective:from" in refused("codegen", good, "--select", 'x"', "-o", out)
    assert "names alltoall, but" in refused("codegen", good, "--select", "alltoall:0=0e", "-o", out)
    assert "beyond the last" in refused("codegen", good, "--select", "allgather:0=9e", "-o", out)
    assert not Path(out).exists()  # nothing half-written
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("mine")
    assert "not a project of sccl" in refused("codegen", good, "-o", str(tmp_path / "other"))
    assert "it is a file" in refused("codegen", good, "-o", good)
    assert "is not a generated project" in refused("run", str(tmp_path))
    assert CliRunner().invoke(app, ["codegen", good, "-o", out]).exit_code == 0
    assert "for 4 ranks" in refused("run", out, "--np", "8")
    assert "expected from..to" in refused("bench", out, "--sizes", "4M..1")
    assert "has no 'allreduce'" in refused("tune", out, "--collective", "allreduce")
    assert "expected 'mpi'" in refused("bench", out, "--against", "nccl")
    (Path(out) / "program.json").write_text("{}")
    assert "is not what 'sccl codegen' writes" in refused("run", out)


def test_missing_tools_say_what_to_install(tmp_path: Path) -> None:
    good = save(frontier("ring:4", "allgather")[0], tmp_path / "good.json")
    out = str(tmp_path / "out")
    CliRunner().invoke(app, ["codegen", good, "-o", out])
    done = CliRunner().invoke(app, ["run", out, "--mpi", str(tmp_path)])
    assert done.exit_code == 4
    assert "pip install 'sccl[mpi]'" in " ".join(done.output.split())
    for target, words in (("host", "no nompi: install an MPI"), ("cuda", "no nonvcc: install")):
        write_project(tmp_path / target, generate(frontier("ring:4", "allgather"), target))
        compilers = ["MPICXX=nompi"] if target == "host" else ["MPICXX=true", "GPUCXX=nonvcc"]
        failed = subprocess.run(
            [tool("make", "install it"), "-C", str(tmp_path / target), *compilers],
            capture_output=True,
            text=True,
            check=False,
        )
        assert failed.returncode
        assert words in failed.stderr


def test_switch_points_can_be_given() -> None:
    files = generate(frontier("ring:4", "allgather"), "host", select="allgather:64=0d,0=0e")
    assert '"allgather:0=0e,64=0d"' in files["selection.hpp"]
    assert json.loads(files["program.json"])["selection"] == "allgather:0=0e,64=0d"


def test_errors_of_the_api() -> None:
    with pytest.raises(UnknownNameError, match="the transports are kernel, dma"):
        generate(frontier("ring:4", "allgather"), "cuda", Options(transport="tcp"))
    with pytest.raises(ParameterError, match="no algorithm is given"):
        generate([], "host")
    with pytest.raises(UnknownNameError, match="did you mean 'host'"):
        generate(frontier("ring:4", "allgather"), "hosts")
    twice = [
        replace(a, collective=replace(a.collective, name=name))
        for name in ("my one", "my-one")
        for a in frontier("ring:4", "alltoall")
    ]
    with pytest.raises(ParameterError, match="both called custom_my_one"):
        generate(twice, "host")


def timing(size: int, name: str, us: float) -> Timing:
    return Timing("allgather", size, name, (us, us, us))


def test_tuning_takes_the_fastest_and_ignores_noise() -> None:
    rows = [timing(1, "0e", 1.0), timing(1, "0d", 2.0), timing(2, "0e", 1.0), timing(2, "0d", 0.99)]
    rows += [timing(4, "0e", 4.0), timing(4, "0d", 2.0)]
    assert tuned_selection(rows, "allgather:0=0e;alltoall:0=0e,8=0d") == (
        "allgather:0=0e,4=0d;alltoall:0=0e,8=0d"
    )
    sizes = {t.size_bytes: {} for t in rows}  # type: ignore[var-annotated]
    for row in rows:
        sizes[row.size_bytes][row.contender] = row
    assert fastest(sizes, ["0e", "0d"]) == [(1, "0e"), (4, "0d")]
    assert speedup(sizes, "0e", "0d") == pytest.approx((2 * 0.99 * 0.5) ** (1 / 3))


def test_a_project_is_read_back(tmp_path: Path) -> None:
    write_project(tmp_path / "p", generate(frontier("dgx1", "allgather"), "cuda"))
    project = load_project(tmp_path / "p")
    assert (project.target, project.ranks) == ("cuda", 8)
    with pytest.raises(InputError, match="not a generated project"):
        load_project(tmp_path)
