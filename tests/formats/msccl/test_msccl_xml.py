"""MSCCL programs: written within all limits, read, executed at any speed of thread blocks."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from sccl.core.algorithm import Algorithm
from sccl.errors import InputError, TooLargeError
from sccl.formats import msccl_xml
from sccl.formats.common.contract import SizedPlan
from sccl.formats.common.program_check import run_graph
from sccl.formats.common.program_graph import StepProgram
from sccl.formats.files.import_plan import import_plan
from sccl.formats.msccl.msccl_graph import build_graph
from sccl.formats.msccl.msccl_program import (
    MscclBlock,
    MscclProgram,
    MscclStep,
    format_program,
    parse_program,
)
from sccl.formats.msccl.msccl_rules import RUNTIMES, find_violations
from tests.kit.easy_algorithms import MACHINES, frontier
from tests.kit.formats import program_faults
from tests.kit.nightly import times
from tests.kit.samples import sample
from tests.kit.slow_msccl import runs_correctly

DIALECTS = tuple(msccl_xml.Dialect)
RCCL = msccl_xml.Dialect.RCCL


def written(algorithm: Algorithm, dialect: msccl_xml.Dialect, channels: int = 1) -> list[bytes]:
    """Return the files of an algorithm."""
    options = msccl_xml.MscclOptions(dialect=dialect, channels=channels)
    return list(msccl_xml.write([SizedPlan("plan", algorithm)], options).files.values())


def program(algorithm: Algorithm) -> MscclProgram:
    """Return the program that RCCL would run."""
    return parse_program(written(algorithm, RCCL)[0], "file")


@pytest.mark.parametrize(
    ("machine", "collective"),
    [
        pytest.param(m, c, marks=[pytest.mark.nightly] * ((m, c) == ("torus:3x3", "alltoall")))
        for m in MACHINES
        for c in msccl_xml.COLLECTIVES
    ],
)
def test_every_point_is_written_and_read_back_right(machine: str, collective: str) -> None:
    for algorithm in frontier(machine, collective):
        for dialect in DIALECTS:
            for content in written(algorithm, dialect):
                read = msccl_xml.read(content, "file")
                assert isinstance(read.plan, StepProgram)
                assert read.plan.collective == algorithm.collective
                assert program_faults(read.plan) == []
                assert find_violations(parse_program(content, ""), content, RUNTIMES[dialect]) == []


@pytest.mark.parametrize("collective", msccl_xml.COLLECTIVES)
@pytest.mark.parametrize("machine", ["ring:4", "star:4", "z52", "circulant:6:1,2"])
def test_runs_by_chance_end_right(machine: str, collective: str) -> None:
    for algorithm in frontier(machine, collective):
        found = program(algorithm)
        for in_place in (False, True)[: 1 + (collective != "alltoall")]:
            for seed in range(times(2)):
                assert runs_correctly(
                    found, algorithm.collective.root or 0, seed, in_place=in_place
                )


def mutated(found: MscclProgram, draw: random.Random) -> MscclProgram:
    """Return a program with one thing changed."""
    rank = draw.choice([r for r, gpu in enumerate(found.gpus) if any(b.steps for b in gpu.blocks)])
    gpu = found.gpus[rank]
    number = draw.choice([b for b, block in enumerate(gpu.blocks) if block.steps])
    block = gpu.blocks[number]
    s = draw.randrange(len(block.steps))
    steps = list(block.steps)
    match draw.randrange(7):
        case 0:
            steps[s] = replace(steps[s], dep=None)
        case 1:
            del steps[s]
        case 2:
            steps[s : s + 2] = reversed(steps[s : s + 2])
        case 3:
            steps[s] = replace(steps[s], signals=not steps[s].signals)
        case 4:
            steps[s] = replace(steps[s], src=(steps[s].src[0], draw.randrange(found.chunks)))
        case 5:
            steps[s] = replace(steps[s], type=draw.choice(("r", "s", "rrc", "rcs", "cpy", "re")))
        case _:
            other = draw.randrange(len(gpu.blocks))
            last = max(0, len(gpu.blocks[other].steps) - 1)
            steps[s] = replace(steps[s], dep=(other, draw.randint(0, last)))
    return _with(found, rank, number, replace(block, steps=tuple(steps)))


def _with(found: MscclProgram, rank: int, number: int, block: MscclBlock) -> MscclProgram:
    gpu = found.gpus[rank]
    blocks = (*gpu.blocks[:number], block, *gpu.blocks[number + 1 :])
    gpus = (*found.gpus[:rank], replace(gpu, blocks=blocks), *found.gpus[rank + 1 :])
    return replace(found, gpus=gpus)


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "reducescatter", "broadcast"])
def test_random_failures_were_predicted(collective: str) -> None:
    """Programs without reported faults run correctly: 12 runs of each of 200 changed programs."""
    draw = random.Random(11)  # noqa: S311 - the same changes every time
    said = Counter[bool]()
    for algorithm in frontier("ring:4", collective)[:2]:
        root = algorithm.collective.root or 0
        for _ in range(times(100, by_day=50)):
            found = mutated(program(algorithm), draw)
            for calling in build_graph(found).call_modes:
                wrong = bool(calling.faults or run_graph(calling.graph).faults)
                said[wrong] += 1
                in_place = calling.name == "in place"
                if not wrong:
                    assert all(runs_correctly(found, root, k, in_place=in_place) for k in range(12))
    assert min(said[True], said[False]) > 20


def test_each_fault_is_named_with_thread_block_step_and_chunk() -> None:
    """In a broadcast over a line of three, rank 1 forwards its data."""
    found = program(frontier("line:3", "broadcast", 0)[0])
    rank, number, block = next((r, b, x) for r, b, x in found.blocks() if r == 1)
    assert [step.type for step in block.steps] == ["rcs"]
    early = (replace(block.steps[0], type="s", src=("o", 0)), replace(block.steps[0], type="r"))
    broken = _with(found, rank, number, replace(block, steps=early))
    (fault, *_) = program_faults(build_graph(broken))
    assert (fault.kind, fault.rank, fault.block, fault.step, fault.chunk) == (
        "unwritten",
        1,
        0,
        0,
        0,
    )
    assert "rank 1, thread block 0, step 0 (s) reads output chunk 0 of rank 1" in fault.message
    nobody = replace(block, steps=())
    kinds = {f.kind for f in program_faults(build_graph(_with(found, rank, number, nobody)))}
    assert kinds == {"deadlock", "unreceived"}


def ring_of_two(*steps: str, proto: str = "Simple") -> MscclProgram:
    """Return a program of two ranks that both run some steps on chunk 0."""
    lines = tuple(MscclStep(kind, ("i", 0), ("o", 0), 1, None, False) for kind in steps)
    gpu = replace(program(frontier("ring:4", "allreduce")[0]).gpus[0], blocks=())
    gpus = tuple(
        replace(gpu, inputs=1, outputs=1, scratch=0, blocks=(MscclBlock(1 - r, 1 - r, 0, lines),))
        for r in range(2)
    )
    names = ("name", "nchannels", "ngpus", "coll", "inplace", "outofplace", "minBytes", "maxBytes")
    values = ("x", "1", "2", "custom", "0", "1", "0", "8")
    attributes = dict(zip(names, values, strict=True)) | {"proto": proto, "nchunksperloop": "1"}
    return MscclProgram(attributes, 1, gpus)


def test_queues_have_few_places() -> None:
    """Two lie in a queue of Simple, eight in one of LL: the third sender waits for ever."""
    three = ("s",) * 3 + ("r",) * 3
    assert program_faults(build_graph(ring_of_two(*three, proto="LL"))) == []
    (fault,) = program_faults(build_graph(ring_of_two(*three)))
    assert (fault.kind, fault.step) == ("deadlock", 2)
    nine = ("s",) * 9 + ("r",) * 9
    (fault,) = program_faults(build_graph(ring_of_two(*nine, proto="LL")))
    assert fault.kind == "deadlock"


def changed(found: MscclProgram, **attributes: str) -> str:
    """Return the broken rules of the msccl dialect after a change of attributes."""
    other = replace(found, attributes={**found.attributes, **attributes})
    return " | ".join(find_violations(other, format_program(other).encode(), RUNTIMES["msccl"]))


def test_programs_that_no_runtime_runs_as_written_are_reported() -> None:
    found = ring_of_two("s", "r")
    assert changed(found) == ""
    assert "coll is 'reducescatter'" in changed(found, coll="reducescatter")
    assert "nchannels is '2', and thread blocks use 1" in changed(found, nchannels="2")
    (block,) = found.gpus[0].blocks
    for steps, says in (
        ((replace(block.steps[0], type="nop", dep=(0, 0)), block.steps[0]), "is no chain"),
        ((replace(block.steps[0], src=("s", 0)),), "chunks 0 to 0 of s, of 0"),
    ):
        one = _with(found, 0, 0, replace(block, steps=steps))
        assert says in changed(one), says
    twice = replace(found, gpus=(replace(found.gpus[0], blocks=(block, block)), found.gpus[1]))
    assert "2 thread blocks send over channel 0 with rank 1, at most one may" in changed(twice)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"<algo", b"<?xml version='1.0'?>\n<algo", "it begins with an XML declaration"),
        (b"\n  <gpu", b"\n\t<gpu", "it has tabs"),
        (b' proto="', b'\nproto="', "an element spans several lines"),
        (b' proto="', b' proto= "', "spaces around ="),
        (b' outofplace="1"', b"", "algo has no attribute outofplace"),
        (b' minBytes="0"', b"", "algo has no attribute minBytes"),
    ],
)
def test_parser_pitfalls_are_reported(old: bytes, new: bytes, says: str) -> None:
    content = written(frontier("ring:4", "allgather")[0], RCCL)[0]
    read = msccl_xml.read(content.replace(old, new, 1), "file")
    assert says in " | ".join((*read.notes, *read.refused))


def test_messages_spread_over_channels_where_steps_are_too_many() -> None:
    """An alltoall on a ring of four with so many chunks needs more than 64 steps."""
    base = frontier("ring:4", "alltoall")[0]
    factor = 64
    spec = replace(
        base.collective,
        chunks=base.collective.chunks * factor,
        num_chunks=base.collective.num_chunks * factor,
    )
    sends = tuple(
        replace(send, chunk=type(send.chunk)(send.chunk + part * base.collective.num_chunks))
        for send in base.sends
        for part in range(factor)
    )
    rounds = tuple(r * factor for r in base.rounds_per_step)
    split = replace(base, collective=spec, sends=sends, rounds_per_step=rounds)
    channels = {}
    for dialect in DIALECTS:
        content = written(split, dialect)[0]
        channels[dialect] = int(parse_program(content, "").attributes["nchannels"])
    assert channels[msccl_xml.Dialect.MSCCL] < channels[RCCL]
    assert int(parse_program(written(base, RCCL, 4)[0], "").attributes["nchannels"]) >= 4


@pytest.mark.parametrize(
    ("dialect", "name"), [("msccl", "reduce_scatter"), ("azure", "reducescatter")]
)
def test_dialects_differ_in_names(dialect: str, name: str) -> None:
    for content in written(frontier("ring:4", "reducescatter")[0], msccl_xml.Dialect(dialect)):
        assert parse_program(content, "").attributes["coll"] == name


def test_gathers_are_nobodys_collective() -> None:
    with pytest.raises(InputError, match="gather is no collective that ROCm/rccl"):
        written(frontier("ring:4", "gather")[0], RCCL)


FACTS = {
    # file: (ranks, collective, number of sent chunks if stated, faults)
    "allreduce_ring_8ch_ll128_8gpu.xml": (8, "allreduce", None, set()),
    "allreduce_allpairs_ll_8gpu.xml": (8, "allreduce", None, set()),
    "allreduce_ndv2_8gpu_nop_rrs.xml": (8, "allreduce", None, {"deadlock"}),
    "custom_alltonext_24gpu.xml": (24, "custom", 424, {"race"}),
    "allreduce_small_ll_minmaxbytes_8gpu.xml": (8, "allreduce", None, {"missing"}),
    "allreduce_tree_ncv4_ll_4gpu.xml": (4, "allreduce", None, set()),
    "allgather_ndv4_ll_8gpu.xml": (8, "allgather", None, set()),
    "allgather_allpairs_rccl_ll_8gpu.xml": (8, "allgather", None, set()),
    "alltoall_rccl_comment_first_8gpu.xml": (8, "alltoall", None, set()),
    "allgather_rccl_comment_first_8gpu.xml": (8, "allgather", None, set()),
    "allgather_hierarchical_collectiveapi_8gpu.xml": (8, "allgather", 56, set()),
    "allreduce_pairs_2gpu.xml": (2, "allreduce", None, set()),
    "teccl_allgather_a800_4gpu.xml": (4, "allgather", None, set()),
    "teccl_allgather_amd_32gpu.xml.gz": (32, "allgather", 1984, set()),
}


@pytest.mark.parametrize("name", FACTS)
def test_public_programs_are_read_and_executed(name: str) -> None:
    content = sample(f"msccl_xml/{name}").read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    ranks, collective, chunks, kinds = FACTS[name]
    assert msccl_xml.sniff(content)
    read = msccl_xml.read(content, name)
    assert isinstance(read.plan, StepProgram)
    assert (read.plan.collective.ranks, read.plan.collective.name) == (ranks, collective)
    assert {fault.kind for fault in program_faults(read.plan)} == kinds
    raw = parse_program(content, name)
    sent = [
        s.count for *_, b in raw.blocks() for s in b.steps if s.type in {"s", "rcs", "rrs", "rrcs"}
    ]
    if chunks is not None:
        assert sum(sent) == chunks
    if name.startswith("teccl_allgather_amd"):
        assert sum(1 for _ in raw.blocks()) == 532
        assert sum(len(b.steps) for *_, b in raw.blocks()) == 3886
    if name == "allgather_hierarchical_collectiveapi_8gpu.xml":
        assert len(sent) == 32


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('cnt="1"', 'cnt="129"', "cnt is 129; runtimes take up to 71, and up to 128 are read"),
        ('nchunksperloop="3"', 'nchunksperloop="65539"', "most would never be moved"),
    ],
)
def test_programs_that_would_take_minutes_are_rejected(old: str, new: str, says: str) -> None:
    (algorithm, *_) = frontier("ring:3", "alltoall")
    plan = SizedPlan("p", algorithm)
    (content,) = msccl_xml.write([plan], msccl_xml.Options()).files.values()
    assert old.encode() in content
    with pytest.raises(TooLargeError, match=says):
        msccl_xml.read(content.replace(old.encode(), new.encode(), 1), "it")


def test_msccl_xml_lists_unused_attributes() -> None:
    text = written(frontier("ring:4", "allgather")[0], RCCL)[0]
    assert not any("not used" in note for note in msccl_xml.read(text, "file").notes)
    text = text.replace(b' chan="', b' priority="1" chan="').replace(b"</algo>", b"<hint/></algo>")
    assert "not used: priority of <tb>, <hint>" in msccl_xml.read(text, "file").notes


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_rooted_program_is_imported(collective: str, tmp_path: Path) -> None:
    algorithm = frontier("line:3", collective, 0)[0]
    (tmp_path / "plan.xml").write_bytes(written(algorithm, RCCL)[0])
    imported = import_plan(tmp_path / "plan.xml", tmp_path / "plan.json", "line:3")
    assert imported.algorithm.collective == algorithm.collective
