"""References of file formats and of printed outputs, generated from their schemas."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

from docs.made.markdown import cell, escape
from sccl.api.schemas import OUTPUTS, output_type
from sccl.core.files.kinds import json_schema, published_shapes
from sccl.core.files.outputs import output_schema


def summary() -> str:
    """Return a table of the kinds of files."""
    return _kinds({kind: json_schema(wire) for kind, wire in published_shapes().items()})


def outputs_summary() -> str:
    """Return a table of the kinds of printed outputs."""
    return _kinds({kind: output_schema(output_type(kind)) for kind in OUTPUTS})


def _kinds(schemas: dict[str, dict[str, Any]]) -> str:
    rows = ["| kind | content |", "|---|---|"]
    for kind, schema in schemas.items():
        description = schema["$defs"][schema["$ref"].rsplit("/", 1)[-1]].get("description", "")
        rows.append(f"| `{kind}` | {cell(inspect.cleandoc(description).split(chr(10) * 2)[0])} |")
    return "\n".join(rows)


def full() -> str:
    """Return a section for each kind of file, from the schema that validates it."""
    sections = (_shape(kind, json_schema(wire)) for kind, wire in published_shapes().items())
    return "\n\n".join(text for texts in sections for text in texts)


def outputs() -> str:
    """Return a section for each kind of printed output, from its schema."""
    sections = (_shape(kind, output_schema(output_type(kind))) for kind in OUTPUTS)
    return "\n\n".join(text for texts in sections for text in texts)


def _shape(kind: str, schema: dict[str, Any]) -> Iterator[str]:
    shapes = schema["$defs"]
    top = schema["$ref"].rsplit("/", 1)[-1]
    yield f"## {kind}"
    for name in [top, *sorted(set(shapes) - {top})]:
        shape = shapes[name]
        if name != top:
            yield f"**{_plain(name)}**"
        # Releases of msgspec differ in whether they remove the indentation of docstrings.
        yield escape(inspect.cleandoc(shape.get("description", "")))
        if "prefixItems" in shape:
            yield cell(_type(shape))
            continue
        rows = [
            f"| `{field}` | {cell(_type(value))} | "
            f"{'yes' if field in shape.get('required', ()) else ''} | "
            f"{cell(value.get('description', ''))} |"
            for field, value in shape["properties"].items()
        ]
        yield "\n".join(["| field | value | required | |", "|---|---|---|---|", *rows])


def _plain(name: str) -> str:
    return name.removesuffix("Wire").removesuffix("Part").removesuffix("Output")


def _type(value: dict[str, Any]) -> str:
    """Return the type of a field, in words and numbers."""
    if "$ref" in value:
        return _plain(value["$ref"].rsplit("/", 1)[-1])
    if "anyOf" in value:
        return " or ".join(_type(option) for option in value["anyOf"])
    if "enum" in value:
        return " or ".join(json.dumps(option) for option in value["enum"])
    if value.get("type") == "array":
        inner = value.get("prefixItems") or [value["items"]]
        shown = ", ".join(_type(option) for option in inner)
        return f"[{shown}]" if "prefixItems" in value else f"list of {shown}"
    if isinstance(value.get("additionalProperties"), dict):
        return f"object of {_type(value['additionalProperties'])}"
    minimum = f" >= {value['minimum']}" if "minimum" in value else ""
    return f"{value.get('type', 'anything')}{minimum}"
