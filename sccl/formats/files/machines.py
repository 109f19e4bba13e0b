"""``sccl topo import``: convert a machine description of another tool."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from sccl.core.files.disk import open_for_reading, read_nonblank, read_text
from sccl.core.files.json_text import parse
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FileText, NetworkWire, NonNegative, TopologyWire
from sccl.core.files.topologies import topology_to_wire
from sccl.core.topology import check_cost
from sccl.errors import FormatError, ParameterError, TooLargeError
from sccl.topo import importers
from sccl.topo.chassis_network import NetworkCards, describe_join, join_chassis
from sccl.topo.importers import MAX_BYTES, Hints, Imported
from sccl.topo.measures import unreachable_pair


class TopoImportOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo import'."""

    kind: Literal["topo-import"] = "topo-import"
    format: Annotated[str, "Format of the file: one of 'sccl topo import --help'."]
    understood: Annotated[tuple[str, ...], "Content of the file."]
    assumed: Annotated[tuple[str, ...], "Assumed values that the file lacks, with their sources."]
    ranks: NonNegative
    links: NonNegative
    unreachable: Annotated[tuple[int, int] | None, "Two ranks with no path between them, if any."]
    file: Annotated[FileText | None, "Written file, if any."]
    topology: Annotated[TopologyWire, "The machine, in the format of its file."]


@dataclass(frozen=True, slots=True)
class ImportedMachine:
    """The machine in a file."""

    format: str
    about: str
    imported: Imported


def read_machine(
    file: Path, format_name: str, name: str | None, gpu: str | None, alpha_us: float | None
) -> ImportedMachine:
    """Read the machine in a file, or in standard input if ``file`` is ``-``.

    Args:
        name: Name of the machine if the file has none. None: the file name.
        gpu: GPU model for link speeds that the file does not state.
        alpha_us: Latency of links that the file does not state, microseconds.

    Raises:
        InputError: The file cannot be read, is too large, or contains no machine.
    """
    stdin = str(file) == "-"
    where = "standard input" if stdin else str(file)
    if stdin:
        content = read_nonblank(sys.stdin.buffer, MAX_BYTES, where)
    else:
        with open_for_reading(file) as stream:
            content = read_nonblank(stream, MAX_BYTES, where)
    if len(content) > MAX_BYTES:
        raise TooLargeError(
            f"{where} is longer than {MAX_BYTES >> 20} MiB, the limit for descriptions of "
            "machines: check the path"
        )
    hints = Hints(name or ("imported" if stdin else file.stem or "imported"), gpu, alpha_us)
    text = importers.decode_text(content, where)
    if format_name == "auto":
        _reject_other_files(content, text, where)
    importer, imported = importers.read_machine(text, hints, where, format_name)
    return ImportedMachine(importer.NAME, importer.ABOUT, imported)


def _reject_other_files(content: bytes, text: str, where: str) -> None:
    """Reject a file of another known kind.

    Raises:
        FormatError: The file has one.
    """
    if not text.strip():
        raise FormatError(f"{where}: it is empty, expected a description of a machine")
    if not any(importers.load_importer(name).sniff(text) for name in importers.importer_names()):
        from sccl import formats  # noqa: PLC0415 - where one is met

        if plan := formats.detect_format(content):
            raise FormatError(
                f"{where}: it is a plan ({plan.NAME}), not a machine: verify it with 'sccl check "
                f"{where}', or convert it to an algorithm with 'sccl import'"
            )


def join_by_network(
    read: ImportedMachine, chassis: int | None, network: Path | None
) -> ImportedMachine:
    """Return the machine, or several copies of it joined by a network.

    Raises:
        InputError: Only one of the two arguments is given, or the network does not fit this
            machine.
    """
    if chassis is None and network is None:
        return read
    if chassis is None or network is None:
        raise ParameterError(
            "--nodes and --network belong together: the number of nodes, and the network "
            "between them (its shape: 'sccl doctor schema network')"
        )
    wire = parse(read_text(network), NetworkWire, str(network))
    imported = read.imported
    cards, assumed = _network_cards(wire, imported, str(network))
    machine = join_chassis(imported.topology, chassis, wire.joining, cards)
    line = describe_join(chassis, wire.joining, cards)
    more = replace(
        imported,
        topology=machine,
        understood=(*imported.understood, line),
        assumed=(*imported.assumed, *assumed),
        nics=(),
    )
    return replace(read, imported=more)


def _network_cards(
    wire: NetworkWire, imported: Imported, where: str
) -> tuple[NetworkCards, tuple[str, ...]]:
    """Return the network cards of a machine, and the assumptions about them."""
    ranks, assumed = imported.topology.ranks, list[str]()
    if isinstance(wire.nics, tuple):
        users = wire.nics
    elif wire.nics is not None:
        users = _assign_nics(ranks, wire.nics, where)
    elif imported.nics:
        users = tuple(nic.ranks for nic in imported.nics if nic.ranks)
    else:
        users = tuple((rank,) for rank in range(ranks))
        assumed.append(f"one NIC per GPU; 'nics' of {where} overrides it")
    speed = _network_value(
        wire.gb_per_s, [n.gb_per_s for n in imported.nics], f"{where}: give 'gb_per_s'"
    )
    alpha_us = _network_value(
        wire.alpha_us, [n.alpha_us for n in imported.nics], f"{where}: give 'alpha_us'"
    )
    check_cost(f"{where}: ", alpha_us, speed, error=FormatError)
    return NetworkCards(users, speed, alpha_us), tuple(assumed)


def _network_value(stated: float | None, nic_values: list[float | None], advice: str) -> float:
    """Return a stated value of the network, or else the common value of all NICs.

    Raises:
        FormatError: There is neither.
    """
    if stated is not None:
        return stated
    values = [value for value in nic_values if value is not None]
    if not values or set(nic_values) != {values[0]}:
        why = "which differs by NIC there" if values else "which the machine's file does not have"
        raise FormatError(f"{advice}, {why}")
    return values[0]


def _assign_nics(ranks: int, nics: int, where: str) -> tuple[tuple[int, ...], ...]:
    """Assign GPUs to NICs: equally many GPUs per NIC, or equally many NICs per GPU."""
    if ranks % nics and nics % ranks:
        raise FormatError(
            f"{where}: {nics} NICs for {ranks} GPUs cannot be divided evenly: list the GPUs of "
            "each NIC, as in [[0, 1], [2]]"
        )
    each = max(1, ranks // nics)
    firsts = (i * ranks // nics // each * each for i in range(nics))
    return tuple(tuple(range(first, first + each)) for first in firsts)


def import_output(read: ImportedMachine, file: Path | None) -> TopoImportOutput:
    """Return the JSON output."""
    topology = read.imported.topology
    return build_output(
        TopoImportOutput,
        read.imported,
        inputs=question_digests(topology),
        format=read.format,
        ranks=topology.ranks,
        links=len(topology.links),
        unreachable=unreachable_pair(topology),
        file=file,
        topology=topology_to_wire(topology),
    )
