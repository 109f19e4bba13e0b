"""Workloads of models by formulas: invariants for all parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sccl.core.files.json_text import to_text
from sccl.errors import InputError
from sccl.training.files.workloads import workload_from_text, workload_to_wire
from sccl.training.models import (
    FAMILIES,
    DlrmJob,
    MoeJob,
    TransformerJob,
    generate_dlrm,
    generate_moe,
    generate_transformer,
    generate_workload,
)
from sccl.training.models.parallelism import OPTIMIZER_BYTES
from sccl.training.scheduling.workload_problem import PlanningJob
from sccl.training.types.workload import Workload
from tests.kit.jobs import FAST, SMALL, TABLES
from tests.kit.nightly import times

# For all parameters.

SPREADS = st.fixed_dictionaries(
    {
        "layers": st.sampled_from([2, 4]),
        "hidden": st.sampled_from([8, 24]),
        "heads": st.sampled_from([2, 4]),
        "sequence": st.sampled_from([4, 8]),
        "batch": st.integers(1, 3),
        "vocabulary": st.sampled_from([0, 12]),
        "tp": st.sampled_from([1, 2]),
        "pp": st.sampled_from([1, 2]),
        "dp": st.sampled_from([1, 2, 3]),
        "zero": st.integers(0, 3),
        "microbatches": st.integers(1, 4),
        "sequence_parallel": st.booleans(),
        "recompute": st.sampled_from(["none", "selective", "full"]),
        "split_backward": st.booleans(),
        "overlap_next": st.booleans(),
        "bucket_mb": st.sampled_from([1e-6, 1e-3, 1.0]),
        "prefetch": st.integers(0, 5),
        "dtype": st.sampled_from(["float32", "bfloat16"]),
        "kv_heads": st.sampled_from([None, 1, 2]),
        "mlp_width": st.sampled_from([None, 6, 20]),
        "gated_mlp": st.booleans(),
        "tied_embeddings": st.sampled_from([False, False, True]),
    }
)
EXPERTS = st.fixed_dictionaries(
    {
        "experts": st.sampled_from([2, 4]),
        "top_k": st.integers(1, 2),
        "capacity": st.sampled_from([1.0, 1.25]),
        "ep": st.sampled_from([1, 2, 4]),
        "moe_every": st.integers(1, 2),
    }
)


@given(spread=SPREADS, experts=st.none() | EXPERTS)
@settings(max_examples=times(120, by_day=60), deadline=None)
def test_any_parameters_make_what_their_formulas_say(
    spread: dict[str, Any], experts: dict[str, Any] | None
) -> None:
    job: TransformerJob
    try:
        if experts is None:
            job = TransformerJob(**spread, **FAST)
            made = generate_transformer(job)
        else:
            job = MoeJob(**spread, **experts, **FAST)
            made = generate_moe(job)
    except InputError:
        assume(False)
        raise
    check_made(made)
    layers = [_operations(job, number) for number in range(job.layers)]
    forward = sum(weights + itself for weights, itself in layers)
    again = {"none": 0, "full": forward, "selective": sum(itself for _, itself in layers)}
    tokens = job.batch * job.sequence
    head = 2 * tokens * job.hidden * job.vocabulary
    words = 2 * 2 * tokens * job.hidden * job.item if job.vocabulary else 0
    each = job.microbatches * (3 * (forward + head) + again[job.recompute]) / job.tp
    each += words * job.microbatches
    computed = sum(op.duration_us for op in made.computation())
    assert computed == pytest.approx(each + _updates(job), rel=1e-6, abs=0.01)
    sent: dict[str, int] = defaultdict(int)
    for op in made.collectives():
        sent[op.collective] += op.size_bytes * len(op.groups)
    assert sent == _sent(job)


def check_made(made: Workload) -> None:
    """Check the common invariants: files, programs without deadlock, waits as dependencies."""
    assert workload_from_text(to_text(workload_to_wire(made)), "w") == made
    assert len(PlanningJob(made, {}).op_ids) == len(made.ops)
    awaited = {(e.op, e.lag) for one in made.submits for e in one.events if e.action == "wait"}
    sent = {op.id for op in made.collectives() if op.collective == "broadcast"}
    of = {dep.before for dep in made.deps}
    assert {name for name, _ in awaited} == {op.id for op in made.collectives()}
    assert sent <= of


def _weights(job: TransformerJob) -> tuple[int, int]:
    """Return the parameters of attention and of a perceptron, matrix by matrix."""
    head_width = job.hidden // job.heads
    query = output = job.hidden * job.heads * head_width
    key = value = job.hidden * (job.kv_heads or job.heads) * head_width
    up = down = job.hidden * (job.mlp_width or 4 * job.hidden)
    return query + key + value + output, up + down + (up if job.gated_mlp else 0)


def _operations(job: TransformerJob, number: int) -> tuple[float, float]:
    """Return operations of a layer forward, of all ranks that share it: with weights, without."""
    tokens = job.batch * job.sequence
    attention, perceptron = _weights(job)
    itself = 4 * tokens * job.sequence * job.hidden
    if not isinstance(job, MoeJob) or (number + 1) % job.moe_every:
        return 2 * tokens * (attention + perceptron), itself
    sent = round(tokens * job.hidden // job.tp * job.top_k * job.capacity)
    experts = 2 * sent * perceptron * job.tp / job.hidden
    return 2 * tokens * attention + experts, itself


def _parameters(job: TransformerJob) -> list[tuple[int, int, int]]:
    """Return the stage of each block and a rank's share of it, equal for replicas of experts."""
    attention, perceptron = _weights(job)
    found = []
    for number in range(job.layers):
        stage = number * job.pp // job.layers
        if not isinstance(job, MoeJob) or (number + 1) % job.moe_every:
            found.append((stage, (attention + perceptron) // job.tp, 0))
        else:
            found.append((stage, attention // job.tp, perceptron * job.experts // job.ep))
    words = job.vocabulary * job.hidden // job.tp
    if words:
        found.insert(0, (0, words, 0))
    if words and not job.tied_embeddings:
        found.append((job.pp - 1, words, 0))
    return found


def _updates(job: TransformerJob) -> float:
    copies = job.tp * job.dp // (job.ep if isinstance(job, MoeJob) else 1)
    parts = (job.dp, copies) if job.zero else (1, 1)
    return sum(
        OPTIMIZER_BYTES * (alike / parts[0] + experts / parts[1])
        for _, alike, experts in _parameters(job)
    )


def _sent(job: TransformerJob) -> Mapping[str, int]:
    """Return bytes of collectives by kind, the largest buffers of all groups."""
    found: dict[str, int] = defaultdict(int)
    for verb, count, groups, ranks in [*_of_passes(job), *_of_words(job), *_of_replicas(job)]:
        if ranks > 1:
            each = count if verb == "allreduce" else -(-count // ranks) * ranks
            found[verb] += each * job.item * groups
    return found


_Sent = tuple[str, int, int, int]
"""A collective, its elements, and how many groups of how many ranks do it."""


def _of_passes(job: TransformerJob) -> Iterator[_Sent]:
    whole, many = job.batch * job.sequence * job.hidden, job.microbatches
    tensors = job.dp, job.tp
    sums = ("allgather", "reducescatter") if job.sequence_parallel else ("allreduce",)
    for number in range(job.layers):
        experts = isinstance(job, MoeJob) and not (number + 1) % job.moe_every
        for _ in range(many * (3 if job.recompute == "full" else 2)):
            for verb in sums if experts else sums * 2:
                yield (verb, whole, *tensors)
            if isinstance(job, MoeJob) and experts:
                for _ in range(2):
                    yield "alltoall", job.dispatched, job.tp * job.dp // job.ep, job.ep
                if not job.sequence_parallel:
                    yield ("allgather", whole, *tensors)
    for _ in range(many * 2 * (job.pp - 1)):
        yield "broadcast", whole // job.tp, job.tp * job.dp, 2
        if not job.sequence_parallel:
            yield ("allgather", whole, *tensors)


def _of_words(job: TransformerJob) -> Iterator[_Sent]:
    whole = job.batch * job.sequence * job.hidden
    sums = ("allgather", "reducescatter") if job.sequence_parallel else ("allreduce",)
    if job.vocabulary:
        for verb in sums * 2 * job.microbatches:
            yield verb, whole, job.dp, job.tp


def _of_replicas(job: TransformerJob) -> Iterator[_Sent]:
    many = job.microbatches
    for groups, ranks, counts in _buckets(job, job.ep if isinstance(job, MoeJob) else 1):
        for count in counts:
            verbs = [["allreduce"], ["reducescatter", "allgather"]][job.zero > 0]
            if job.zero == 2:
                verbs = [*["reducescatter"] * many, "allgather"]
            if job.zero == 3:
                verbs = ["reducescatter", "allgather", "allgather"] * many
            for verb in verbs:
                yield verb, count, groups, ranks
    if job.tied_embeddings and job.zero == 3:  # the head gathers the matrix of the embedding
        for _ in range(2 * many):
            yield "allgather", job.vocabulary * job.hidden // job.tp, job.tp, job.dp


def _buckets(job: TransformerJob, ep: int) -> list[tuple[int, int, list[int]]]:
    least = 0 if job.zero == 3 else job.bucket_mb * 1e6
    counts: list[int] = []
    for stage in range(job.pp):
        own = [alike for at, alike, _ in _parameters(job) if at == stage]
        gathered = 0
        for alike in reversed(own):
            gathered += alike
            if gathered * job.item >= least:
                counts.append(gathered)
                gathered = 0
        counts += [gathered] if gathered else []
    experts = [count for _, _, count in _parameters(job) if count]
    return [(job.tp, job.dp, counts), (ep, job.tp * job.dp // ep, experts)]


@given(
    ranks=st.integers(2, 5),
    batch=st.integers(1, 4),
    more=st.integers(0, 4),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    widths=st.tuples(*[st.lists(st.integers(1, 6), min_size=2, max_size=4)] * 2),
    zero=st.sampled_from([0, 3]),
    prefetch=st.integers(0, 4),
    ahead=st.booleans(),
)
@settings(max_examples=times(60), deadline=None)
def test_any_dlrm_is_what_its_formulas_say(
    ranks: int,
    batch: int,
    more: int,
    sizes: tuple[int, int],
    widths: tuple[list[int], list[int]],
    zero: int,
    prefetch: int,
    ahead: bool,
) -> None:
    (dimension, pooling), (bottom, top) = sizes, widths
    job = DlrmJob(
        ranks=ranks,
        batch=batch,
        tables=ranks + more,
        dimension=dimension,
        pooling=pooling,
        bottom=tuple(bottom),
        top=tuple(top),
        zero=zero,
        prefetch=prefetch,
        data_prefetch=ahead,
        **FAST,
    )
    made = generate_dlrm(job)
    check_made(made)
    parameters = sum(a * b for own in widths for a, b in pairwise(own))
    rows = -(-batch * (ranks + more) // ranks) * ranks
    computed = sum(op.duration_us for op in made.computation())
    update = 28 * parameters / (ranks if zero else 1)
    wanted = 6 * batch * parameters + update + 2 * rows * dimension * (pooling + 1) * 4
    assert computed == pytest.approx(wanted, rel=1e-6, abs=0.01)
    exchanged = sum(op.size_bytes for op in made.collectives() if op.collective == "alltoall")
    assert exchanged == rows * (2 * dimension * 4 + 8 * (1 + pooling))


WILD = st.one_of(
    *(st.sampled_from([0, 1, 2, 3, 4, 8]), st.integers(), st.floats(), st.booleans()),
    *(st.text(max_size=5), st.lists(st.integers(-1, 9), max_size=3).map(tuple)),
    *(st.sampled_from(["none", "full", "float32"]), st.sampled_from([2**16, 2**50, 1e300])),
)
"""Values of any kind. Types restrict the values of a parameter, and these are possible ones."""


def typed(name: str, value: object, default: object) -> bool:
    """Return whether a value is of the type that its option converts to."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if name in ("bottom", "top", "depths", "widths"):
        return isinstance(value, tuple)
    if isinstance(default, float):
        return isinstance(value, float)
    return isinstance(value, str if isinstance(default, str) else int)


BASES: dict[str, dict[str, Any]] = {
    "transformer": {**SMALL, "dp": 2},
    "moe": {**SMALL, "dp": 2, "experts": 2},
    "dlrm": TABLES,
    "convolutional": {"depths": (1,), "widths": (8,), "dp": 2},
}


@given(data=st.data(), family=st.sampled_from(list(FAMILIES)))
@settings(max_examples=times(400, by_day=200), deadline=None)
def test_wild_parameters_are_taken_or_refused_in_a_sentence(
    data: st.DataObject, family: str
) -> None:
    known = {f.name: f.default for f in fields(FAMILIES[family].job)} | {"ranks": 0}
    changed = {
        name: value
        for name, value in data.draw(
            st.dictionaries(st.sampled_from(sorted(known)), WILD, max_size=3)
        ).items()
        if typed(name, value, known[name])
    }
    said = ""
    try:
        generate_workload(family, {**BASES[family], **changed})
    except InputError as error:
        said = str(error)
    assert "\n" not in said
