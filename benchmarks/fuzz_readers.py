"""Readers of foreign files: importers, formats, traces, and sccl's own kinds of files."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sccl
from sccl import formats
from sccl.core.algorithm import Algorithm
from sccl.core.files.json_text import parse, to_text
from sccl.core.files.shapes import TopologyWire
from sccl.core.files.topologies import topology_from_wire, topology_to_wire
from sccl.core.outcome import Plan
from sccl.core.schedule import Schedule
from sccl.core.topology import Topology
from sccl.errors import ScclError
from sccl.formats.common.contract import SizedPlan
from sccl.formats.common.program_check import run_graph
from sccl.formats.common.program_graph import StepProgram
from sccl.formats.files.export_plans import parse_options
from sccl.formats.files.plans import load_plan, write_plan
from sccl.judge import violations
from sccl.synth.sketches.sketch_files import sketch_from_text, sketch_to_wire
from sccl.synth.taccl.fitted_sketch import fit_sketch
from sccl.synth.taccl.sketch_sentences import drawing_notes, sketch_rows, sketch_sentences
from sccl.synth.tacos import matching_problem
from sccl.topo import importers, resolve_topology
from sccl.topo.importers import Hints
from sccl.training.files.workloads import workload_from_text, workload_to_wire
from sccl.training.traces import TraceHints, read_workload
from sccl.training.traces import readers as trace_readers
from sccl.transform.retime import schedule_algorithm

MAX_SEED = 2**16
"""Greatest size of a seed file in bytes, because small files show the same faults sooner."""

_TECCL = b"""{"1-Epoch_Duration": 1.0,
"7-Flows": ["Chunk 0 from 0 traveled over 0->1 in epoch 0",
"Chunk 0 from 1 traveled over 1->0 in epoch 0"],
"8-Chunk paths": {"Demand at 1 for chunk 0 from 0 met by epoch 0": [],
"Demand at 0 for chunk 0 from 1 met by epoch 0": []}}
"""
_FORESTCOLL = (
    b'<Algo nchunkspernode="1">\n<tree root="0" index="0" nchunks="1" height="1">\n'
    b'<send src="0" dst="1" path="0,1"/>\n</tree>\n<tree root="1" index="0" nchunks="1" height="1">'
    b'\n<send src="1" dst="0" path="1,0"/>\n</tree>\n</Algo>\n'
)


_SKETCH = b"""{"nnodes": 2, "symmetry_offsets": [[2, 4]],
"intranode_sketch": {"strategy": "switch", "switches": [[0, 1]],
"switch_hyperedge_strategy": ["uc-min"], "intranode_conn": {"0": [1], "1": [0]}},
"internode_sketch": {"strategy": "relay", "internode_conn": {"0": [1]}, "beta_split": {"0": 2},
"gpus_to_sender_rev_map": {"0": [0, 1]}, "enforce_ordering": true},
"hyperparameters": {"input_chunkup": 2, "input_size": "1M"}}
"""
"""A sketch for four fully connected ranks."""


class BrokenPromiseError(AssertionError):
    """A reader accepted a file with a wrong result."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader of arbitrary bytes.

    Attributes:
        read: Function that raises an :class:`~sccl.errors.InputError` if it refuses its input.
        seeds: Files that the reader accepts or should accept.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]


def readers(samples: Path | None) -> Iterator[Reader]:
    """Yield the readers with their seed files.

    Args:
        samples: Folder of more files. Each is a seed of every reader that recognizes it.
    """
    contents = (
        [] if samples is None else [_content(p) for p in sorted(samples.rglob("*")) if p.is_file()]
    )
    for name in importers.importer_names():
        importer = importers.load_importer(name)
        texts = [
            importer.EXAMPLE.encode(),
            *(c for c in contents if _recognizes(importer.sniff, c)),
        ]
        yield Reader(f"topo {name}", _importing(name), tuple(dict.fromkeys(texts)))
    for name in formats.names():
        form = formats.load(name)
        if not any(form.sniff(content) for content in _written(name)):
            continue
        recognized = [content for content in contents if form.sniff(content)]
        yield Reader(
            f"plan {name}", form_reader(name), tuple(dict.fromkeys((*_written(name), *recognized)))
        )
    for name in trace_readers.names():
        reader = trace_readers.load(name)
        recognized = [content for content in contents if reader.sniff(content)]
        seeds = tuple(dict.fromkeys((reader.EXAMPLE, *recognized)))
        yield Reader(f"trace {name}", _tracing(name), seeds)
    yield Reader(
        "own workload", _workload, (_traced("kineto", trace_readers.load("kineto").EXAMPLE),)
    )
    for kind, content in _write_own_files().items():
        yield Reader(f"own {kind}", _loading(kind), (content,))
    yield Reader("own sketch", _sketching, (_SKETCH,))


def _content(path: Path) -> bytes:
    content = path.read_bytes()[: 2 * MAX_SEED]
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(path.read_bytes())
        except (OSError, EOFError):
            return b""
    return content if len(content) <= MAX_SEED else b""


def _recognizes(sniff: Callable[[str], bool], content: bytes) -> bool:
    return bool(content) and sniff(content.decode("utf-8", "replace"))


def _importing(name: str) -> Callable[[bytes], object]:
    def read(content: bytes) -> object:
        text = importers.decode_text(content, "it")
        machine = importers.read_machine(text, Hints("it"), "it", name)[1]
        importers.load_importer(name).sniff(text)
        _check_round_trip(machine.topology)
        return machine.topology.name

    return read


def _check_round_trip(topology: Topology) -> None:
    """Check that a machine stays the same after writing and reading.

    Raises:
        BrokenPromiseError: The machine differs.
    """
    again = topology_from_wire(parse(to_text(topology_to_wire(topology)), TopologyWire, "it"), "it")
    if again != topology:
        raise BrokenPromiseError("a machine is not the same when it is written and read again")


def form_reader(name: str) -> Callable[[bytes], object]:
    """Return a function that reads a format and executes the plan, as 'sccl check' does."""

    def read(content: bytes) -> object:
        formats.detect_format(content)
        plan = formats.load(name).read(content, "it").plan
        if isinstance(plan, StepProgram):
            return [len(run_graph(calling.graph).faults) for calling in plan.call_modes]
        return None if plan is None else len(violations(plan))

    return read


def _sketching(content: bytes) -> object:
    sketch = sketch_from_text(importers.decode_text(content, "it"), "it")
    if sketch_from_text(to_text(sketch_to_wire(sketch)), "it") != sketch:
        raise BrokenPromiseError("a sketch is not the same when it is written and read again")
    fit = fit_sketch(sketch, resolve_topology("full:4"))
    return len(sketch_sentences(fit, None)), len(sketch_rows(sketch, fit)), len(drawing_notes(fit))


def _tracing(name: str) -> Callable[[bytes], object]:
    def read(content: bytes) -> object:
        trace_readers.load(name).sniff(content)
        return len(_traced(name, content))

    return read


def _traced(name: str, content: bytes) -> bytes:
    """Return the file of the workload in a trace."""
    hints = TraceHints(
        name,
        ranks=4 if name in {"astra", "chakra"} else None,
        alike=True,
        host_time=name == "kineto" and len(content) % 2 == 0,
    )
    workload = read_workload([("it", content)], hints, "it").workload
    text = to_text(workload_to_wire(workload))
    if workload_from_text(text, "it") != workload:
        raise BrokenPromiseError("a workload is not the same when it is written and read again")
    return text.encode()


def _workload(content: bytes) -> object:
    workload = workload_from_text(importers.decode_text(content, "it"), "it")
    if workload_from_text(to_text(workload_to_wire(workload)), "it") != workload:
        raise BrokenPromiseError("a workload is not the same when it is written and read again")
    return len(workload.ops)


def _loading(kind: str) -> Callable[[bytes], object]:
    folder = tempfile.TemporaryDirectory(prefix="sccl-fuzz-")  # deleted together with the reader

    def read(content: bytes) -> object:
        place = Path(folder.name, kind)
        place.write_bytes(content)
        if kind == "topology":
            topology = resolve_topology(str(place.rename(place.with_suffix(".json"))))
            _check_round_trip(topology)
            return topology.name
        return len(violations(load_plan(place, lambda *_: None)[0]))

    return read


@cache
def _plans() -> tuple[Algorithm, ...]:
    sweeps = [sccl.pareto(c, "ring:3") for c in ("allgather", "reducescatter", "alltoall")]
    points = [point.algorithm for sweep in sweeps for point in sweep.points]
    return tuple(
        algorithm.value
        for algorithm in points
        if algorithm and isinstance(algorithm.value, Algorithm)
    )


def _schedule() -> Schedule:
    return schedule_algorithm(_plans()[0], 1000)


def _packed() -> Plan:
    """Return a packed schedule of a machine that is usually too small for one."""
    minimum, matching_problem.MIN_PACKED_SENDS = matching_problem.MIN_PACKED_SENDS, 0
    try:
        return sccl.tacos("allgather", "mesh:3x3", size=9000).value
    finally:
        matching_problem.MIN_PACKED_SENDS = minimum


def _written(name: str) -> Sequence[bytes]:
    """Return sccl's exports to a format, or a sample file."""
    if name in {"teccl", "forestcoll"}:
        return [_TECCL if name == "teccl" else _FORESTCOLL]
    form, contents = formats.load(name), []
    for i, plan in enumerate(_plans()):
        try:
            written = form.write(
                [SizedPlan(f"p{i}", plan, size_bytes=None)], parse_options(form, [])
            )
        except (ScclError, AssertionError):
            continue  # other plans only, or not readable
        contents += [bytes(content) for content in written.files.values()]
    return contents


def _write_own_files() -> dict[str, bytes]:
    """Return small files of sccl's own kinds."""
    files = {"topology": to_text(topology_to_wire(resolve_topology("rfs:2x2x2"))).encode()}
    plans: dict[str, Plan] = {
        "algorithm": _plans()[0],
        "schedule": _schedule(),
        "packed-schedule": _packed(),
    }
    with tempfile.TemporaryDirectory() as folder:
        for kind, plan in plans.items():
            path = Path(folder, kind)
            write_plan(path, plan)
            files[kind] = path.read_bytes()
    return files
