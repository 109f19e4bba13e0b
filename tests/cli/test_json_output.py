"""Output with ``--json``: one document that matches its schema, also for errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from typer.testing import CliRunner

import sccl
from sccl.api.schemas import OUTPUTS, output_type
from sccl.cli.doctor.schema import schema_of_kind
from sccl.cli.main import app
from sccl.core.files.json_text import to_text
from sccl.core.files.kinds import SHAPE_NAMES
from tests.kit import commands
from tests.kit.documents import CASES, QUESTION, SIZE, make_inputs, run
from tests.kit.easy_algorithms import frontier
from tests.kit.scripts import scripted_mpi
from tests.kit.tools import tried_tools

COMMANDS = {name.removeprefix("sccl "): verb for name, verb in commands.COMMANDS.items()}
SIZES = ("--size", "4..8")


def strict(kind: str) -> dict[str, Any]:
    """Return a published schema that allows no field which it does not name."""
    schema = schema_of_kind(kind)
    for shape in schema["$defs"].values():
        shape.setdefault("additionalProperties", False)
    return schema


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a sweep, its certificate, a store, a schedule and a project."""
    return make_inputs(tmp_path_factory.mktemp("json"))


MEASURED = {"run", "bench", "tune"}
ATTACHED = {"optimizer"}
"""Verbs of a running job, which have separate tests."""


def test_every_verb_takes_json_and_is_tested_here() -> None:
    assert all("json" in {p.name for p in command.params} for command in COMMANDS.values())
    elsewhere = {f"project {verb}" for verb in MEASURED} | {"train control"}
    cases = [f"{case} " for case in CASES]
    tested = {name for name in COMMANDS if any(c.startswith(f"{name} ") for c in cases)}
    assert tested | elsewhere | {"synth NAME"} == set(COMMANDS)
    assert "synth ring" in CASES
    assert {kind for kind, _ in CASES.values()} | MEASURED | ATTACHED | {"error"} == {
        *OUTPUTS,
        "fabric",
        "sketch",
        "topology",
    }


def test_table_of_outputs_says_what_they_say() -> None:
    for kind in OUTPUTS:
        stated = {field.name: field.default for field in msgspec.structs.fields(output_type(kind))}
        assert stated["kind"] == kind


@pytest.mark.parametrize("verb", CASES)
def test_printed_json_matches_its_schema(verb: str, place: Path) -> None:
    kind, arguments = CASES[verb]
    asked = (*verb.split(), *arguments(place))
    code, found = tried_tools() if verb == "doctor test" else run(*asked)
    assert code in (0, 1), found
    assert (found["kind"], found["schema"]) == (kind, 1)
    jsonschema.validate(found, schema_of_kind(kind))
    jsonschema.validate(found, strict(kind))
    if kind not in {"fabric", "topology", "sketch"}:  # these are files, with digests of their own
        assert found["sccl"] == sccl.__version__


def test_inputs_are_told_by_their_digests(place: Path) -> None:
    _, asked = run("bound", *QUESTION)
    _, found = run("pareto", *QUESTION, "--no-store")
    assert set(asked["inputs"]) == {"topology", "collective"}
    assert found["inputs"] == asked["inputs"]
    kept = json.loads((place / "found" / "allgather-ring-4-frontier.json").read_text())
    assert kept["inputs"] == asked["inputs"]
    machine = run("topo", "show", "ring:4")[1]
    assert machine["digest"] == asked["inputs"]["topology"]
    file = min((place / "found").glob("*-c?-*.json"))
    digest = json.loads(file.read_text())["digest"]
    for verb in ("check", "show"):
        assert run(verb, file)[1]["inputs"] == {str(file): digest}


def test_sweep_files_match_their_schema(place: Path, tmp_path: Path) -> None:
    for path in sorted((place / "found").glob("*.json")):
        found = json.loads(path.read_text())
        jsonschema.validate(found, schema_of_kind(found["kind"]))
        if found["kind"] == "frontier":
            jsonschema.validate(found, strict("frontier"))
    claims = json.loads((place / "proofs" / "claims.json").read_text())
    jsonschema.validate(claims, schema_of_kind("certificate"))
    for verb, *more in (("limits",), ("pareto", "--no-store")):
        several = run(verb, "--collective", "allreduce", "--topo", "ring:4", *more)[1]
        assert several["classes"]
        jsonschema.validate(several, strict("frontier"))
    assert run("pareto", *QUESTION, "--no-store", "--output", tmp_path)[0] == 0
    for path in tmp_path.iterdir():  # the same question writes the same bytes
        assert path.read_bytes() == (place / "found" / path.name).read_bytes()


MEASURES = """
for word; do [ "$word" = --each ] && programs="0e 0d"; done
for size in 4 8; do for program in ${programs:-sccl}; do
echo '{"collective": "allgather", "size": '$size', "contender": "'$program'", "us": [1.5]}'
done; done"""


def test_projects_are_measured_and_their_data_checked(place: Path, tmp_path: Path) -> None:
    """It uses scripts. The tests of the documentation pages use the real programs."""
    project, mpi = place / "project", ("--mpi", scripted_mpi(tmp_path, MEASURES))
    for verb, more in (("run", ()), ("bench", ("--repeat", "1")), ("tune", ("--repeat", "1"))):
        code, found = run("project", verb, project, *SIZES, *more, *mpi)
        assert code == 0, found
        jsonschema.validate(found, strict(verb))
        assert [(x["collective"], x["sizes"]) for x in found["checked"]] == [("allgather", 2)]
        assert str(project) in found["inputs"]
        assert {timing["contender"] for timing in found["timings"]} == (
            {"0e", "0d"} if verb == "tune" else {str(project)}
        )
    done = CliRunner().invoke(app, ["project", "run", *map(str, (project, *SIZES, *mpi))])
    assert f"building {project} with " in done.stderr
    assert "# data of all sizes right, 2 sizes of allgather: every byte" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[3:5]] == ["4", "8"]


@pytest.mark.parametrize("group", sorted({verb.split()[0] for verb in COMMANDS}))
def test_command_line_that_cannot_be_read_is_an_error_in_json(group: str) -> None:
    verbs = [verb for verb in COMMANDS if verb.split()[0] == group]
    for verb, wrong in product(verbs, ("--no-such-option", "--json=maybe")):
        done = CliRunner().invoke(app, [*verb.split(), wrong, "--json"])
        found = json.loads(done.stdout)
        jsonschema.validate(found, strict("error"))
        assert (done.exit_code, found["error"]["exit_code"]) == (2, 2)
        assert (found["kind"], found["error"]["type"]) == ("error", "UsageError")
        assert found["error"]["message"] in done.stderr


NEEDS_NOTHING = {
    "doctor cache",
    "doctor schema",
    "doctor test",
    "synth list",
    "topo import",
    "topo list",
    "train show",
}


def test_no_arguments_at_all_are_an_error_in_json() -> None:
    for verb in sorted(set(COMMANDS) - NEEDS_NOTHING):
        code, found = run(*verb.replace("NAME", "ring").split())
        jsonschema.validate(found, strict("error"))
        assert (code, found["error"]["exit_code"]) == (2, 2), verb


@pytest.mark.parametrize(
    "words",
    [
        ["solve", "--collective", "allgahter", "--topo", "dgx1", *SIZE],
        ["doctor", "cache", "ff", "-o", "x.json"],
        ["certificate", "verify", "."],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_bad_input_is_an_error_in_json(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*words, "--json"])
    found = json.loads(done.stdout)
    jsonschema.validate(found, strict("error"))
    assert (done.exit_code, found["error"]["exit_code"]) == (2, 2)
    assert " ".join(found["error"]["message"].split()) in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("raised", "kind", "code"),
    [
        (KeyboardInterrupt(), "Interrupted", 130),
        (RuntimeError("oops"), "RuntimeError", 4),
        (OSError(28, "No space left on device"), "OSError", 4),
    ],
)
def test_failing_verb_prints_an_error_document(
    raised: BaseException, kind: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        raise raised

    monkeypatch.setattr("sccl.view.text.problem_bounds.lower_bounds", end)
    got, found = run("bound", *QUESTION)
    jsonschema.validate(found, strict("error"))
    assert (got, found["error"]["exit_code"], found["error"]["type"]) == (code, code, kind)


def test_failure_after_the_document_adds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sccl.cli.plot.draw_frontier", fail)
    code, found = run("pareto", *QUESTION, "--no-store", "--plot", tmp_path / "p.svg")
    assert (code, found["kind"]) == (4, "frontier")


def test_reader_that_leaves_is_no_error() -> None:
    code = "from sccl.cli.main import app; app()"
    for words in (["topo", "list"], ["topo", "show", "nowhere"], ["topo", "--bogus"]):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-c", code, *words, "--json"]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        assert b"Traceback" not in done.stderr
        assert done.returncode == (141 if words == ["topo", "list"] else 2)


def test_file_names_that_are_no_text_are_reported(tmp_path: Path) -> None:
    """Linux allows any bytes: they are escaped, in JSON and on terminals."""
    name = "a\udcff\x1b[31m[red]\u202e.json"
    (tmp_path / name).write_text("{}")
    done = CliRunner().invoke(app, ["check", str(tmp_path / name), "--json"])
    assert "a\\udcff\\x1b[31m[red]\\u202e.json" in "".join(done.stderr.split("\n"))
    assert "a\\udcff" in json.loads(done.stdout)["error"]["message"]
    assert "\x1b" not in done.output


def test_names_are_never_raw_on_a_terminal(tmp_path: Path) -> None:
    from sccl.core.files.algorithms import algorithm_to_wire

    wire = algorithm_to_wire(frontier("ring:4", "allgather")[0])
    plain = json.loads(to_text(wire))
    plain["topology"]["name"] = "\x1b]0;owned\x07[red]x"
    plain["collective"]["name"] += "\nall proved"
    path = tmp_path / "\x1b[31m\n.json"
    path.write_text(json.dumps(plain))
    for verb in ("check", "show"):
        done = CliRunner().invoke(app, [verb, str(path), str(path)], color=True)
        assert "\nall proved" not in done.stdout
        assert "\x1b[31m" not in done.stdout
        assert "\\x1b]0;owned\\x07[red]x" in done.stdout
        assert "\x1b]" not in done.stdout
    done = CliRunner().invoke(app, ["project", "new", str(path), "-o", str(tmp_path / "p\nq")])
    assert "p\nq" not in done.output


@pytest.mark.parametrize("kind", [*OUTPUTS, *SHAPE_NAMES])
def test_schemas_are_printed(kind: str) -> None:
    code, found = run("doctor", "schema", kind)
    assert code == 0
    jsonschema.Draft202012Validator.check_schema(found)
    assert found["$schema"].endswith("2020-12/schema")
