"""Machines: those of the catalogue, and those made of others, as data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import Count, FileText, Part
from sccl.core.topology import Topology
from sccl.topo import topology_makers
from sccl.topo.measures import unreachable_pair


class MachinePart(Part, frozen=True, kw_only=True):
    """A machine of the catalogue."""

    name: str
    ranks: Count
    source: str


class GeneratorPart(Part, frozen=True, kw_only=True):
    """A family of machines."""

    name: str
    arguments: str
    example: str


class TopoListOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo list'."""

    kind: Literal["topo-list"] = "topo-list"
    machines: tuple[MachinePart, ...]
    generators: tuple[GeneratorPart, ...]


class ChangedOutput(Output, frozen=True, kw_only=True):
    """A machine that was made of another, and written."""

    file: FileText
    name: str
    ranks: Count
    links: Count
    labels: Annotated[tuple[str, ...], Meta(description="Previous name of each rank.")]
    unreachable: Annotated[
        tuple[int, int] | None, Meta(description="Two ranks with no path between them, if any.")
    ]


class TopoWithOutput(ChangedOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo edit'."""

    kind: Literal["topo-with"] = "topo-with"


class TopoWithoutOutput(ChangedOutput, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo edit'."""

    kind: Literal["topo-without"] = "topo-without"


def list_output(machines: Iterable[Topology]) -> TopoListOutput:
    """Return machines, and the generators."""
    return build_output(TopoListOutput, inputs={}, machines=machines, generators=topology_makers())


def changed_output(
    kind: type[TopoWithOutput | TopoWithoutOutput], before: Topology, after: Topology, file: Path
) -> ChangedOutput:
    """Return the JSON output."""
    return build_output(
        kind,
        after,
        inputs=question_digests(before),
        file=file,
        links=len(after.links),
        labels=map(after.label, range(after.ranks)),
        unreachable=unreachable_pair(after),
    )
