"""Read and write algorithms of msccl-tools: steps of sends with their collective and machine.

``steps`` has rounds and sends ``[address, src, dst]``. The collective has one chunk per address.
With c = ``instance.chunks``, address a is divided into the addresses a c, a c + 1, and so on.
Reductions add chunks of one address. A send does not record whether it adds or stores, so the
reader infers it from the receiver's content.

TACCL saves such files as well (microsoft/taccl, ``taccl/serialization.py``). Their machine consists
of nodes, a send also has its time and switch, and the rounds of a step are a time. Their collective
already has all chunks.

Source: microsoft/msccl-tools 2.3.0 (030a750), ``serialization.py``, ``collectives.py`` and
``algorithm.py`` of ``msccl``. Files of older versions have ``sccl_type``.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sccl.codegen.buffer_layout import chunk_period
from sccl.core.algorithm import Algorithm, Send, make_send
from sccl.core.collective import Collective, Relation
from sccl.core.topology import Budget, Topology
from sccl.errors import FormatError, ParameterError, TooLargeError
from sccl.formats.common.contract import ForeignPlan, FormatOptions, SizedPlan, WrittenFiles
from sccl.formats.common.transfer_lists import fewest_rounds
from sccl.formats.msccl.collective_tables import (
    MAX_RANKS,
    MAX_SENDS,
    CollectivePart,
    number_chunks,
    parse_demand,
)
from sccl.topo import importers
from sccl.topo.importers.common import taccl_nodes
from sccl.topo.importers.common.unused_fields import (
    UNUSED,
    decoded_json,
    unused_field_paths,
    unused_line,
)

NAME = "msccl-json"
ABOUT = "algorithms of msccl-tools (and of SCCL's public code), one file each; reads TACCL's too"
SOURCE = "microsoft/msccl-tools 2.3.0 (030a750), msccl/serialization.py"
TAKES = (Algorithm,)
BY_SIZE = False
MIXES = True

Options = FormatOptions
"""The format has no options."""

_READ_FIELDS = frozenset(
    {"msccl_type", "sccl_type", "name", "runtime_name", "input_map", "output_map"}
    | {"steps", "extra_rounds", "extra_memory", "allow_exchange", "ranks"}
)
"""Fields of msccl-tools' algorithms that do not change the sends."""

_TIMES = 2
"""Number of fields of a send of TACCL after its ends: time and switch."""

_RUNTIME_NAMES = {"reducescatter": "reduce_scatter"} | {
    name: name for name in ("allgather", "allreduce", "alltoall")
}
"""Runtime names of collectives in msccl-tools. All others are custom to a runtime."""


class _Instance(msgspec.Struct, frozen=True):
    chunks: Annotated[int, Meta(ge=1, le=MAX_SENDS)] = 1
    pipeline: int | None = None


class _Step(msgspec.Struct, frozen=True):
    rounds: Annotated[int, Meta(ge=1, le=2**31)]
    sends: Annotated[list[tuple[int, int, int]], Meta(max_length=MAX_SENDS)]


class _TimedStep(msgspec.Struct, frozen=True):
    """A step of TACCL: sends of ``[address, src, dst, time, switch]``."""

    rounds: float
    sends: Annotated[list[list[int | float | str | None]], Meta(max_length=MAX_SENDS)]


class _File(msgspec.Struct, frozen=True):
    instance: _Instance
    steps: Annotated[list[_Step], Meta(min_length=1, max_length=MAX_SENDS)]
    collective: CollectivePart
    topology: msgspec.Raw


class _TimedFile(msgspec.Struct, frozen=True):
    instance: _Instance
    steps: Annotated[list[_TimedStep], Meta(min_length=1, max_length=MAX_SENDS)]
    collective: CollectivePart
    topology: msgspec.Raw


def write(plans: Sequence[SizedPlan], options: FormatOptions) -> WrittenFiles:  # noqa: ARG001
    """Return a file for each plan.

    Raises:
        InputError: A send stores instead of adding, or the algorithm is too large.
    """
    files: dict[str, bytes] = {}
    notes = ["the format has no costs and no sizes, so they are not written"]
    for plan in plans:
        algorithm = plan.plan
        assert isinstance(algorithm, Algorithm)
        _check_round_trip(plan.name, algorithm)
        files[f"{plan.name}.json"] = (json.dumps(_algorithm_to_json(algorithm)) + "\n").encode()
        if lost := [
            b for b in algorithm.topology.budgets if _switch_to_json(b, algorithm.topology) is None
        ]:
            notes.append(
                f"{plan.name}: budget {lost[0].name!r} is shared by links that are no product of "
                "sources and goals, which a switch there is: it is left out"
            )
    file = "{path}" if len(plans) == 1 else "{path}/" + f"{plans[0].name}.json"
    command = f"msccl ncclize {file} -o program.xml && sccl check program.xml"
    return WrittenFiles(files, command, tuple(notes))


def sniff(content: bytes) -> bool:
    """Return whether a file has the type of an algorithm of msccl-tools."""
    if content.lstrip()[:1] != b"{":
        return False
    return bool(re.search(rb'"m?sccl_type"\s*:\s*"algorithm"', content))


def read(content: bytes, where: str) -> ForeignPlan:
    """Read the algorithm of a file.

    Raises:
        InputError: The file has no algorithm, is pipelined, or demands several values of a chunk.
    """
    taccl = taccl_nodes.is_of_taccl(content.decode(errors="replace"))
    file = _decode_file(content, where, taccl=taccl)
    text = importers.decode_text(bytes(file.topology), where)
    _, imported = importers.read_machine(text, importers.Hints("msccl"), where, "msccl-topology")
    machine, notes = imported.topology, list(imported.assumed)
    if machine.ranks != file.collective.nodes:
        raise FormatError(
            f"{where}: its collective is for {file.collective.nodes} nodes, and its topology has "
            f"{machine.ranks}: expected the same number"
        )
    wanted, chunks = parse_demand(file.collective, where), file.instance.chunks
    sent = 1 + max((address for step in file.steps for address, *_ in step.sends), default=0)
    if wanted.combining and len(wanted.moves) == 1 and sent > chunks:
        notes.append(
            f"it states {chunks} chunks and sends {sent}, like the output of 'msccl compose "
            f"allreduce': read with {sent}"
        )
        chunks = sent
    collective, numbers = number_chunks(wanted, chunks, file.collective, where)
    if (cut := len(next(iter(numbers.values())))) > 1:
        notes.append(f"each chunk is cut into {cut}: an allreduce has some for each rank")
    algorithm = _algorithm_from_file(file, machine, collective, numbers, where)
    if taccl:
        algorithm = replace(algorithm, rounds_per_step=fewest_rounds(machine, algorithm.sends))
        notes.append("rounds are the fewest for the sends of each step: the file has times instead")
    about = (
        f"an algorithm of {'TACCL' if taccl else 'msccl-tools'}: {collective.name} of "
        f"{machine.ranks} ranks, "
        f"{algorithm.steps} steps, {algorithm.num_sends} sends"
    )
    shape = _TimedFile if taccl else _File
    notes += unused_line(unused_field_paths(decoded_json(content), shape, _READ_FIELDS))
    notes += [f"topology: {line}" for line in imported.understood if line.startswith(UNUSED)]
    return ForeignPlan(algorithm, about, tuple(notes))


def _check_round_trip(name: str, algorithm: Algorithm) -> None:
    """Check that the format can represent an algorithm.

    Raises:
        InputError: It does not.
    """
    ranks = algorithm.topology.ranks
    if ranks > MAX_RANKS or max(algorithm.num_sends, algorithm.collective.num_chunks) > MAX_SENDS:
        raise TooLargeError(
            f"{name}: {ranks} ranks and {algorithm.num_sends} sends: files of msccl-tools are "
            f"written of up to {MAX_RANKS} ranks, {MAX_SENDS} chunks and as many sends"
        )
    if algorithm.collective.combining:
        _check_adds(name, algorithm)


def _check_adds(name: str, algorithm: Algorithm) -> None:
    """Check that arrivals are added, but not to a value that is sent in the same step.

    Raises:
        ParameterError: They are not.
    """
    leaves = {(row.step, row.chunk, row.src) for row in algorithm.sends}
    for row in algorithm.sends:
        if row.reduce and (row.step, row.chunk, row.dst) not in leaves:
            continue
        why = "also sends it then, which they refuse" if row.reduce else "stores it, and they add"
        raise ParameterError(
            f"{name}: in step {row.step} chunk {row.chunk} comes to rank {row.dst}, which {why}: "
            "msccl-tools run no such sums; give the reducescatter and the allgather of an allreduce"
        )


def _algorithm_to_json(algorithm: Algorithm) -> dict[str, Any]:
    collective, machine = algorithm.collective, algorithm.topology
    period = chunk_period(collective)
    chunks = collective.num_chunks // period
    steps: list[list[tuple[int, int, int]]] = [[] for _ in range(algorithm.steps)]
    for row in algorithm.sends:
        piece, address = divmod(row.chunk, period)
        steps[row.step].append((address * chunks + piece, row.src, row.dst))
    instance = {"steps": algorithm.steps, "extra_rounds": algorithm.rounds - algorithm.steps}
    parameters = f"steps={algorithm.steps},rounds={algorithm.rounds},chunks={chunks}"
    return {
        "msccl_type": "algorithm",
        "name": f"{_runtime_name(collective)}-{machine.name}-{parameters}",
        "instance": _typed_object("instance", {**instance, "chunks": chunks, **_UNUSED}),
        "input_map": _addresses(collective.pre, collective, period),
        "output_map": _addresses(collective.post, collective, period),
        "steps": [
            _typed_object("step", {"rounds": rounds, "sends": sorted(sends)})
            for rounds, sends in zip(algorithm.rounds_per_step, steps, strict=True)
        ],
        "collective": _collective_to_json(collective, period),
        "topology": _topology_to_json(machine),
    }


_UNUSED = {"pipeline": None, "extra_memory": None, "allow_exchange": False}


def _typed_object(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"msccl_type": kind, **fields}


def _addresses(relation: Relation, collective: Collective, period: int) -> dict[str, list[int]]:
    chunks = collective.num_chunks // period
    addresses: dict[int, list[int]] = defaultdict(list)
    for address in range(period):
        for rank in relation.ranks_of(address, collective.ranks):
            addresses[rank] += range(address * chunks, (address + 1) * chunks)
    return {str(rank): addresses[rank] for rank in sorted(addresses)}


def _runtime_name(collective: Collective) -> str:
    name = {"reducescatter": "ReduceScatter"}.get(collective.name, collective.name.capitalize())
    root = "" if collective.root is None else f",root={collective.root}"
    return f"{name}(n={collective.ranks}{root})"


def _collective_to_json(collective: Collective, period: int) -> dict[str, Any]:
    chunks = []
    for address in range(period):
        holders, wanted = (
            sorted(collective.holders(address)),
            sorted(collective.destinations(address)),
        )
        sources = [[rank] for rank in holders] if collective.combining else [holders]
        chunks += [
            _typed_object("chunk", {"pre": p, "post": wanted, "addr": address}) for p in sources
        ]
    return _typed_object(
        "collective",
        {
            "name": _runtime_name(collective),
            "nodes": collective.ranks,
            "chunks": chunks,
            "triggers": {},
            "runtime_name": _RUNTIME_NAMES.get(collective.name, "custom"),
        },
    )


def _topology_to_json(machine: Topology) -> dict[str, Any]:
    links = [[0] * machine.ranks for _ in range(machine.ranks)]
    for (src, dst), lanes in machine.lanes().items():
        links[dst][src] = lanes
    switches = [
        switch for b in machine.budgets if (switch := _switch_to_json(b, machine)) is not None
    ]
    return _typed_object("topology", {"name": machine.name, "switches": switches, "links": links})


def _switch_to_json(budget: Budget, machine: Topology) -> list[Any] | None:
    """Return a shared budget as a switch, None if it omits links between its ends."""
    sources, goals = (sorted({edge[end] for edge in budget.edges}) for end in (0, 1))
    linked = {(src, dst) for src, dst in machine.edges if src in sources and dst in goals}
    if linked != set(budget.edges):
        return None
    return [sources, goals, budget.chunks_per_round, budget.name]


def _decode_file(content: bytes, where: str, *, taccl: bool) -> _File:
    """Decode a file. TACCL's files lose their times, and get the chunks of their collective.

    Raises:
        FormatError: The file has no algorithm, or has features that sccl does not support.
    """
    try:
        if taccl:
            file = _without_times(msgspec.json.decode(content, type=_TimedFile), where)
        else:
            file = msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FormatError(f"{where}: no algorithm of msccl-tools: {str(error)[:200]}") from error
    if file.instance.pipeline is not None:
        raise FormatError(
            f"{where}: it is pipelined (a new one begins every {file.instance.pipeline} steps), "
            "which algorithms of sccl are not: make one without --pipeline"
        )
    if file.collective.triggers:
        raise FormatError(
            f"{where}: chunks of its collective appear when others arrive (triggers), which is "
            "part of a larger algorithm: give that"
        )
    return file


def _without_times(file: _TimedFile, where: str) -> _File:
    """Convert an algorithm of TACCL to one of msccl-tools, with one round per step.

    Raises:
        FormatError: A send does not copy.
    """
    steps = []
    for number, step in enumerate(file.steps):
        sends: list[tuple[int, int, int]] = []
        for send in step.sends:
            match send:
                case [int(address), int(src), int(dst), *more] if len(more) <= _TIMES:
                    sends.append((address, src, dst))
                case [_, _, _, _, _, _]:
                    raise FormatError(
                        f"{where}: step {number} has sends that reduce, which are not read: give "
                        "the XML that 'taccl ncclize' made of the algorithm"
                    )
                case _:
                    raise FormatError(
                        f"{where}: step {number} has a send of {len(send)} fields, expected "
                        "[address, src, dst, time, switch]"
                    )
        steps.append(_Step(1, sends))
    return _File(
        msgspec.structs.replace(file.instance, chunks=1), steps, file.collective, file.topology
    )


def _algorithm_from_file(
    file: _File,
    machine: Topology,
    collective: Collective,
    numbers: Mapping[int, Sequence[int]],
    where: str,
) -> Algorithm:
    """Return the algorithm of a file's sends.

    Raises:
        InputError: An address or a node does not exist, or there are too many chunks.
    """
    held: dict[tuple[int, int], int] = {}
    sends: list[Send] = []
    cut = len(next(iter(numbers.values())))
    if cut * sum(len(step.sends) for step in file.steps) > MAX_SENDS:
        raise TooLargeError(f"{where}: more than {MAX_SENDS} sends, which are read at most")
    for number, step in enumerate(file.steps):
        rows = []
        for address, src, dst in sorted(step.sends):
            if address not in numbers or not 0 <= min(src, dst) <= max(src, dst) < machine.ranks:
                raise FormatError(
                    f"{where}: step {number} sends address {address} from {src} to {dst}, expected "
                    f"one of {len(numbers)} addresses, and nodes from 0 to {machine.ranks - 1}"
                )
            rows += [(chunk, src, dst) for chunk in numbers[address]]
        sends += _file_sends(rows, number, collective, held)
    rounds = tuple(step.rounds * cut for step in file.steps)
    return Algorithm(machine, collective, rounds, tuple(sends))


def _file_sends(
    rows: list[tuple[int, int, int]],
    step: int,
    collective: Collective,
    held: dict[tuple[int, int], int],
) -> Iterator[Send]:
    """Yield the sends of a step. A sum is stored if it contains all the receiver's contributions.

    Args:
        held: Contributors by (chunk, rank), as bits. The function updates it to the end of the
            step.
    """
    if not collective.combining:
        yield from (make_send(chunk, src, dst, step) for chunk, src, dst in rows)
        return
    after: dict[tuple[int, int], int] = {}
    for chunk, src, dst in rows:
        sent, present = (_contributions(chunk, rank, collective, held) for rank in (src, dst))
        present = after.get((chunk, dst), present)
        stores = bool(present) and present & sent == present
        yield make_send(chunk, src, dst, step, reduce=not stores)
        after[chunk, dst] = present | sent
    held |= after


def _contributions(
    chunk: int, rank: int, collective: Collective, held: Mapping[tuple[int, int], int]
) -> int:
    """Return the contributors to a rank's value of a chunk, as bits."""
    initial = (1 << rank) if rank in collective.holders(chunk) else 0
    return held.get((chunk, rank), initial)
