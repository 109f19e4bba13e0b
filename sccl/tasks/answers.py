"""What each verb prints with '--json': the shapes that 'sccl schema' publishes.

Verbs build the small ones; frontiers and bounds are built where they are known, and a test holds
them to these shapes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sccl.core.files.shapes import AnswerWire, InstanceWire
from sccl.tasks.outputs import Count, ErrorOutput, FileText, FractionText, Inputs, Output, Part
from sccl.tasks.run import BenchOutput, RunOutput, TuneOutput

Seconds = Annotated[
    float, Meta(ge=0, description="Seconds; not in files, which are the same again.")
]
Optimal = Annotated[
    tuple[str, ...],
    Meta(
        description="Which bounds are met: latency, bandwidth, limit. Those of its class for a "
        "point in 'classes', else of every algorithm."
    ),
]


# --- Find ----------------------------------------------------------------------------------------


class CutPart(Part, frozen=True, kw_only=True):
    """Ranks into which so many chunks must come, at a weight."""

    ranks: tuple[int, ...]
    weight: FractionText
    entering_chunks: Count


class DistancePart(Part, frozen=True, kw_only=True):
    """A chunk that has so far to go, which bounds S."""

    problem: str
    chunk: Count
    sources: Annotated[tuple[int, ...], Meta(description="The ranks that hold it.")] = (
        msgspec.field(name="from")
    )
    rank: int = msgspec.field(name="to")
    distance: Count


class BoundsCertificatePart(Part, frozen=True, kw_only=True):
    """Why the bounds hold: prices of links and budgets, cuts, and a chunk with far to go."""

    problem: Annotated[str, Meta(description="What was bounded: the question, or its dual.")]
    kind: str
    steps: DistancePart
    chunks: Annotated[int | UnsetType, Meta(description="The C at which chunks are counted.")] = (
        UNSET
    )
    rounds_at_least: FractionText | UnsetType = UNSET
    prices: dict[str, FractionText] | UnsetType = UNSET
    cuts: tuple[CutPart, ...] | UnsetType = UNSET
    ranks: Annotated[
        tuple[int, ...] | UnsetType, Meta(description="Of all allreduces: the ranks of a cut.")
    ] = UNSET
    sends_per_chunk: Annotated[
        int | UnsetType, Meta(description="Of all allreduces: what each chunk needs at least.")
    ] = UNSET
    chunks_per_round: Annotated[
        int | UnsetType, Meta(description="Of all allreduces: what a round carries at most.")
    ] = UNSET


class BoundsPart(Part, frozen=True, kw_only=True):
    """What no algorithm of a class can beat."""

    steps: Annotated[int, Meta(ge=0, description="S is at least this.")]
    bandwidth: Annotated[FractionText, Meta(description="R/C is at least this.")]
    scope: Annotated[str, Meta(description="The class it is about; empty: all algorithms.")]
    certificate: BoundsCertificatePart


class ClassBoundsPart(BoundsPart, frozen=True, kw_only=True):
    """What no algorithm of one class of several can beat."""

    name: str = msgspec.field(name="class")


class LimitPart(Part, frozen=True, kw_only=True):
    """The infimum of R/C for a number of steps, over all k and C: between two bounds."""

    steps: Count
    lower: FractionText
    upper: FractionText


class LimitProofPart(Part, frozen=True, kw_only=True):
    """Why a limit holds on a machine."""

    problem: str
    topology: str
    bound: FractionText
    prices: Annotated[
        tuple[tuple[str, int, FractionText], ...] | str,
        Meta(description="[constraint, step, price]; or 'bandwidth bound', which says it."),
    ]


class ProvedLimitPart(LimitPart, frozen=True, kw_only=True):
    """A limit with its certificates."""

    certificates: tuple[LimitProofPart, ...]


class PointPart(Part, frozen=True, kw_only=True):
    """An algorithm on a frontier; of a limit frontier, what attains a limit or comes near it."""

    among: Annotated[
        str | UnsetType, Meta(description="The class it is of, where there are several.")
    ] = msgspec.field(name="class", default=UNSET)
    steps: Count
    chunks: int | None
    rounds: int | None
    bandwidth_cost: Annotated[
        FractionText | None, Meta(description="R/C of the algorithm; null: too large to write.")
    ]
    proved: Annotated[
        bool, Meta(description="Nothing dominates it in its class; else: best found.")
    ]
    every_k: Annotated[
        bool | UnsetType, Meta(description="It is proved for every k and C, not those searched.")
    ] = UNSET
    optimal: Optimal
    rounds_per_step: tuple[int, ...] | UnsetType = UNSET
    limit: Annotated[
        FractionText | UnsetType, Meta(description="Of a limit frontier: the limit of R/C.")
    ] = UNSET
    attained: Annotated[bool | UnsetType, Meta(description="Whether R/C is the limit.")] = UNSET
    seconds: Seconds | UnsetType = UNSET
    from_store: Annotated[
        bool | UnsetType, Meta(description="The answer was kept; seconds are those it once took.")
    ] = UNSET
    file: FileText | None


class CandidatePart(Part, frozen=True, kw_only=True):
    """A candidate that is open, with the reason, or refuted, with the evidence."""

    chunks: Count
    steps: Count
    rounds: Count
    bandwidth_cost: FractionText
    reason: str | UnsetType = UNSET
    evidence: str | UnsetType = UNSET
    seconds: Seconds | UnsetType = UNSET


class ClassPart(Part, frozen=True, kw_only=True):
    """The frontier of another class of algorithms for the same question."""

    name: Annotated[str | UnsetType, Meta(description="What points call it.")] = msgspec.field(
        name="class", default=UNSET
    )
    scope: Annotated[str, Meta(description="The class in words.")]
    complete: bool
    every_k: Annotated[bool | UnsetType, Meta(description="Complete for every k and C.")] = UNSET
    collective: str | UnsetType = UNSET
    steps: Annotated[int | UnsetType, Meta(description="S is at least this in it.")] = UNSET
    bandwidth: FractionText | UnsetType = UNSET
    seconds: Seconds | UnsetType = UNSET
    limits: tuple[LimitPart, ...]
    points: tuple[PointPart, ...]


class UnsweptPart(Part, frozen=True, kw_only=True):
    """A class that was not looked at, and why."""

    name: str = msgspec.field(name="class")
    why: str


class FoundPart(Part, frozen=True, kw_only=True):
    """What is known of a question: of one class of algorithms, or of several."""

    topology: str
    collective: str
    root: int | None
    alpha_us: Annotated[float, Meta(description="Latency of a step, by which points are compared.")]
    gb_per_s: Annotated[float, Meta(description="Bandwidth of a lane, likewise.")]
    slowest_link: Annotated[
        bool | UnsetType, Meta(description="These are the slowest link's, and others are faster.")
    ] = UNSET
    scope: Annotated[str, Meta(description="The class of algorithms it is about.")]
    bounds: BoundsPart
    complete: Annotated[bool, Meta(description="The whole frontier of its class.")]
    stopped: Annotated[
        str, Meta(description="bandwidth-bound, max-steps or interrupted: why it ends there.")
    ]
    limits: Annotated[
        tuple[LimitPart, ...],
        Meta(description="Of R/C, by S; of several classes none: each in 'classes' has its own."),
    ]
    points: tuple[PointPart, ...]
    seconds: Seconds | UnsetType = UNSET
    k: Annotated[int | UnsetType, Meta(description="Of a sweep: R <= S + k was searched.")] = UNSET
    max_steps: int | UnsetType | None = UNSET
    max_chunks: int | UnsetType | None = UNSET
    solver: str | UnsetType = UNSET
    every_k: Annotated[
        bool | UnsetType, Meta(description="Complete for every k, not this alone.")
    ] = UNSET
    open: Annotated[
        tuple[CandidatePart, ...] | UnsetType, Meta(description="What may hide a better algorithm.")
    ] = UNSET
    unsat: Annotated[
        tuple[CandidatePart, ...] | UnsetType, Meta(description="What does not exist, and why.")
    ] = UNSET
    classes: Annotated[
        tuple[ClassPart, ...] | UnsetType, Meta(description="The frontiers of the classes.")
    ] = UNSET
    unswept: tuple[UnsweptPart, ...] | UnsetType = UNSET


class HalfPart(FoundPart, frozen=True, kw_only=True):
    """The frontier of a collective that algorithms are composed of."""

    schema: Literal[1]
    kind: Literal["frontier"]


class FrontierOutput(FoundPart, frozen=True, kw_only=True):
    """What 'sccl pareto' found, printed or kept in the folder of '--out'."""

    schema: Annotated[Literal[1], Meta(description="Version of this shape.")] = 1
    kind: Literal["frontier"] = "frontier"
    sccl: Annotated[str, Meta(description="The version of sccl.")]
    inputs: Inputs
    halves: Annotated[
        tuple[HalfPart, ...] | UnsetType, Meta(description="What compositions are made of.")
    ] = UNSET


class SolveOutput(Output, frozen=True, kw_only=True):
    """What 'sccl solve' found."""

    kind: Literal["solve"] = "solve"
    topology: str
    collective: str
    chunks: Count
    steps: Count
    rounds: Count
    answer: Literal["sat", "unsat", "unknown"]
    reason: str
    scope: Annotated[str, Meta(description="The class the answer is about; empty: all algorithms.")]
    seconds: Seconds
    solver: str
    file: FileText | None


class BoundsOutput(Output, frozen=True, kw_only=True):
    """What 'sccl bounds' computed."""

    kind: Literal["bounds"] = "bounds"
    topology: str
    collective: str
    steps: Annotated[int, Meta(ge=0, description="S is at least this.")]
    bandwidth: Annotated[FractionText, Meta(description="R/C is at least this.")]
    scope: Annotated[str, Meta(description="The class it is about; empty: all algorithms.")]
    certificate: BoundsCertificatePart
    classes: Annotated[
        tuple[ClassBoundsPart, ...] | UnsetType, Meta(description="Of allreduce: of a class.")
    ] = UNSET
    limit: Annotated[
        ProvedLimitPart | UnsetType, Meta(description="With --steps: the limit of R/C there.")
    ] = UNSET


# --- Look ----------------------------------------------------------------------------------------


class StepPart(Part, frozen=True, kw_only=True):
    """How much of what the links can carry a step uses."""

    step: Annotated[int | None, Meta(description="Null: all steps together.")]
    rounds: int
    sends: Count
    utilisation: Annotated[str, Meta(description="A share such as 75.0%.")]


class ShownPart(Part, frozen=True, kw_only=True):
    """An algorithm."""

    file: FileText
    digest_matches: Annotated[bool, Meta(description="The file is as sccl wrote it.")]
    violations: Annotated[int, Meta(description="What the judge objects to: see sccl check.")]
    topology: str
    collective: str
    chunks: int
    steps: int
    rounds: int
    rounds_per_step: tuple[int, ...]
    bandwidth_cost: FractionText
    proved: Annotated[
        tuple[str, ...], Meta(description="Empty where the file was edited or is rejected.")
    ]
    scope: str
    sends: Annotated[
        tuple[tuple[int, int, int, int, int], ...],
        Meta(description="[step, chunk, src, dst, 1 if it reduces]."),
    ]
    utilisation: tuple[StepPart, ...]


class ShowOutput(Output, frozen=True, kw_only=True):
    """What 'sccl show' shows."""

    kind: Literal["show"] = "show"
    files: tuple[ShownPart, ...]


class PlotOutput(Output, frozen=True, kw_only=True):
    """Where 'sccl plot' drew what."""

    kind: Literal["plot"] = "plot"
    what: Literal["frontier", "time", "utilisation", "arrival", "topology"]
    file: FileText


class ExploreOutput(Output, frozen=True, kw_only=True):
    """Where 'sccl explore' wrote the page."""

    kind: Literal["explore"] = "explore"
    file: FileText
    algorithms: Count
    frontiers: Count


# --- Run -----------------------------------------------------------------------------------------


class CodegenOutput(Output, frozen=True, kw_only=True):
    """Where 'sccl codegen' wrote a project."""

    kind: Literal["codegen"] = "codegen"
    directory: FileText
    target: str
    ranks: Count
    algorithms: Count
    collectives: tuple[str, ...]
    files: Annotated[tuple[str, ...], Meta(description="Names of what was written there.")]


# --- Prove ---------------------------------------------------------------------------------------


class ViolationPart(Part, frozen=True, kw_only=True):
    """What the judge objects to."""

    kind: str
    message: str
    step: int | None
    chunk: int | None
    rank: int | None


class CheckedFilePart(Part, frozen=True, kw_only=True):
    """An algorithm and the judge's verdict."""

    file: FileText
    valid: bool
    digest_matches: Annotated[bool, Meta(description="The file is as sccl wrote it.")]
    collective: str
    topology: str
    violations: tuple[ViolationPart, ...]


class CheckOutput(Output, frozen=True, kw_only=True):
    """What 'sccl check' found."""

    kind: Literal["check"] = "check"
    files: tuple[CheckedFilePart, ...]


class ClaimPart(Part, frozen=True, kw_only=True):
    """A claim of a certificate, and whether it holds."""

    folder: FileText
    claim: str
    state: Annotated[
        Literal["ok", "failed", "searched", "unchecked"],
        Meta(description="searched: solvers' word, no proof; unchecked: it would take too long."),
    ]
    detail: str


class CertifiedMachinePart(Part, frozen=True, kw_only=True):
    """The machine that a certificate is about."""

    name: str
    ranks: Count
    links: Count
    lanes: Count
    budgets: Count
    digest: str
    origin: Annotated[str, Meta(description="Whether it is a machine of the catalogue.")]


class CertifiedCollectivePart(Part, frozen=True, kw_only=True):
    """The collective that a certificate is about."""

    name: str
    root: int | None
    custom: Annotated[bool, Meta(description="It is not what its name stands for elsewhere.")]
    unit: Annotated[int, Meta(description="The smallest C it can have.")]
    digest: str


class CertifiedQuestionPart(Part, frozen=True, kw_only=True):
    """What the claims of a folder are about."""

    folder: FileText
    machine: CertifiedMachinePart
    collective: CertifiedCollectivePart
    classes: Annotated[
        tuple[str, ...], Meta(description="Classes in which something is claimed to be optimal.")
    ]


class VerifyCertificateOutput(Output, frozen=True, kw_only=True):
    """What 'sccl verify-certificate' found."""

    kind: Literal["verify-certificate"] = "verify-certificate"
    folder: Annotated[str, Meta(description="The folder; of several, all of them.")]
    questions: tuple[CertifiedQuestionPart, ...]
    claims: tuple[ClaimPart, ...]


class Smt2Output(Output, frozen=True, kw_only=True):
    """The problem that 'sccl smt2' wrote: to a file, or here."""

    kind: Literal["smt2"] = "smt2"
    file: FileText | None
    text: Annotated[str | None, Meta(description="SMT-LIB 2; null with --output.")]


# --- Manage --------------------------------------------------------------------------------------


class ToolPart(Part, frozen=True, kw_only=True):
    """A tool that was tried."""

    group: str
    name: str
    state: Literal["ok", "missing", "broken"]
    version: str
    path: str
    needed: Annotated[bool, Meta(description="The main job, sccl pareto, needs it.")]
    use: str
    problem: str
    get: Annotated[str, Meta(description="How to get it; empty where it works.")]


class DoctorOutput(Output, frozen=True, kw_only=True):
    """What 'sccl doctor' tried."""

    kind: Literal["doctor"] = "doctor"
    usable: Annotated[bool, Meta(description="The main job can be done.")]
    checks: tuple[ToolPart, ...]


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
    """What 'sccl topo list' lists."""

    kind: Literal["topo-list"] = "topo-list"
    machines: tuple[MachinePart, ...]
    generators: tuple[GeneratorPart, ...]


class ChangedOutput(Output, frozen=True, kw_only=True):
    """A machine that was made of another, and written."""

    file: FileText
    name: str
    ranks: Count
    links: Count
    labels: Annotated[tuple[str, ...], Meta(description="What each rank was called before.")]
    unreachable: Annotated[
        tuple[int, int] | None, Meta(description="Two ranks with no path between them, if any.")
    ]


class TopoWithOutput(ChangedOutput, frozen=True, kw_only=True):
    """What 'sccl topo with' wrote."""

    kind: Literal["topo-with"] = "topo-with"


class TopoWithoutOutput(ChangedOutput, frozen=True, kw_only=True):
    """What 'sccl topo without' wrote."""

    kind: Literal["topo-without"] = "topo-without"


class VerdictPart(Part, frozen=True, kw_only=True):
    """A verdict of the store."""

    instance: Annotated[str, Meta(description="The digest of the instance.")]
    solver: str
    answer: Annotated[str, Meta(pattern="^(sat|unsat|unknown)$")]
    seconds: Seconds
    version: str
    at: Annotated[str, Meta(description="When, in UTC.")]
    topology: str
    collective: str
    chunks: int
    steps: int
    rounds: int


class StoreLsOutput(Output, frozen=True, kw_only=True):
    """What 'sccl store ls' lists."""

    kind: Literal["store-ls"] = "store-ls"
    store: FileText
    verdicts: tuple[VerdictPart, ...]


class StoreShowOutput(Output, frozen=True, kw_only=True):
    """What 'sccl store show' shows."""

    kind: Literal["store-show"] = "store-show"
    instance: InstanceWire
    answers: Annotated[dict[str, AnswerWire], Meta(description="By solver.")]


class StoreExportOutput(Output, frozen=True, kw_only=True):
    """What 'sccl store export' wrote."""

    kind: Literal["store-export"] = "store-export"
    file: FileText


class StoreGcOutput(Output, frozen=True, kw_only=True):
    """What 'sccl store gc' deleted."""

    kind: Literal["store-gc"] = "store-gc"
    store: FileText
    deleted: Count


class KindPart(Part, frozen=True, kw_only=True):
    """A kind of output or of file."""

    kind: str
    of: Literal["output", "file"]
    about: str


class SchemaOutput(Output, frozen=True, kw_only=True):
    """What 'sccl schema' lists; of one kind it prints the JSON Schema itself."""

    kind: Literal["schema"] = "schema"
    kinds: tuple[KindPart, ...]


_ALL: tuple[type[msgspec.Struct], ...] = (
    *(FrontierOutput, SolveOutput, BoundsOutput),
    *(ShowOutput, PlotOutput, ExploreOutput),
    *(CodegenOutput, RunOutput, BenchOutput, TuneOutput),
    *(CheckOutput, VerifyCertificateOutput, Smt2Output),
    *(DoctorOutput, TopoListOutput, TopoWithOutput, TopoWithoutOutput),
    *(StoreLsOutput, StoreShowOutput, StoreExportOutput, StoreGcOutput),
    *(SchemaOutput, ErrorOutput),
)


def _kind(output: type[msgspec.Struct]) -> str:
    kinds = {field.name: field.default for field in msgspec.structs.fields(output)}
    return str(kinds["kind"])


OUTPUTS: dict[str, type[msgspec.Struct]] = {_kind(output): output for output in _ALL}
"""The shape of each kind of output."""
