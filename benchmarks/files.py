"""Time ``sccl`` processes that read and write files of other tools."""

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
"""Targets in seconds on an idle machine: for a captured file, for a pod of 1,024 GPUs, and for an
export by number of ranks."""

_PLANS = (("ring", "allgather", "ring:{}"), ("direct", "alltoall", "full:{}"))
"""Algorithm, collective, and machine of each exported plan."""

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
        what: Action and format.
        files: Number of timed files, each timed once.
        target_seconds: Target for each file.
        slowest: Name of the file with the longest processor time.
        seconds: Wall-clock time of this file.
        user_seconds: Processor time of this file, which depends less on other load.
    """

    what: str
    files: int
    target_seconds: float
    slowest: str
    seconds: float
    user_seconds: float


def run(samples: Path | None, *, smoke: bool) -> Iterator[FilesResult]:
    """Yield the times of every format: machines read, then plans written.

    Args:
        samples: Folder of captured files, read in addition to the example of each reader.
        smoke: Whether to read only the examples and write plans of 8 ranks in one format.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield from _read(Path(folder), None if smoke else samples)
        if not smoke:
            pod = Path(folder, "pod.yaml")
            pod.write_text(_POD)
            yield _slowest(
                "read infragraph, 1,024 GPUs", POD_S, [("pod", _time_import(pod, "infragraph"))]
            )
        yield from _written(Path(folder), smoke=smoke)


def _read(folder: Path, samples: Path | None) -> Iterator[FilesResult]:
    files: dict[str, list[Path]] = {}
    for name in importers.importer_names():
        example = folder / f"{name}.txt"
        example.write_text(importers.load_importer(name).EXAMPLE)
        files[name] = [example]
    for path in sorted(samples.rglob("*")) if samples else ():
        if (
            path.is_file()
            and path.stat().st_size <= importers.MAX_BYTES
            and (name := _detect_format(path))
        ):
            files[name].append(path)
    for name, paths in files.items():
        runs = [(path.name, _time_import(path, name)) for path in paths]
        yield _slowest(f"read {name}", SAMPLE_S, runs)


def _detect_format(path: Path) -> str:
    """Return the format of a file, or an empty string if no reader takes it as a machine."""
    try:
        text = importers.decode_text(path.read_bytes(), path.name)
        return importers.read_machine(text, importers.Hints("machine"), path.name)[0].NAME
    except InputError:
        return ""


def _time_import(path: Path, name: str) -> Run:
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
                runs = [(path.stem, _time_export(path, form.NAME, ranks)) for path in taken]
                yield _slowest(f"write {form.NAME}, {ranks} ranks", EXPORT_S[ranks], runs)


def _time_export(path: Path, name: str, ranks: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        sized = ("--size", f"{ranks}MB") if formats.load(name).BY_SIZE else ()
        words = ("--format", name, *sized, "-o", str(Path(folder, "out")))
        return measure("export", str(path), *words)


def _slowest(action: str, target: float, runs: list[tuple[str, Run]]) -> FilesResult:
    name, slowest = max(runs, key=lambda pair: pair[1].user_seconds)
    return FilesResult(action, len(runs), target, name, slowest.seconds, slowest.user_seconds)
