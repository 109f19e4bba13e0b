"""``sccl doctor``: what of this machine sccl can use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_output, reported
from sccl.runtime import Check, Outcome, State, mpi_folder, try_all
from sccl.tasks.answers import DoctorOutput, ToolPart

_COLOURS = {State.OK: "green", State.MISSING: "yellow", State.BROKEN: "red"}
_REINSTALL = "reinstall sccl with its dependencies (in its folder: pip install .)"
_ABSENT = "No module named"
_QUESTION = "--collective allgather --topo ring:4 --chunks 1 --steps 2 --rounds 2"
_COMMAND = "from sccl.cli.main import app; app()"
_REFUTED = (("x.cnf", "p cnf 1 2\n1 0\n-1 0\n"), ("x.drat", "0\n"))


@dataclass(frozen=True, slots=True)
class _Row:
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


@reported
def doctor(json: options.Json = False) -> None:
    """Try the solvers, compilers, MPI and GPU tools of this machine, and say how to get the rest.

    Exit code 0: the main job ('sccl pareto') can be done, 1: it can't.
    """
    rows = list(_rows())
    with err().status("trying"):
        found = list(zip(rows, try_all([row.check for row in rows]), strict=True))
    usable = all(outcome.state is State.OK for row, outcome in found if row.needed)
    if json:
        parts = tuple(_part(*one) for one in found)
        print_output(DoctorOutput(inputs={}, usable=usable, checks=parts))
    else:
        _print(out(), found, usable=usable)
    raise typer.Exit(ExitCode.OK if usable else ExitCode.NO)


def _rows() -> Iterator[_Row]:
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


def _solvers() -> Iterator[_Row]:
    asked = ("solve", *_QUESTION.split(), "--no-store", "--json", "--timeout", "20", "--solver")
    for name, package, use in (
        ("cpsat", "ortools", "the default; the main job needs it"),
        ("cadical", "python-sat", "a SAT solver, also for proofs"),
        ("z3", "z3-solver", "the paper's encoding, the reference"),
    ):
        check = _python(_COMMAND, package, *asked, name, says='"answer": "sat"')
        yield _Row("Solvers", name, use, _REINSTALL, check, needed=name == "cpsat")
    smt2 = _python(_COMMAND, "pysmt", "smt2", *_QUESTION.split(), says=r"\(check-sat\)")
    yield _Row("Solvers", "smt2", "problems as text, for any SMT solver", _REINSTALL, smt2)
    trim = Check(("drat-trim", "x.cnf", "x.drat"), "s VERIFIED", files=_REFUTED)
    yield _Row(
        *("Solvers", "drat-trim", "a second checker of proofs"),
        "optional: build its one C file (github.com/marijnheule/drat-trim) and put it on the PATH",
        trim,
    )


def _compilers() -> Iterator[_Row]:
    place = mpi_folder()
    get = "pip install 'sccl[mpi]' (MPICH); or Debian, Ubuntu: apt-get install libmpich-dev"
    group, compiler = "Generated code on CPUs", "Debian, Ubuntu: apt-get install g++ make"
    yield _Row(group, "make", "builds projects", compiler, Check(("make", "--version")))
    yield _Row(group, "c++", "compiles projects", compiler, Check(("c++", "--version")))
    for tool in ("mpicxx", "mpirun"):
        use = f"'sccl run' takes that of {place}"
        path = str(place / tool) if place else ""
        yield _Row(group, tool, use, get, Check((path, "--version")))


def _gpu() -> Iterator[_Row]:
    group = "Generated code on GPUs"
    cuda = "install NVIDIA's CUDA toolkit"
    rocm = "Debian, Ubuntu: apt-get install hipcc rocm-device-libs libamdhip64-dev"
    query = ("nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader")
    yield _Row(
        *(group, "nvcc", "compiles --target cuda", cuda),
        Check(("nvcc", "--version"), "release"),
    )
    yield _Row(group, "hipcc", "compiles --target hip", rocm, Check(("hipcc", "--version")))
    yield _Row(
        *(group, "nvidia-smi", "an NVIDIA GPU and its driver"),
        "needs an NVIDIA GPU; install its driver",
        Check(query, r"\d"),
    )
    yield _Row(
        *(group, "compute-sanitizer", "looks for races in GPU code", cuda),
        Check(("compute-sanitizer", "--version")),
    )


def _more() -> Iterator[_Row]:
    cluster, pictures = "pip install 'sccl[cluster]'", "import altair, vl_convert"
    tests = "only for sccl's own tests: pip install playwright"
    browser = "only for sccl's own tests; Debian, Ubuntu: apt-get install chromium"
    yield _Row("More", "pictures", "sccl plot", _REINSTALL, _python(pictures, "altair"))
    dask = _python("import distributed", "distributed")
    yield _Row("More", "distributed", "sccl pareto --cluster", cluster, dask)
    playwright = _python("import playwright.sync_api", "playwright")
    yield _Row("More", "playwright", "tests of pages", tests, playwright)
    chromium = Check(("chromium", "--version"))
    yield _Row("More", "chromium", "tests of pages", browser, chromium)


def _part(row: _Row, outcome: Outcome) -> ToolPart:
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


def _print(console: Console, found: list[tuple[_Row, Outcome]], *, usable: bool) -> None:
    table = Table("", "State", "Version", "For, or how to get it", box=None, pad_edge=False)
    group = ""
    for row, outcome in found:
        if row.group != group:
            group = row.group
            table.add_row(f"\n[bold]{group}[/]")
        state, works = outcome.state, outcome.state is State.OK
        text = row.use if works else "; ".join(filter(None, [outcome.problem, row.get]))
        mark = f"[{_COLOURS[state]}]{state.value}[/]"
        table.add_row(f"  {row.name}", mark, escape(outcome.version), escape(text))
    console.print(table)
    console.print(
        "\n[green]The main job can be done:[/] sccl pareto --collective allgather --topo dgx1"
        if usable
        else "\n[red]The main job can't be done:[/] cpsat does not work, see above"
    )
