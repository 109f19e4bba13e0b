"""Compute the demand of an MSCCL++ plan from its collective and its buffers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sccl.codegen.buffer_layout import BufferLayout, build_layout
from sccl.collectives import named_spec
from sccl.core.collective import Collective, Relation, RelationKind
from sccl.core.topology import to_ranks
from sccl.errors import InputError, TooLargeError
from sccl.formats.mscclpp_plans.plan_file import PlanPart
from sccl.formats.program_graph import Content, Label

MAX_MOVES = 2**22
"""Largest number of moved parts of chunks of a plan."""


class PlanDemand:
    """The demand of a plan's collective. An unknown collective has none."""

    def __init__(self, plan: PlanPart) -> None:
        collective = _find_collective(plan)
        self.is_recognized = collective is not None
        self.sizes = [(gpu.input_chunks, gpu.output_chunks) for gpu in plan.gpus]
        self.collective = collective or _identity_collective(self.sizes)
        self.layout: BufferLayout = build_layout(self.collective)
        self.chunks: dict[Label, int] = {}
        self.holders: dict[int, list[Label]] = defaultdict(list)
        first = 0
        for rank, (inputs, _) in enumerate(self.sizes):
            for i in range(inputs):
                chunk = self.layout.chunk_of_input(rank, i) if self.is_recognized else first + i
                self.chunks[rank, i] = chunk
                self.holders[chunk].append((rank, i))
            first += inputs
        self.alias = _alias(plan, self.sizes)

    def iterate_demand(self) -> Iterator[tuple[int, int, Content]]:
        """Yield a rank, an index of its output, and its required content."""
        for rank, (_, outputs) in enumerate(self.sizes if self.is_recognized else ()):
            for i in range(outputs):
                labels = self.holders[self.layout.chunk_of_output(rank, i)]
                yield rank, i, frozenset(labels)


def _find_collective(plan: PlanPart) -> Collective | None:
    """Return the collective that a plan's buffers fit. None: there is none."""
    ranks, gpu = len(plan.gpus), plan.gpus[0]
    sizes = {(g.input_chunks, g.output_chunks) for g in plan.gpus}
    if plan.collective == "sendrecv" or ranks == 1 or len(sizes) > 1:
        return None
    try:
        spec = named_spec(plan.collective, ranks, None)
    except InputError:
        return None
    chunks = gpu.input_chunks
    outputs = {"allgather": chunks * ranks, "reducescatter": chunks // ranks}
    blocks = {"alltoall", "reducescatter"}
    if gpu.output_chunks != outputs.get(plan.collective, chunks) or not chunks:
        return None
    if plan.collective in blocks and chunks % ranks:
        return None
    in_all = chunks * ranks if plan.collective in {"allgather", "alltoall"} else chunks
    return Collective(
        *(plan.collective, ranks, chunks, in_all, spec.pre, spec.post),
        combining=spec.combining,
        root=spec.root,
    )


def _identity_collective(sizes: Sequence[tuple[int, int]]) -> Collective:
    holders = tuple(
        to_ranks((rank,)) for rank, (count, _) in enumerate(sizes) for _ in range(count)
    )
    if len(holders) > MAX_MOVES:
        raise TooLargeError(f"{len(holders)} chunks, and up to {MAX_MOVES} are followed")
    pattern = holders or (to_ranks((0,)),)
    kept = Relation(RelationKind.PAIRS, pattern=pattern)
    return Collective("custom", max(2, len(sizes)), 1, len(pattern), kept, kept)


def _alias(plan: PlanPart, sizes: Sequence[tuple[int, int]]) -> dict[tuple[int, str], int]:
    """Return, of calls in place, which buffers are part of another, and where they begin in it."""
    if not plan.inplace:
        return {}
    inside: dict[tuple[int, str], int] = {}
    for rank, (inputs, outputs) in enumerate(sizes):
        if inputs > outputs:
            inside[rank, "output"] = rank * outputs
        else:
            inside[rank, "input"] = rank * inputs if inputs < outputs else 0
    return inside
