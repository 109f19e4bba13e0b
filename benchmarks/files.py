"""Files of others, read and written by ``sccl`` as a user starts it: whole processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import Run, measure
from sccl import formats
from sccl.errors import InputError
from sccl.topo import importers

SAMPLE_S, POD_S, EXPORT_S = 0.5, 10.0, {8: 1.0, 64: 10.0}
"""What shall be taken at most, on an idle machine: by any captured file, by a pod of 1,024 GPUs,
and by an export of so many ranks."""

_PLANS = (("ring", "allgather", "ring:{}"), ("direct", "alltoall", "full:{}"))
"""Of each number of ranks: the algorithm, its collective, its machine."""

_NO_ALLTOALL = frozenset({"tuner-csv"})

_POD = """\
name: pod
devices:
- name: box
  components:
  - {name: xpu, choice: xpu, count: 8, description: NVIDIA H100}
  - {name: nvsw, choice: switch, count: 4}
  - {name: nic, choice: nic, count: 8}
  links:
  - {name: nvlink}
  - {name: pcie, description: PCIe gen5}
  edges:
  - {ep1: {component: xpu}, ep2: {component: nvsw}, scheme: many2many, link: nvlink}
  - {ep1: {component: xpu}, ep2: {component: nic}, scheme: one2one, link: pcie}
- name: switch
  components:
  - {name: port, choice: port, count: 1024}
  - {name: asic, choice: switch, count: 1}
  edges:
  - {ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: ic}
links:
- name: ethernet
  physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}
instances:
- {name: host, device: box, count: 128}
- {name: rack, device: switch, count: 1}
edges:
- ep1: {instance: host, component: nic}
  ep2: {instance: rack, component: port}
  scheme: one2one
  link: ethernet
"""


@dataclass(frozen=True, slots=True)
class FilesResult:
    """How long ``sccl`` takes over files of a format.

    Attributes:
        what: that is done, and with which format.
        files: how many of them were timed, each once.
        target_seconds: what each shall take at most.
        slowest: which took the most of the processor.
        seconds: of that one, wall clock.
        user_seconds: of the processor, which other work on the machine changes less.
    """

    what: str
    files: int
    target_seconds: float
    slowest: str
    seconds: float
    user_seconds: float


def run(samples: Path | None, *, smoke: bool) -> Iterator[FilesResult]:
    """Yield what every format takes: machines read, then plans written.

    Args:
        samples: folder of captured files, beside the example of each reader.
        smoke: of a format only the example, and plans of 8 ranks in one format.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield from _read(Path(folder), None if smoke else samples)
        if not smoke:
            pod = Path(folder, "pod.yaml")
            pod.write_text(_POD)
            yield _of("read infragraph, 1,024 GPUs", POD_S, [("pod", _imported(pod, "infragraph"))])
        yield from _written(Path(folder), smoke=smoke)


def _read(folder: Path, samples: Path | None) -> Iterator[FilesResult]:
    found: dict[str, list[Path]] = {}
    for name in importers.importer_names():
        example = folder / f"{name}.txt"
        example.write_text(importers.load_importer(name).EXAMPLE)
        found[name] = [example]
    for path in sorted(samples.rglob("*")) if samples else ():
        if path.is_file() and path.stat().st_size <= importers.MAX_BYTES and (name := _kind(path)):
            found[name].append(path)
    for name, paths in found.items():
        runs = [(path.name, _imported(path, name)) for path in paths]
        yield _of(f"read {name}", SAMPLE_S, runs)


def _kind(path: Path) -> str:
    """Return whose file it is, empty where it is not read as a machine."""
    try:
        text = importers.decode_text(path.read_bytes(), path.name)
        return importers.read_machine(text, importers.Hints("machine"), path.name)[0].NAME
    except InputError:
        return ""


def _imported(path: Path, name: str) -> Run:
    return measure("topo", "import", str(path), "--format", name, "--json")


def _written(folder: Path, *, smoke: bool) -> Iterator[FilesResult]:
    for ranks in (8,) if smoke else EXPORT_S:
        plans = []
        for algorithm, collective, machine in _PLANS:
            path = folder / f"{algorithm}-{ranks}.json"
            words = ("--collective", collective, "--topo", machine.format(ranks), "-o", str(path))
            measure("baseline", algorithm, *words)
            plans.append(path)
        for form in map(formats.load, ("csv",) if smoke else formats.names()):
            if form.TAKES:
                taken = plans[:1] if form.NAME in _NO_ALLTOALL else plans
                runs = [(path.stem, _exported(path, form.NAME, ranks)) for path in taken]
                yield _of(f"write {form.NAME}, {ranks} ranks", EXPORT_S[ranks], runs)


def _exported(path: Path, name: str, ranks: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        sized = ("--size", f"{ranks}MB") if formats.load(name).BY_SIZE else ()
        words = ("--format", name, *sized, "-o", str(Path(folder, "out")))
        return measure("export", str(path), *words)


def _of(what: str, target: float, runs: list[tuple[str, Run]]) -> FilesResult:
    name, slowest = max(runs, key=lambda pair: pair[1].user_seconds)
    return FilesResult(what, len(runs), target, name, slowest.seconds, slowest.user_seconds)
