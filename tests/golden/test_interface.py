"""The command line as scripts and people see it: help, JSON schemas, and ``--json`` documents."""

from __future__ import annotations

from inspect import cleandoc
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from tests.golden.records import (
    Net,
    blank,
    no_differences,
    schemas_differ,
    shapes_differ,
    stable,
)
from tests.kit.commands import COMMANDS
from tests.kit.documents import CASES, make_inputs, run

HELPS = sorted({name for full in COMMANDS for name in accumulate(full.split(), "{} {}".format)})
LISTING = run("doctor", "schema")[1]["kinds"]
KINDS = [row["kind"] for row in LISTING]


@pytest.mark.parametrize("name", HELPS)
def test_help_equals_record(name: str, net: Net) -> None:
    words = [*name.split()[1:], "--help"]
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, words)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    net.check("help", name, [line for line in lines if line], by_value=no_differences)


@pytest.mark.parametrize("kind", KINDS)
def test_schema_equals_record(kind: str, net: Net) -> None:
    _, schema = run("doctor", "schema", kind)
    net.check("schemas", kind, anonymous(schema), by_value=schemas_differ)


def anonymous(schema: dict[str, Any]) -> Any:
    """Return a schema whose definitions have numbers in place of the names of classes.

    Numbers follow the order of first use, so a class may change its name and its place.
    """
    definitions = schema.get("$defs", {})
    numbers: dict[str, int] = {}
    waiting: list[str] = []

    def renamed(part: Any) -> Any:
        if isinstance(part, list):
            return [renamed(row) for row in part]
        if isinstance(part, str):
            return cleandoc(part)  # releases of msgspec differ in the indentation of docstrings
        if not isinstance(part, dict):
            return part
        if "$ref" in part and isinstance(part["$ref"], str):
            name = part["$ref"].rpartition("/")[2]
            if name not in numbers:
                numbers[name] = len(numbers) + 1
                waiting.append(name)
            return part | {"$ref": numbers[name]}
        titled = "type" in part and isinstance(part.get("title"), str)
        return {k: renamed(v) for k, v in part.items() if not (titled and k == "title")}

    whole = renamed({key: value for key, value in schema.items() if key != "$defs"})
    described = {}
    for name in waiting:  # grows while it is walked
        described[str(numbers[name])] = renamed(definitions[name])
    return whole | {"$defs": described}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the inputs of all verbs."""
    return make_inputs(tmp_path_factory.mktemp("json"))


SHAPES_ONLY = {"doctor test", "train run"}
"""Verbs whose values depend on the machine."""


@pytest.mark.parametrize("verb", CASES)
def test_document_equals_record(verb: str, net: Net, inputs: Path) -> None:
    code, document = run(*verb.split(), *CASES[verb][1](inputs))
    record = stable({"exit_code": int(code), "document": document}, inputs)
    if verb in SHAPES_ONLY:
        record = blank(record)
    net.check("documents", verb, record, by_value=shapes_differ, exact=verb not in SHAPES_ONLY)


@pytest.mark.parametrize(
    ("area", "cases"), [("help", HELPS), ("schemas", KINDS), ("documents", list(CASES))]
)
def test_records_have_no_other_cases(area: str, cases: list[str], net: Net) -> None:
    net.check_cases(area, cases)
