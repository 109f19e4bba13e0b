"""Convert sketches from files and back."""

from __future__ import annotations

import re
from pathlib import Path

from sccl.core.files.disk import read_text
from sccl.core.files.json_text import parse
from sccl.errors import FormatError, ParameterError
from sccl.synth.sketches.sketch import (
    Hyperedge,
    HyperedgePolicy,
    RelayPattern,
    RelayRules,
    Rotation,
    Sketch,
)
from sccl.synth.sketches.sketch_shapes import (
    HyperparametersWire,
    InternodeWire,
    IntranodeWire,
    SketchWire,
)

_SIZE = re.compile(r"([0-9]{1,19})\s*(|[KMGT]i?)B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def load_sketch(path: Path) -> Sketch:
    """Load a sketch, TACCL's or sccl's, from a file.

    Raises:
        InputError: The file cannot be read, is no sketch, or is inconsistent.
    """
    return sketch_from_text(read_text(path), str(path))


def sketch_from_text(text: str, where: str) -> Sketch:
    """Return the sketch in a JSON text.

    Args:
        where: name in messages: its file.

    Raises:
        FormatError: it has another form, or is inconsistent.
    """
    return sketch_from_wire(parse(text, SketchWire, where), where)


def sketch_from_wire(wire: SketchWire, where: str = "sketch") -> Sketch:
    """Return the sketch of a file shape.

    Args:
        where: name in messages, if the shape has none.

    Raises:
        FormatError: it is inconsistent.
    """
    try:
        intra, size = wire.intranode_sketch, wire.hyperparameters.input_size
        return Sketch(
            name=wire.name or Path(where).stem or where,
            nodes=wire.nnodes,
            chunks=wire.hyperparameters.input_chunkup,
            size_bytes=None if size is None else _parse_bytes(size),
            intranode_links=None
            if intra.intranode_conn is None
            else _pairs("intranode_conn", intra.intranode_conn),
            hyperedges=_hyperedges(intra),
            relays=None if wire.internode_sketch is None else _relays(wire.internode_sketch),
            rotations=tuple(Rotation(*pair) for pair in wire.symmetry_offsets),
        )
    except ParameterError as error:
        raise FormatError(f"{where}: {error}") from error


def _parse_bytes(size: str | int) -> int:
    """Parse a size in bytes from a text or a number.

    Raises:
        ParameterError: It is invalid.
    """
    match = _SIZE.fullmatch(str(size).strip())
    if not match or not int(match[1]):
        raise ParameterError(f"input_size is {size!r}, expected bytes: a number, 1M, 64KB or 1GiB")
    unit = match[2].upper()
    base = 1024 if unit.endswith("I") else 1000
    return int(match[1]) * int(base ** _POWERS[unit[:1]])


def _pairs(entry: str, conn: dict[str, tuple[int, ...]]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple(
        sorted((_parse_number(entry, key), tuple(sorted(set(to)))) for key, to in conn.items())
    )


def _parse_number(entry: str, key: str) -> int:
    """Parse the number of a rank from a key.

    Raises:
        ParameterError: It is invalid.
    """
    if not re.fullmatch(r"0|[1-9][0-9]{0,4}", key):
        raise ParameterError(
            f'{entry}[{key[:40]!r}]: expected the number of a rank within its node, such as "0"'
        )
    return int(key)


def _hyperedges(wire: IntranodeWire) -> tuple[Hyperedge, ...]:
    switches, policies = wire.switches, wire.switch_hyperedge_strategy
    if wire.strategy == "none" and switches:
        raise ParameterError(
            "intranode_sketch has strategy none and switches: leave these out, or give strategy "
            "switch"
        )
    if len(policies) != len(switches):
        raise ParameterError(
            f"switch_hyperedge_strategy has {len(policies)} entries, expected {len(switches)}: one "
            "for each of intranode_sketch.switches"
        )
    pairs = zip(switches, policies, strict=True)
    return tuple(Hyperedge(local, HyperedgePolicy(policy)) for local, policy in pairs)


def _relays(wire: InternodeWire) -> RelayRules:
    conn, shares = wire.internode_conn, wire.beta_split or {}
    return RelayRules(
        connections=RelayPattern(conn) if isinstance(conn, str) else _pairs("internode_conn", conn),
        leaves_by=_pairs("gpus_to_sender_rev_map", wire.gpus_to_sender_rev_map or {}),
        relay_map=wire.chunk_to_relay_map,
        shares=tuple(
            sorted((_parse_number("beta_split", n), share) for n, share in shares.items())
        ),
        local_first=wire.enforce_ordering,
    )


def sketch_to_wire(sketch: Sketch) -> SketchWire:
    """Return the file shape of a sketch."""
    relays, edges = sketch.relays, sketch.hyperedges
    internode = None
    if relays is not None:
        conn = relays.connections
        internode = InternodeWire(
            strategy="relay",
            internode_conn=conn.value if isinstance(conn, RelayPattern) else _conn(conn),
            gpus_to_sender_rev_map=_conn(relays.leaves_by) or None,
            chunk_to_relay_map=relays.relay_map,
            beta_split={str(n): share for n, share in relays.shares} or None,
            enforce_ordering=relays.local_first,
        )
    return SketchWire(
        name=sketch.name,
        nnodes=sketch.nodes,
        intranode_sketch=IntranodeWire(
            strategy="switch" if edges else "none",
            switches=tuple(edge.local for edge in edges),
            switch_hyperedge_strategy=tuple(edge.policy.value for edge in edges),
            intranode_conn=None
            if sketch.intranode_links is None
            else _conn(sketch.intranode_links),
        ),
        internode_sketch=internode,
        symmetry_offsets=tuple((rotation.offset, rotation.size) for rotation in sketch.rotations),
        hyperparameters=HyperparametersWire(
            input_chunkup=sketch.chunks, input_size=sketch.size_bytes
        ),
    )


def _conn(pairs: tuple[tuple[int, tuple[int, ...]], ...]) -> dict[str, tuple[int, ...]]:
    return {str(number): to for number, to in pairs}
