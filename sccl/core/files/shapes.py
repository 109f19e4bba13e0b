"""The shapes of sccl's JSON files, from which reading, checking and the JSON Schemas derive.

Only codecs use these. All other code uses the core data types. Descriptions of fields are part of
the schemas. Numbers used in computations have size limits, so that they cannot stall a reader.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.core.topology import BusIds
from sccl.errors import ParameterError

FileText = Annotated[str, Meta(description="A path, as passed on the command line.")]
FractionText = Annotated[
    str, Meta(pattern="^[0-9]+(/[0-9]+)?$", description="A fraction such as 7/6.")
]
NonNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[
    float, Meta(ge=0, description="Seconds; absent in files, so that files are reproducible.")
]

_MAX_STEPS = 1_000_000
_MAX_DIGITS = 4_000  # of a price: Python reads no more than 4,300 in a number
_COST = re.compile(r"[1-9][0-9]{0,14}(/[1-9][0-9]{0,14})?")

_Version = Annotated[Literal[1], Meta(description="Version of this format.")]
_Digest = Annotated[
    str,
    Meta(description="sha256 of the content without this field; optional in files made by hand."),
]
_EdgeWire = Annotated[
    tuple[NonNegative, NonNegative], Meta(description="A directed edge as [src, dst].")
]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an output."""


def seconds_to_wire(seconds: float | None) -> float | UnsetType:
    """Return seconds rounded to milliseconds, UNSET if unknown."""
    return UNSET if seconds is None else round(seconds, 3)


def seconds_from_wire(seconds: float | UnsetType) -> float | None:
    """Return the seconds of a file, None if missing."""
    return None if seconds is UNSET else seconds


def check_steps(steps: int) -> int:
    """Return a number of steps after checking its range.

    Raises:
        ParameterError: It is less than 1, or too large.
    """
    if not 1 <= steps <= _MAX_STEPS:
        raise ParameterError(f"steps is {steps}, expected 1 to {_MAX_STEPS}")
    return steps


def cost_from_text(text: str) -> Fraction:
    """Parse an R/C with a limited number of digits, since longer numbers slow computations.

    Raises:
        ParameterError: It has too many digits, or is no positive fraction.
    """
    if not _COST.fullmatch(text):
        raise ParameterError(f"R/C is {text!r:.40}, expected a fraction such as 7/6")
    return Fraction(text)


def fraction_from_text(text: str) -> Fraction:
    """Parse a price, a weight or a number of rounds, which may have many digits.

    Args:
        text: Text in the form of ``FractionText``.

    Raises:
        ParameterError: It is too long, or its denominator is 0.
    """
    top, _, bottom = text.partition("/")
    if len(text) > _MAX_DIGITS or (bottom and not bottom.strip("0")):
        raise ParameterError(f"a price is {text!r:.40}, expected a fraction such as 7/6")
    return Fraction(int(top), int(bottom or 1))


# --- shapes of files -----------------------------------------------------------------------------


class _Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class LinkWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A link, in one direction or (with both_ways) in both."""

    src: Annotated[NonNegative, "Node that sends."]
    dst: Annotated[NonNegative, "Node that receives."]
    lanes: Annotated[int, Meta(ge=1), "Chunks per round."] = 1
    both_ways: Annotated[
        bool, "Whether the link also leads from dst to src, with the same lanes."
    ] = False
    alpha_us: Annotated[float | None, "Latency, microseconds; default: the topology's."] = None
    gb_per_s: Annotated[float | None, "Bandwidth of one lane, GB/s; default: the topology's."] = (
        None
    )


class BudgetWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A bandwidth budget that several edges share: a bus, or a node's egress or ingress."""

    name: Annotated[str, Meta(min_length=1)]
    edges: Annotated[tuple[_EdgeWire, ...], Meta(min_length=1)]
    chunks_per_round: Annotated[int, Meta(ge=1), "Chunks per round of all these edges together."]
    gb_per_s: Annotated[
        float | None,
        "Bandwidth of its lanes, GB/s; default: that of its links, or of the topology if its links "
        "differ.",
    ] = None


class SwitchWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A switch that does more than forward. One that only forwards is written as its name."""

    name: str
    copies: Annotated[bool, "Whether an incoming chunk may leave over several links."] = False
    buffer_chunks: Annotated[
        NonNegative | None, "Largest number of stored chunks; null: unlimited."
    ] = 0
    cut_through: Annotated[
        bool,
        "Whether a chunk leaves while it arrives (cut-through); false: the switch stores it first.",
    ] = True


class TopologyWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A machine: ranks, directed links with lanes, costs, and shared bandwidth budgets."""

    schema: _Version = 1
    kind: Literal["topology"] = "topology"
    digest: _Digest | None = None
    name: Annotated[str, Meta(min_length=1)]
    source: Annotated[str, "Origin of the numbers."] = ""
    ranks: Annotated[int, "Nodes 0 .. ranks-1 take part in collectives."]
    alpha_us: Annotated[float, "Latency of a transfer, microseconds."]
    gb_per_s: Annotated[float, "Bandwidth of one lane, 10^9 bytes per second."]
    links: Annotated[
        tuple[LinkWire, ...],
        "Links; optional if 'egress' is given: then every rank has a link to every other.",
    ] = ()
    budgets: tuple[BudgetWire, ...] = ()
    egress: Annotated[
        int | None, "Chunks per round that leave each rank over all its links together."
    ] = None
    ingress: Annotated[
        int | None, "Chunks per round that enter each rank; default: the value of 'egress'."
    ] = None
    switches: Annotated[
        tuple[str | SwitchWire, ...], "Switch nodes, by name; they are numbered ranks, ranks+1, ..."
    ] = ()
    chassis: Annotated[
        tuple[tuple[NonNegative, ...], ...],
        "Groups of closely linked ranks, such as the GPUs of a node.",
    ] = ()
    labels: Annotated[
        tuple[str, ...], "Name of each rank on the machine; default: its number."
    ] = ()
    pci_bus_ids: Annotated[
        BusIds,
        "PCI bus id of each rank's GPU, as [domain:]bus:device.function; 'ascending': rank i is "
        "the GPU with the i-th lowest, as nvidia-smi numbers them; default: unknown.",
    ] = ()


class NetworkWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The network that joins several nodes: for 'sccl topo import --nodes N --network FILE'."""

    schema: _Version = 1
    kind: Literal["network"] = "network"
    digest: _Digest | None = None
    joining: Annotated[
        Literal["switch", "rails", "full"],
        "'switch': one for all NICs; 'rails': one for the i-th NICs of all nodes; 'full': links "
        "between all NICs of different nodes.",
    ]
    gb_per_s: Annotated[
        float | None,
        "Bandwidth of a NIC in one direction, 10^9 bytes per second; default: the value in the "
        "machine's file.",
    ] = None
    alpha_us: Annotated[
        float | None,
        "Latency from NIC to NIC, through the switch if there is one, microseconds; default: the "
        "value in the machine's file.",
    ] = None
    nics: Annotated[
        Positive | tuple[tuple[NonNegative, ...], ...] | None,
        "Number of NICs per node (GPUs are divided evenly in their order), or the GPUs of each "
        "NIC; default: the value in the machine's file, else one per GPU.",
    ] = None


class RelationWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A relation of SCCL Table 1, or (chunk, rank) pairs repeated every 'period' chunks."""

    relation: Literal["all", "root", "scattered", "transpose", "pairs"]
    root: int | None = None
    period: Positive | None = None
    pairs: tuple[tuple[NonNegative, NonNegative], ...] = ()


class CollectiveWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A collective at a number of chunks."""

    schema: _Version = 1
    kind: Literal["collective"] = "collective"
    digest: _Digest | None = None
    name: Annotated[str, Meta(min_length=1)]
    ranks: Positive
    chunks: Annotated[int, Meta(ge=1), "C: chunks per rank, the divisor of costs."]
    num_chunks: Annotated[int, Meta(ge=1), "G: all chunks."]
    pre: RelationWire
    post: RelationWire
    combining: bool = False
    root: int | None = None
    counts: Annotated[
        tuple[int, ...], "Elements of each chunk of the pattern; default: equal chunks."
    ] = ()


COUNTED_COLLECTIVES = ("allgatherv", "alltoallv", "gatherv", "reducescatterv", "scatterv")
"""Fields of a file that replace pairs."""


class CustomCollectiveWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A custom collective: (chunk, rank) pairs before and after, or counts of elements.

    Either 'pre' and 'post', or one of 'allgatherv', 'alltoallv', 'gatherv', 'reducescatterv' and
    'scatterv'.
    """

    schema: _Version = 1
    kind: Literal["custom-collective"] = "custom-collective"
    digest: _Digest | None = None
    name: Annotated[str, Meta(min_length=1)]
    ranks: Positive
    pre: Annotated[
        tuple[tuple[NonNegative, NonNegative], ...],
        "[chunk, rank]: the rank holds the chunk at the start.",
    ] = ()
    post: Annotated[
        tuple[tuple[NonNegative, NonNegative], ...],
        "[chunk, rank]: the rank must hold the chunk at the end.",
    ] = ()
    combining: Annotated[bool, "The ranks in 'pre' contribute, and 'post' holds the reduction."] = (
        False
    )
    counts: Annotated[
        tuple[Positive, ...], "Elements of chunk 0, 1, ...; default: equal chunks."
    ] = ()
    allgatherv: Annotated[
        tuple[NonNegative, ...], "Elements of each rank, which all ranks receive."
    ] = ()
    alltoallv: Annotated[
        tuple[tuple[NonNegative, ...], ...], "One row per rank: its elements for rank 0, 1, ..."
    ] = ()
    gatherv: Annotated[
        tuple[NonNegative, ...], "Elements of each rank, which 'root' receives."
    ] = ()
    reducescatterv: Annotated[
        tuple[NonNegative, ...],
        "Elements of the reduction that each rank receives; all contribute.",
    ] = ()
    scatterv: Annotated[tuple[NonNegative, ...], "Elements that 'root' has for each rank."] = ()
    root: Annotated[NonNegative, "Root of 'gatherv' and 'scatterv'."] = 0


class GroupWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Ranks that do a collective together."""

    ranks: Annotated[
        tuple[NonNegative, ...],
        Meta(min_length=2),
        "Ranks, in the order in which the collective numbers them.",
    ]
    collective: Annotated[
        str | None, "Name of the machine; default: the name passed with the file."
    ] = None
    root: Annotated[
        NonNegative | None,
        "Root, one of these ranks; default: the first, if the collective has a root.",
    ] = None


class GroupsWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Process groups that run collectives at the same time. Each rank is in at most one group."""

    schema: _Version = 1
    kind: Literal["groups"] = "groups"
    digest: _Digest | None = None
    groups: Annotated[tuple[GroupWire, ...], Meta(min_length=1)]


class _AlgorithmWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    schema: _Version = 1
    kind: str
    digest: _Digest | None = None
    collective: CollectiveWire
    topology: TopologyWire
    scope: Annotated[str, "Class of algorithms for claims of optimality."] = ""
    proved: tuple[str, ...] = ()
    rounds_per_step: Annotated[tuple[int, ...], Meta(min_length=1)]


class AlgorithmWire(_AlgorithmWire, frozen=True, kw_only=True, omit_defaults=True):
    """A k-synchronous algorithm with its topology and collective."""

    kind: Literal["algorithm"] = "algorithm"
    sends: Annotated[
        tuple[tuple[int, int, int, int, Literal[0, 1]], ...],
        "[step, chunk, src, dst, reduce], by step; steps count from 0.",
    ]


class GeneratorWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A symmetry: a renaming of ranks, and how it turns the chunks of a class."""

    ranks: Annotated[tuple[NonNegative, ...], "Image of each rank."]
    turn: Annotated[NonNegative, "Chunk i of a class becomes chunk i + turn of its image..."] = 0
    period: Annotated[int, Meta(ge=1), "... within each block of this many chunks."] = 1


class SymmetryWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Symmetries that a search imposes on algorithms."""

    schema: _Version = 1
    kind: Literal["symmetry"] = "symmetry"
    digest: _Digest | None = None
    generators: tuple[GeneratorWire, ...] = ()
    offsets: Annotated[
        tuple[tuple[int, int], ...],
        "[offset, size] as in TACCL's sketches: in each block of 'size' ranks, every rank moves by "
        "the offset, cyclically.",
    ] = ()


class SymmetricAlgorithmWire(_AlgorithmWire, frozen=True, kw_only=True, omit_defaults=True):
    """A large algorithm: sends of one chunk per orbit, and symmetries that generate the others."""

    kind: Literal["symmetric-algorithm"] = "symmetric-algorithm"
    symmetries: tuple[GeneratorWire, ...]
    num_sends: Annotated[NonNegative, "Number of sends of all chunks."]
    sends: Annotated[
        tuple[tuple[int, int, int, int], ...],
        "[step, chunk, src, dst], by step; steps count from 0.",
    ]


AnyAlgorithmWire = AlgorithmWire | SymmetricAlgorithmWire


class InstanceWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The input of a solver: the SYNCOLL tuple."""

    schema: _Version = 1
    kind: Literal["instance"] = "instance"
    digest: _Digest | None = None
    topology: TopologyWire
    collective: CollectiveWire
    steps: int
    rounds: int


class AnswerWire(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict of a solver."""

    schema: _Version = 1
    kind: Literal["answer"] = "answer"
    digest: _Digest | None = None
    answer: Literal["sat", "unsat", "unknown"]
    solver: Annotated[str, "Name of the solver, with the symmetry group if any."]
    group: Annotated[str, "Symmetries that the search imposed; empty: none."] = ""
    seconds: float
    reason: str = ""
    origin: Annotated[
        Literal["here", "cluster"],
        "Whether a process of the writer, or a cluster, derived an 'unsat'.",
    ] = "here"
    best: str = ""
    algorithm: AlgorithmWire | None = None
    symmetric: SymmetricAlgorithmWire | None = None
