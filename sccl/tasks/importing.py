"""``sccl topo import``: a machine from a file of somebody else."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.disk import reading, write_atomically
from sccl.core.files.fields import Count, FileText
from sccl.core.files.shapes import TopologyWire
from sccl.core.files.text import text_of
from sccl.core.files.topologies import topology_to_wire
from sccl.errors import TooLargeError
from sccl.tasks.outputs import Output, question_digests
from sccl.topo import importers, measure
from sccl.topo.importers import MAX_BYTES, Hints, Imported


class TopoImportOutput(Output, frozen=True, kw_only=True):
    """What 'sccl topo import' read, and may have written."""

    kind: Literal["topo-import"] = "topo-import"
    format: Annotated[str, Meta(description="Of the file: one of 'sccl topo import --help'.")]
    understood: Annotated[tuple[str, ...], Meta(description="What the file says.")]
    assumed: Annotated[
        tuple[str, ...], Meta(description="What it does not say, and where that is from.")
    ]
    ranks: Count
    links: Count
    unreachable: Annotated[
        tuple[int, int] | None, Meta(description="Two ranks with no path between them, if any.")
    ]
    file: Annotated[FileText | None, Meta(description="That was written, if any.")]
    topology: Annotated[TopologyWire, Meta(description="The machine, as its file has it.")]


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of a file.

    Attributes:
        about: whose format it is, in words.
        format: its name.
    """

    format: str
    about: str
    imported: Imported


def read_machine(
    file: Path, format_name: str, name: str | None, gpu: str | None, alpha_us: float | None
) -> Read:
    """Return the machine that a file describes, or standard input where it is ``-``.

    Args:
        name: of the machine, where the file has none; None: that of the file.
        gpu: whose speeds its links have, where the file does not say.
        alpha_us: latency of its links, where the file does not say.

    Raises:
        InputError: the file cannot be read, is too long, or describes none.
    """
    stdin = str(file) == "-"
    where = "standard input" if stdin else str(file)
    if stdin:
        content = sys.stdin.buffer.read(MAX_BYTES + 1)
    else:
        with reading(file) as stream:
            content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise TooLargeError(
            f"{where} is longer than the {MAX_BYTES >> 20} MiB that descriptions of machines are "
            "read to: check the path"
        )
    hints = Hints(name or ("imported" if stdin else file.stem or "imported"), gpu, alpha_us)
    text = importers.text_of_bytes(content, where)
    importer, imported = importers.read(text, hints, where, format_name)
    return Read(importer.NAME, importer.ABOUT, imported)


def import_output(read: Read, file: Path | None) -> TopoImportOutput:
    """Return what was read, with the file that it was written to."""
    topology = read.imported.topology
    return TopoImportOutput(
        inputs=question_digests(topology),
        format=read.format,
        understood=read.imported.understood,
        assumed=read.imported.assumed,
        ranks=topology.ranks,
        links=len(topology.links),
        unreachable=measure(topology).unreachable,
        file=None if file is None else str(file),
        topology=topology_to_wire(topology),
    )


def write_machine(read: Read, file: Path) -> None:
    """Write the machine that was read.

    Raises:
        InputError: the file cannot be written.
    """
    write_atomically(file, text_of(topology_to_wire(read.imported.topology)))
