"""The shape of a project's ``program.json``: its algorithms, with the program of every rank."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.core.files.shapes import NonNegative, Positive

_Slot = Annotated[str, Meta(pattern=r"^(input|output|scratch):[0-9]+$")]
_Letter = Annotated[str, Meta(pattern="^[adep]$")]
_Op = Literal["send", "recv", "recv_reduce", "recv_reduce_send", "reduce", "copy", "credit"]


class InstructionRow(msgspec.Struct, frozen=True, array_like=True):
    """An instruction as a row of its fields."""

    op: _Op
    step: NonNegative
    chunk: NonNegative
    peer: NonNegative | None
    src: _Slot | None
    other: _Slot | None
    dst: _Slot | None
    flag: NonNegative | None
    credit: NonNegative | None
    after: tuple[tuple[NonNegative, NonNegative], ...]
    next_peer: NonNegative | None = None
    next_flag: NonNegative | None = None
    arrivals: tuple[tuple[NonNegative, NonNegative, _Slot], ...] = ()


FIELDS = InstructionRow.__struct_fields__
"""The fields in a row of instructions."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class BlockWire(_Wire, frozen=True, kw_only=True):
    """A thread block, which runs its instructions in order."""

    send_peer: NonNegative | None
    recv_peer: NonNegative | None
    instructions: Annotated[
        tuple[InstructionRow, ...], "Instructions, one row each, with the columns of 'fields'."
    ]


class RankProgramWire(_Wire, frozen=True, kw_only=True):
    """The program of one rank."""

    scratch_slots: Annotated[
        NonNegative, "Number of scratch slots, each of the size of the largest chunk."
    ]
    flags: Annotated[NonNegative, "Number of flags that other ranks set here."]
    saves: Annotated[
        tuple[NonNegative, ...], "Input slots that are saved first if the call is in place."
    ]
    blocks: tuple[BlockWire, ...]


class ProgramWire(_Wire, frozen=True, kw_only=True):
    """A lowered algorithm."""

    steps: Positive
    landing: Annotated[Literal["output", "scratch"], "Memory that receives data for the output."]
    parts: Annotated[Positive, "Slots of each block of input and output."]
    scratch_slots: Annotated[NonNegative, "Largest number of scratch slots of a rank."]
    flags: Annotated[NonNegative, "Largest number of flags of a rank."]
    fields: Annotated[tuple[str, ...], "Columns of a row of instructions."] = FIELDS
    ranks: tuple[RankProgramWire, ...]


class LinkRow(msgspec.Struct, frozen=True, array_like=True):
    """A link that an algorithm may use."""

    src: NonNegative
    dst: NonNegative
    lanes: Positive


class LoweredWire(_Wire, frozen=True, kw_only=True):
    """An algorithm and its two programs."""

    label: str
    topology: str
    collective: str
    chunks: Positive
    rounds: Positive
    root: NonNegative | None
    digest: Annotated[str | UnsetType, "Digest of the algorithm's file."] = UNSET
    links: Annotated[
        tuple[LinkRow, ...] | UnsetType, "Links of its topology, as [src, dst, lanes]."
    ] = UNSET
    eager: Annotated[
        ProgramWire, "Program that starts without a handshake: data arrive in scratch memory."
    ]
    direct: Annotated[ProgramWire, "Program that writes into the output directly: one copy."]


class CollectiveProgramsWire(_Wire, frozen=True, kw_only=True):
    """The algorithms of one collective, among which the size of a call chooses."""

    identifier: Annotated[str, Meta(pattern="^[a-z0-9_]+$"), "Name of its function in C."]
    algorithms: tuple[LoweredWire, ...]


class ProjectWire(_Wire, frozen=True, kw_only=True):
    """The algorithms of a project that 'sccl project new' wrote, lowered to programs."""

    schema: Annotated[Literal[1], "Version of this format."] = 1
    kind: Literal["program"] = "program"
    target: str
    ranks: Annotated[int, Meta(ge=2)]
    selection: Annotated[
        str, "Switch points: each program with its smallest size in bytes, as in SCCL_SELECT."
    ]
    protocols: Annotated[
        tuple[tuple[_Letter, NonNegative], ...] | UnsetType,
        "Programs that the cost model selects (letters as in 'selection'), each with its smallest "
        "part in bytes.",
    ] = UNSET
    collectives: tuple[CollectiveProgramsWire, ...]

    def with_selection(self, selection: str) -> ProjectWire:
        """Return it with another selection."""
        return msgspec.structs.replace(self, selection=selection)


def project_text(wire: ProjectWire) -> str:
    """Return JSON text on one line, since such files are long and only programs read them."""
    return json.dumps(msgspec.to_builtins(wire), separators=(",", ":")) + "\n"
