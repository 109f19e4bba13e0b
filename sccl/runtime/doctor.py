"""Report the tools that sccl can use on this machine, and how to install the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal

from sccl.core.files.outputs import Output, build_output
from sccl.core.files.shapes import Part
from sccl.runtime.mpi import mpi_folder
from sccl.runtime.tool_checks import CheckResult, ToolCheck, ToolState, try_all

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
    needed: Annotated[bool, "The main job, sccl pareto, needs it."]
    use: str
    problem: str
    get: Annotated[str, "How to install it; empty if it works."]


class DoctorOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl doctor'."""

    kind: Literal["doctor"] = "doctor"
    usable: Annotated[bool, "The main job can be done."]
    checks: tuple[ToolPart, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool to try: a line of the report.

    Attributes:
        group: Heading of the report under which it appears.
        install_hint: Installation in one line.
        needed: Whether the main command, ``sccl pareto``, needs it.
    """

    group: str
    name: str
    purpose: str
    install_hint: str
    check: ToolCheck
    needed: bool = False


ToolResults = Sequence[tuple[Tool, CheckResult]]


def examine_tools() -> ToolResults:
    """Try every tool, and return the results."""
    tools = [*_solver_tools(), *_compiler_tools(), *_gpu_tools(), *_other_tools()]
    return list(zip(tools, try_all([tool.check for tool in tools]), strict=True))


def is_usable(tried: ToolResults) -> bool:
    """Return whether all tools work that the main command, ``sccl pareto``, needs."""
    return all(result.state is ToolState.OK for tool, result in tried if tool.needed)


def doctor_output(tried: ToolResults) -> DoctorOutput:
    """Return the JSON output of the report."""
    parts = tuple(_tool_part(*attempt) for attempt in tried)
    return DoctorOutput(inputs={}, usable=is_usable(tried), checks=parts)


def _tool_part(tool: Tool, result: CheckResult) -> ToolPart:
    works = result.state is ToolState.OK
    return build_output(
        ToolPart,
        result,
        group=tool.group,
        name=tool.name,
        needed=tool.needed,
        use=tool.purpose if works else "",
        get="" if works else tool.install_hint,
    )


def _package_check(code: str, package: str, *arguments: str, says: str = "") -> ToolCheck:
    """Return the check of a package. Python's option -P keeps it from importing local files."""
    try:
        installed = version(package)
    except PackageNotFoundError:
        installed = ""
    return ToolCheck(
        (sys.executable, "-P", "-c", code, *arguments), says, installed, missing_pattern=_ABSENT
    )


def _solver_tools() -> Iterator[Tool]:
    asked = ("solve", *_QUESTION.split(), "--no-store", "--json", "--timeout", "20", "--solver")
    for name, package, use in (
        ("cpsat", "ortools", "the default; the main job needs it"),
        ("cadical", "python-sat", "a SAT solver, also for proofs"),
        ("z3", "z3-solver", "the paper's encoding, the reference"),
    ):
        check = _package_check(_COMMAND, package, *asked, name, says='"answer": "sat"')
        yield Tool("Solvers", name, use, _REINSTALL, check, needed=name == "cpsat")
    smt2 = _package_check(_COMMAND, "pysmt", "smt2", *_QUESTION.split(), says=r"\(check-sat\)")
    yield Tool("Solvers", "smt2", "problems as text, for any SMT solver", _REINSTALL, smt2)
    trim = ToolCheck(("drat-trim", "x.cnf", "x.drat"), "s VERIFIED", files=_REFUTED)
    yield Tool(
        *("Solvers", "drat-trim", "a second checker of proofs"),
        "optional: build its one C file (github.com/marijnheule/drat-trim) and put it on the PATH",
        trim,
    )


def _compiler_tools() -> Iterator[Tool]:
    place = mpi_folder()
    get = "pip install 'sccl[mpi]' (MPICH); or Debian, Ubuntu: apt-get install libmpich-dev"
    group, compiler = "Generated code on CPUs", "Debian, Ubuntu: apt-get install g++ make"
    yield Tool(group, "make", "builds projects", compiler, ToolCheck(("make", "--version")))
    yield Tool(group, "c++", "compiles projects", compiler, ToolCheck(("c++", "--version")))
    for tool in ("mpicxx", "mpirun"):
        use = f"'sccl project run' takes that of {place}"
        path = str(place / tool) if place else ""
        yield Tool(group, tool, use, get, ToolCheck((path, "--version")))


def _gpu_tools() -> Iterator[Tool]:
    group = "Generated code on GPUs"
    cuda = "install NVIDIA's CUDA toolkit"
    rocm = "Debian, Ubuntu: apt-get install hipcc rocm-device-libs libamdhip64-dev"
    query = ("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader")
    yield Tool(
        *(group, "nvcc", "compiles --target cuda", cuda),
        ToolCheck(("nvcc", "--version"), "release"),
    )
    yield Tool(group, "hipcc", "compiles --target hip", rocm, ToolCheck(("hipcc", "--version")))
    yield Tool(
        *(group, "nvidia-smi", "an NVIDIA GPU and its driver"),
        "needs an NVIDIA GPU; install its driver",
        ToolCheck(query, r"\d"),
    )
    yield Tool(
        *(group, "compute-sanitizer", "finds races in GPU code", cuda),
        ToolCheck(("compute-sanitizer", "--version")),
    )


def _other_tools() -> Iterator[Tool]:
    cluster, plot = "pip install 'sccl[cluster]'", "pip install 'sccl[plot]'"
    tests = "only for sccl's own tests: pip install playwright"
    browser = "only for sccl's own tests; Debian, Ubuntu: apt-get install chromium"
    pictures = _package_check("import altair, vl_convert", "altair")
    yield Tool("More", "pictures", "charts: sccl plot, simulate, compare", plot, pictures)
    dask = _package_check("import distributed", "distributed")
    yield Tool("More", "distributed", "sccl pareto --cluster", cluster, dask)
    playwright = _package_check("import playwright.sync_api", "playwright")
    yield Tool("More", "playwright", "tests of pages", tests, playwright)
    chromium = ToolCheck(("chromium", "--version"))
    yield Tool("More", "chromium", "tests of pages", browser, chromium)
