"""The doctor: what of this machine sccl can use, and how to get the rest."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.files.fields import Part
from sccl.runtime import Check, Outcome, State, mpi_folder, try_all
from sccl.tasks.outputs import Output

_REINSTALL = "reinstall sccl with its dependencies (in its folder: pip install .)"
_ABSENT = "No module named"
_QUESTION = "--collective allgather --topo ring:4 --chunks 1 --steps 2 --rounds 2"
_COMMAND = "from sccl.cli.main import app; app()"
_REFUTED = (("x.cnf", "p cnf 1 2\n1 0\n-1 0\n"), ("x.drat", "0\n"))


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


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the report.

    Attributes:
        use: what the tool is for.
        get: how to get it, in one line.
        needed: whether the main job, ``sccl pareto``, needs it.
    """

    group: str
    name: str
    use: str
    get: str
    check: Check
    needed: bool = False


Tried = Sequence[tuple[Row, Outcome]]


def examined() -> Tried:
    """Try every tool and return what came of it."""
    rows = list(_rows())
    return list(zip(rows, try_all([row.check for row in rows]), strict=True))


def usable(tried: Tried) -> bool:
    """Return whether the main job can be done."""
    return all(outcome.state is State.OK for row, outcome in tried if row.needed)


def doctor_output(tried: Tried) -> DoctorOutput:
    """Return what was tried."""
    parts = tuple(_part(*one) for one in tried)
    return DoctorOutput(inputs={}, usable=usable(tried), checks=parts)


def _part(row: Row, outcome: Outcome) -> ToolPart:
    works = outcome.state is State.OK
    return ToolPart(
        group=row.group,
        name=row.name,
        state=outcome.state.value,
        version=outcome.version,
        path=outcome.path,
        needed=row.needed,
        use=row.use if works else "",
        problem=outcome.problem,
        get="" if works else row.get,
    )


def _rows() -> Iterator[Row]:
    yield from _solvers()
    yield from _compilers()
    yield from _gpu()
    yield from _more()


def _python(code: str, package: str, *arguments: str, says: str = "") -> Check:
    """Return the check of a package: -P, so that no file of the current folder is run."""
    try:
        known = version(package)
    except PackageNotFoundError:
        known = ""
    return Check((sys.executable, "-P", "-c", code, *arguments), says, known, absent=_ABSENT)


def _solvers() -> Iterator[Row]:
    asked = ("solve", *_QUESTION.split(), "--no-store", "--json", "--timeout", "20", "--solver")
    for name, package, use in (
        ("cpsat", "ortools", "the default; the main job needs it"),
        ("cadical", "python-sat", "a SAT solver, also for proofs"),
        ("z3", "z3-solver", "the paper's encoding, the reference"),
    ):
        check = _python(_COMMAND, package, *asked, name, says='"answer": "sat"')
        yield Row("Solvers", name, use, _REINSTALL, check, needed=name == "cpsat")
    smt2 = _python(_COMMAND, "pysmt", "smt2", *_QUESTION.split(), says=r"\(check-sat\)")
    yield Row("Solvers", "smt2", "problems as text, for any SMT solver", _REINSTALL, smt2)
    trim = Check(("drat-trim", "x.cnf", "x.drat"), "s VERIFIED", files=_REFUTED)
    yield Row(
        *("Solvers", "drat-trim", "a second checker of proofs"),
        "optional: build its one C file (github.com/marijnheule/drat-trim) and put it on the PATH",
        trim,
    )


def _compilers() -> Iterator[Row]:
    place = mpi_folder()
    get = "pip install 'sccl[mpi]' (MPICH); or Debian, Ubuntu: apt-get install libmpich-dev"
    group, compiler = "Generated code on CPUs", "Debian, Ubuntu: apt-get install g++ make"
    yield Row(group, "make", "builds projects", compiler, Check(("make", "--version")))
    yield Row(group, "c++", "compiles projects", compiler, Check(("c++", "--version")))
    for tool in ("mpicxx", "mpirun"):
        use = f"'sccl run' takes that of {place}"
        path = str(place / tool) if place else ""
        yield Row(group, tool, use, get, Check((path, "--version")))


def _gpu() -> Iterator[Row]:
    group = "Generated code on GPUs"
    cuda = "install NVIDIA's CUDA toolkit"
    rocm = "Debian, Ubuntu: apt-get install hipcc rocm-device-libs libamdhip64-dev"
    query = ("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader")
    yield Row(
        *(group, "nvcc", "compiles --target cuda", cuda),
        Check(("nvcc", "--version"), "release"),
    )
    yield Row(group, "hipcc", "compiles --target hip", rocm, Check(("hipcc", "--version")))
    yield Row(
        *(group, "nvidia-smi", "an NVIDIA GPU and its driver"),
        "needs an NVIDIA GPU; install its driver",
        Check(query, r"\d"),
    )
    yield Row(
        *(group, "compute-sanitizer", "looks for races in GPU code", cuda),
        Check(("compute-sanitizer", "--version")),
    )


def _more() -> Iterator[Row]:
    cluster, pictures = "pip install 'sccl[cluster]'", "import altair, vl_convert"
    tests = "only for sccl's own tests: pip install playwright"
    browser = "only for sccl's own tests; Debian, Ubuntu: apt-get install chromium"
    yield Row("More", "pictures", "sccl plot", _REINSTALL, _python(pictures, "altair"))
    dask = _python("import distributed", "distributed")
    yield Row("More", "distributed", "sccl pareto --cluster", cluster, dask)
    playwright = _python("import playwright.sync_api", "playwright")
    yield Row("More", "playwright", "tests of pages", tests, playwright)
    chromium = Check(("chromium", "--version"))
    yield Row("More", "chromium", "tests of pages", browser, chromium)
