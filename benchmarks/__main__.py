"""``python -m benchmarks``: parsing, progress, exit codes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar

import typer
from rich.markup import escape

from benchmarks import (
    allreduce_trees,
    astra_cases,
    astra_exported,
    astra_steps,
    enforce_report,
    growth,
    hosted,
    pictures,
    process,
    public_files,
    reach,
    report,
    scale,
    tables,
    teccl_epochs,
    teccl_figures,
)
from benchmarks import astra as clocks
from benchmarks import certificates as kept
from benchmarks import collectives as runs
from benchmarks import enforce as jobs
from benchmarks import files as others
from benchmarks import frontier as frontiers
from benchmarks import osu as osu_runs
from benchmarks import rooted as near_root
from benchmarks import routed as published
from benchmarks import syndicate as training
from benchmarks import syndicate_bytescheduler as byte_core
from benchmarks import syndicate_costs as training_costs
from benchmarks import syndicate_jobs as training_jobs
from benchmarks import syndicate_systems as training_systems
from benchmarks import taccl as sketches
from benchmarks import teccl as least
from benchmarks import teccl_scale as large_runs
from benchmarks.lab import rates as lab_rates
from benchmarks.record import begin
from benchmarks.tacos import measure as figure
from benchmarks.tacos.cases import FIGURES, select_cases
from benchmarks.tacos.report import figures_table, means
from benchmarks.timing import Verdict
from sccl.cli.options import Output, check_writable
from sccl.cli.report import ExitCode, err, out, report_errors
from sccl.errors import ParameterError, unknown_name
from sccl.runtime.mpi import find_mpi
from sccl.synth.syncoll import solve
from sccl.view.charts import check_picture

app = typer.Typer(
    name="python -m benchmarks",
    no_args_is_help=True,
    help="Measure sccl and compare it with published results. See benchmarks/README.md.",
    epilog="Exit code 0: done, 1: an answer contradicts a published one or misses a bound, "
    "2: bad input, 3: a row was not solved in time.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

Timeout = Annotated[
    float, typer.Option(help="Time limit per row and solver, in seconds.", min=0.001)
]
Repeat = Annotated[int, typer.Option(help="Number of runs of each row. The median counts.", min=1)]
Smoke = Annotated[bool, typer.Option("--smoke", help="Run only the smallest row, once.")]
Parts = Annotated[
    str,
    typer.Option(
        help="Parts to run, separated by commas; a prefix selects several.", show_default="all"
    ),
]

Case = TypeVar("Case")

TIMEOUT_S = 120.0
REPEAT = 3


@app.command("table5", help="Time each row of the SCCL paper's Table 5 (Gigabyte Z52).")
@app.command("table4", help="Time each row of the SCCL paper's Table 4 (NVIDIA DGX-1).")
@report_errors
def table(  # noqa: PLR0913, PLR0917 - one parameter per option
    context: typer.Context,
    solvers: Annotated[
        str, typer.Option(help="Solvers of sccl, separated by commas.")
    ] = "cpsat,cadical,z3",
    timeout: Timeout = TIMEOUT_S,
    repeat: Repeat = REPEAT,
    msccl: Annotated[
        str | None,
        typer.Option(help="Path of the msccl command.", show_default="the one on the path"),
    ] = None,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Time the rows of a table with our solvers and msccl, taking turns."""
    names = tuple(solve.check_name(name.strip()) for name in solvers.split(","))
    settings = tables.Settings(names, timeout, 1 if smoke else repeat, smoke)
    results = tables.run(str(context.info_name), settings, msccl, check_writable(output))
    _leave(r.timings[name].verdict for r in results for name in names)


@app.command()
@report_errors
def frontier(repeat: Repeat = REPEAT, smoke: Smoke = False, output: Output = None) -> None:
    """Time "sccl pareto" for allgather on DGX-1 and Z52 with k = 5, as a whole process."""
    specs, times = (frontiers.SMOKE, 1) if smoke else (frontiers.FULL, repeat)
    record = begin("frontier", check_writable(output), {"repeat": times, "smoke": smoke}, {})
    results: list[frontiers.FrontierResult] = []
    for spec in specs:
        results.append(frontiers.sweep(spec, times))
        record.write(results, len(specs))
        _progress(f"{spec.collective} on {spec.topology}", results[-1].seconds)
    out().print(report.frontier_table(results))
    _leave("sat" if r.complete else "unknown" for r in results)


@app.command("rooted")
@report_errors
def rooted(smoke: Smoke = False, output: Output = None) -> None:
    """Time lower bounds from cuts and their schedules, and compare with tree packings."""
    specs = near_root.SMOKE if smoke else near_root.SPECS
    record = begin("rooted", check_writable(output), {"smoke": smoke}, {})
    results: list[near_root.RootedResult] = []
    for result in near_root.run(specs):
        results.append(result)
        record.write(results, len(specs))
        _progress(f"{result.spec.collective} on {result.spec.topology}", result.seconds)
    out().print(report.rooted_table(results))
    _leave("sat" for _ in results)


@app.command("trees")
@report_errors
def trees(smoke: Smoke = False, output: Output = None) -> None:
    """Compute limits of tree allreduce on up to 64 ranks, and their gaps to the lower bound."""
    specs = allreduce_trees.SMOKE if smoke else allreduce_trees.SPECS
    record = begin("trees", check_writable(output), {"smoke": smoke}, {})
    results: list[allreduce_trees.TreesResult] = []
    for result in allreduce_trees.run(specs):
        results.append(result)
        record.write(results, len(results) + 1)
        _progress(f"{result.spec.topology}, S={result.steps}", result.seconds)
    record.write(results, len(results))
    out().print(report.trees_table(results))
    _leave("sat" for _ in results)


@app.command("scale")
@report_errors
def scaling(
    timeout: Timeout = TIMEOUT_S,
    repeat: Repeat = REPEAT,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Time optimal allgather on 8 to 1,024 ranks, with and without symmetry."""
    families, times = (scale.SMOKE, 1) if smoke else (scale.FAMILIES, repeat)
    settings = {"timeout_s": timeout, "repeat": times, "smoke": smoke}
    record = begin("scale", check_writable(output), settings, {})
    results: list[scale.ScaleResult] = []
    for result in scale.run(families, timeout, times):
        results.append(result)
        record.write(results, len(results) + 1)
        line = f"{result.spec.topology}, symmetry {result.spec.symmetry}: {result.verdict}"
        _progress(line, result.seconds)
    growth = scale.growth(results)
    record.write(results, len(results), {"seconds_grow_with_ranks_to_the_power": growth})
    out().print(report.scale_table(results, growth))
    _leave(r.verdict for r in results if r.spec.symmetry != "none")


@app.command("reach")
@report_errors
def reaching(
    timeout: Timeout = 60.0,
    others: Annotated[
        bool, typer.Option("--others", help="Measure machines without translations.")
    ] = False,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Time constructions on up to 40,000 ranks, and the search that they replace."""
    specs = reach.SMOKE if smoke else reach.OTHERS if others else reach.FULL
    settings = {"timeout_s": timeout, "others": others, "smoke": smoke}
    record = begin("reach", check_writable(output), settings, {})
    results: list[reach.ReachResult] = []
    for result in reach.run(specs, timeout):
        results.append(result)
        record.write(results, len(specs))
        _progress(f"{result.spec.collective} on {result.spec.topology}", result.seconds)
    out().print(report.reach_table(results, timeout))
    _leave("sat" if r.is_met else "failed" for r in results)


@app.command("tacos")
@report_errors
def figures(
    only: Annotated[
        str,
        typer.Option(
            help=f"Figures, separated by commas: {', '.join(FIGURES)}.", show_default="all"
        ),
    ] = "",
    largest: Annotated[
        bool,
        typer.Option("--largest", help="Also run Figure 19 with 40,000 and more ranks (minutes)."),
    ] = False,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Reproduce the figures of TACOS (MICRO 2024) with classical algorithms next to it."""
    cases = select_cases(only, smoke=smoke, largest=largest)
    settings = {"only": only, "largest": largest, "smoke": smoke}
    record = begin("tacos", check_writable(output), settings, {})
    results: list[figure.FigureResult] = []
    figure.warm()
    for case in cases:
        results.append(figure.measure_case(case))
        record.write(results, len(cases), {"share_of_ideal": means(results)})
        line = f"{case.figure}, {case.topology}, {case.algorithm}, {case.size_bytes} bytes"
        err().print(escape(f"{line}: {results[-1].us:,.1f} us, {results[-1].efficiency:.1%}"))
    out().print(figures_table(results))


@app.command("growth")
@report_errors
def growing(timeout: Timeout = TIMEOUT_S, smoke: Smoke = False, output: Output = None) -> None:
    """Time the limit of every collective at the fewest steps, on 16 to 1,024 ranks."""
    record = begin("growth", check_writable(output), {"timeout_s": timeout, "smoke": smoke}, {})
    results: list[growth.GrowthResult] = []
    for result in growth.run(smoke=smoke, timeout_s=timeout):
        results.append(result)
        record.write(results, len(results) + 1)
        line = f"{result.collective} on {result.topology}: {result.verdict}"
        _progress(line, result.seconds or timeout)
    grows = {name: growth.growth(results, name) for name in ("user_seconds", "memory_mb")}
    record.write(results, len(results), {"grows_with_ranks_to_the_power": grows})
    out().print(report.growth_table(results))
    _leave("sat" for _ in results)


@app.command()
@report_errors
def plot(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Files that -o of other verbs wrote.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Picture file: .svg, .png, .pdf, or .html.")
    ],
    only: Annotated[
        str, typer.Option(help="Figures of tacos to draw, separated by commas.", show_default="all")
    ] = "",
) -> None:
    """Draw a chart from result files of the other verbs."""
    check_picture(output)
    pictures.draw(files, output, [name for name in only.split(",") if name])


@app.command()
@report_errors
def startup(repeat: Repeat = 9, smoke: Smoke = False, output: Output = None) -> None:
    """Time "sccl --help" and "import sccl"."""
    times = 1 if smoke else repeat
    record = begin("startup", check_writable(output), {"repeat": times, "smoke": smoke}, {})
    results = process.startup(times)
    record.write(results, len(results))
    out().print(report.startup_table(results))


@app.command()
@report_errors
def teccl(only: Parts = "", smoke: Smoke = False, output: Output = None) -> None:
    """Compare schedules and lower bounds with the times that TE-CCL published."""
    rows = _chosen({**least.PARTS, "fig8": least.FIGURE_8}, only, smoke=smoke)
    record = begin("teccl", check_writable(output), {"only": only, "smoke": smoke}, {})
    results: list[least.LeastTimeResult] = []
    for result in least.run(rows, smoke=smoke):
        results.append(result)
        record.write(results, len(rows))
        _progress(
            f"{result.topology} {result.collective} {result.output_bytes}", result.equal.seconds
        )
    out().print(report.least_times_table(results))


@app.command()
@report_errors
def taccl(only: Parts = "", smoke: Smoke = False, output: Output = None) -> None:
    """Plan within TACCL's sketches, and compare seconds and times with the published ones."""
    cases = _chosen(sketches.CASES, only, smoke=smoke)
    record = begin("taccl", check_writable(output), {"only": only, "smoke": smoke}, {})
    results: list[sketches.TacclResult] = []
    for result in sketches.run(cases, smoke=smoke):
        results.append(result)
        record.write(results, len(cases))
        case = result.case
        _progress(f"{case.machine} {case.collective} {case.size_bytes}", result.seconds)
    out().print(report.sketches_table(results))


@app.command("routed")
@report_errors
def frontier_of_published(
    only: Parts = "",
    certificates: Annotated[
        Path | None, typer.Option(help="Folder that keeps the certificates.", show_default="no")
    ] = None,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Test whether published routed algorithms (Swing, Trivance, Bine, ...) are on the frontier."""
    cases = _chosen(published.PARTS, only, smoke=smoke)
    record = begin("routed", check_writable(output), {"only": only, "smoke": smoke}, {})
    results: list[published.RoutedResult] = []
    for case in cases:
        results += published.run([case], certificates)
        record.write(results, len(results) if case is cases[-1] else len(results) + 1)
        _progress(f"{case.machine} {case.collective}", results[-1].seconds)
    out().print(report.routed_table(results))


@app.command("lab")
@report_errors
def rates(
    only: Parts = "", repeat: Repeat = REPEAT, smoke: Smoke = False, output: Output = None
) -> None:
    """Measure the rates that channels of the lab reach, and compare with the configured ones."""
    cases = [lab_rates.SMOKE] if smoke else _chosen(lab_rates.PARTS, only, smoke=False)
    times = 1 if smoke else repeat
    record = begin(
        "lab", check_writable(output), {"only": only, "repeat": times, "smoke": smoke}, {}
    )
    results: list[lab_rates.RateResult] = []
    for result in lab_rates.run(cases, times):
        results.append(result)
        record.write(results, len(cases))
    out().print(report.rates_table(results))


@app.command("enforce")
@report_errors
def enforced_jobs(
    only: Parts = "",
    torch: Annotated[
        Path,
        typer.Option(
            help="Python interpreter with torch.", show_default="that of 'make test-rest'"
        ),
    ] = jobs.TORCH,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Run PyTorch jobs under their plans in the lab, and compare with gloo.

    With `--only bundles`, time calls that generated bundles serve on one machine.
    """
    if only == hosted.PART:
        bundles = hosted.measure(torch, check_writable(output), smoke=smoke)
        out().print(hosted.hosted_table(bundles))
        for name, times in hosted.times_as_fast(bundles).items():
            out().print(f"{name}: {times:.4g}")
        return
    cases = jobs.SMOKE if smoke else _chosen(jobs.PARTS, only, smoke=False)
    record = begin("enforce", check_writable(output), {"only": only, "smoke": smoke}, {})
    results: list[jobs.Result] = []
    lab, batches = jobs.JobLab(torch), jobs.batches(cases)
    for batch in batches:
        began = time.perf_counter()
        results += lab.run(batch)
        came_to = enforce_report.summary(results)
        record.write(results, len(results) + (batch is not batches[-1]), came_to)
        words = (batch[0].part, batch[0].channels, *(case.method for case in batch))
        _progress(", ".join(dict.fromkeys(words)), time.perf_counter() - began)
    for table in enforce_report.tables(results):
        out().print(table)
    for name, value in enforce_report.summary(results).items():
        out().print(f"{name}: {value if isinstance(value, str) else f'{value:.4g}'}")


@app.command("teccl-scale")
@report_errors
def large(only: Parts = "", smoke: Smoke = False, output: Output = None) -> None:
    """Measure time and memory of whole processes for 2 to 32 nodes and for process groups."""
    cases = _chosen(large_runs.CASES, only, smoke=smoke)
    record = begin("teccl-scale", check_writable(output), {"only": only, "smoke": smoke}, {})
    results: list[large_runs.LargeResult] = []
    for case in cases:
        results.append(large_runs.measure_case(case))
        record.write(results, len(cases))
        _progress(" ".join(case.words), results[-1].seconds)
    out().print(report.large_table(results))


@app.command("teccl-epochs")
@report_errors
def in_epochs(only: Parts = "", smoke: Smoke = False, output: Output = None) -> None:
    """Solve TE-CCL's epoch models with the published numbers of epochs (Tables 3, 7, 8)."""
    cases = _chosen({"tables": teccl_epochs.CASES, **teccl_figures.FIGURES}, only, smoke=smoke)
    record = begin("teccl-epochs", check_writable(output), {"only": only, "smoke": smoke}, {})
    results: list[teccl_epochs.EpochResult] = []
    for result in teccl_epochs.run(cases):
        results.append(result)
        record.write(results, len(cases))
        case = result.case
        _progress(f"{case.topology} {case.collective} {case.chunk_bytes}", result.seconds)
    out().print(report.epochs_table(results))


@app.command("syndicate")
@report_errors
def steps(
    only: Parts = "",
    byte: Annotated[
        Path | None,
        typer.Option("--bytescheduler", help="Folder bytescheduler of a byteps checkout."),
    ] = None,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Plan training steps and compare with proved optima, published plans, and other systems."""
    searches = (
        (training, report.steps_table),
        (training_jobs, training_jobs.jobs_table),
        (training_systems, training_systems.systems_table),
    )
    all_parts = [part for kind, _ in searches for part in kind.PARTS]
    all_parts += [*training_costs.PARTS, byte_core.PART]
    parts = [part for part in all_parts if part.startswith(tuple(only.split(",")))]
    if not parts:
        raise ParameterError(f"only is {only!r}, expected one of {', '.join(all_parts)}")
    record = begin("syndicate", check_writable(output), {"only": only, "smoke": smoke}, {})
    results: list[object] = []
    for kind, table in searches:
        part_results: list[Any] = []
        for result in kind.run([part for part in parts if part in kind.PARTS], smoke=smoke):
            part_results.append(result)
            record.write([*results, *part_results], len(results) + len(part_results) + 1)
            _progress(result.label, result.seconds)
        results += part_results
        if part_results:
            out().print(table(part_results))
    if byte_core.PART in parts and byte is None:
        err().print("ByteScheduler's core is left out (--bytescheduler FOLDER).")
    elif byte_core.PART in parts and byte is not None:
        orders = list(byte_core.run(byte, smoke=smoke))
        results += orders
        out().print(training_jobs.jobs_table(orders))
    costs = list(training_costs.run([p for p in parts if p in training_costs.PARTS], smoke=smoke))
    if costs:
        out().print(training_costs.costs_table(costs))
    record.write([*results, *costs], len(results) + len(costs))


@app.command("files")
@report_errors
def foreign(
    samples: Annotated[
        Path | None, typer.Option(help="Folder of captured files.", show_default="examples only")
    ] = None,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Time the import of machines from each format and the export of plans to each."""
    record = begin("files", check_writable(output), {"smoke": smoke}, {})
    results: list[others.FilesResult] = []
    for result in others.run(samples, smoke=smoke):
        results.append(result)
        record.write(results, len(results) + 1)
        _progress(f"{result.what}: {result.slowest}", result.user_seconds)
    record.write(results, len(results))
    out().print(report.files_table(results))


@app.command("public-files")
@report_errors
def public(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of the files.", show_default="a temporary one"),
    ] = None,
    mirrors: Annotated[
        Path | None,
        typer.Option(
            help="Folder of git repositories, MIRRORS/owner/name.", show_default="fetch from GitHub"
        ),
    ] = None,
    only: Parts = "",
    output: Output = None,
) -> None:
    """Read the listed files of public repositories and compare the counts."""
    listed = public_files.load_list()
    by_reader: dict[str, list[public_files.PublicFile]] = {}
    for file in listed.files:
        by_reader.setdefault(file.reader, []).append(file)
    files = _chosen(by_reader, only, smoke=False)
    record = begin("public-files", check_writable(output), {"only": only}, {})
    results: list[public_files.PublicFileResult] = []
    with TemporaryDirectory() as temporary:
        for result in public_files.run(files, folder or Path(temporary), mirrors):
            results.append(result)
            record.write(results, len(files))
    searches = () if only else listed.searches
    out().print(report.public_files_table(results, searches))
    _leave(r.verdict for r in results)


@app.command()
@report_errors
def collectives(
    mpi: Annotated[
        Path | None,
        typer.Option(help="Folder of mpicxx and mpirun.", show_default="as sccl project run"),
    ] = None,
    repeat: Repeat = 5,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Time generated host code and the MPI library's collectives, 1 B to 4 MiB."""
    mpi_library = find_mpi(mpi)
    ranks, sizes = (
        (runs.SMOKE_RANKS, runs.SMOKE_SIZES) if smoke else (runs.FULL_RANKS, runs.FULL_SIZES)
    )
    times = 1 if smoke else repeat
    record = begin("collectives", check_writable(output), {"repeat": times, "smoke": smoke}, {})
    results: list[runs.CollectiveResult] = []
    for count in ranks:
        results += runs.measure(mpi_library, count, sizes, times)
        record.write(results, len(ranks) * len(runs.NAMES))
    out().print(report.collectives_table(results))


@app.command()
@report_errors
def osu(  # noqa: PLR0913, PLR0917 - one parameter per option
    sources: Annotated[
        Path, typer.Option("--osu", help="Folder with the sources of the OSU micro-benchmarks 5.3.")
    ],
    ranks: Annotated[str, typer.Option(help="Numbers of ranks, separated by commas.")] = "2,4,8",
    mpi: Annotated[
        Path | None,
        typer.Option(help="Folder of mpicc and mpirun.", show_default="as sccl project run"),
    ] = None,
    repeat: Repeat = REPEAT,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Time the OSU benchmarks with and without generated host code, 1 B to 1 MiB.

    A stopped run continues if -o names the same file.
    """
    mpi_library = find_mpi(mpi)
    counts = (2,) if smoke else tuple(_number(word) for word in ranks.split(","))
    names, times = (osu_runs.SMOKE_NAMES, 1) if smoke else (osu_runs.NAMES, repeat)
    settings = {
        "ranks": list(counts),
        "open_mpi": mpi_library.open_mpi,
        "repeat": times,
        "smoke": smoke,
    }
    results = osu_runs.kept(check_writable(output), settings)
    record = begin("osu", output, settings, {})
    done = {(r.ranks, r.collective) for r in results}
    for count in counts:
        left = [name for name in names if (count, name) not in done]
        for result in osu_runs.measure(sources, mpi_library, count, left, times) if left else ():
            results.append(result)
            record.write(results, len(counts) * len(names))
            means = f"{result.speedup:.2f} times, worst {result.slowest:.2f}"
            err().print(escape(f"{result.collective}, {count} ranks: {means}"))
    out().print(report.collectives_table(results))


def _number(word: str) -> int:
    if not word.strip().isdecimal() or int(word) < 2:
        raise ParameterError(f"ranks are {word!r}, expected numbers from 2 on, such as 2,4,8")
    return int(word)


@app.command()
@report_errors
def codegen(repeat: Repeat = 5, smoke: Smoke = False, output: Output = None) -> None:
    """Time code generation for bundles of 8 ranks."""
    machines = ("full:4",) if smoke else ("full:8", "hypercube:3", "dgx1", "z52")
    record = begin("codegen", check_writable(output), {"repeat": repeat, "smoke": smoke}, {})
    results: list[runs.GenerationResult] = []
    for machine in machines:
        members = [a for name in runs.NAMES for a in runs.algorithms(machine, name)]
        results += runs.generation(machine, members, 1 if smoke else repeat)
        record.write(results, 3 * len(machines))
    out().print(report.generation_table(results))


@app.command()
@report_errors
def certificates(
    folder: Annotated[
        Path, typer.Argument(help="Folder of certificates.", show_default="benchmarks/certificates")
    ] = kept.KEPT,
    drat_trim: Annotated[
        Path | None, typer.Option(help="Path of drat-trim.", show_default="the one on the path")
    ] = None,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Check certificates, and their DRAT proofs also with drat-trim if it is installed."""
    kept.with_program(drat_trim)
    folders = kept.folders(folder)
    if smoke:
        folders = [path for path in folders if any(path.glob("*.drat"))][:1] or folders[:1]
    record = begin("certificates", check_writable(output), {"smoke": smoke}, {})
    results: list[kept.CertificateResult] = []
    for result in kept.check(folder, folders):
        results.append(result)
        record.write(results, len(folders))
        _progress(result.name, result.seconds)
    out().print(report.certificates_table(results))
    _leave(kept.verdict(r) for r in results)


@app.command()
@report_errors
def astra(
    binary: Annotated[
        Path | None,
        typer.Option(help="Path of ASTRA-sim's program.", show_default="the one on the path"),
    ] = None,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Compare the completion times of sccl's simulator and ASTRA-sim for the same messages."""
    program = clocks.find(binary)
    record = begin("astra", check_writable(output), {"smoke": smoke}, {})
    results: list[clocks.AstraResult] = []
    for result in clocks.measure(astra_cases.cases(smoke=smoke), program):
        results.append(result)
        record.write(results, len(results) + 1)
        err().print(escape(f"{result.case}: {result.astra_ns} and {result.rounded_down_ns} ns"))
    lacking = clocks.incomplete(astra_cases.best_around(astra_cases.ring_of_eight()), program)
    record.write(results, len(results), {"incomplete": lacking})
    out().print(report.astra_table(results))
    out().print(report.incomplete_text(lacking))
    _leave(r.verdict for r in results)


@app.command("astra-exported")
@report_errors
def exported(
    binary: Annotated[
        Path | None,
        typer.Option(help="Path of ASTRA-sim's program.", show_default="the one on the path"),
    ] = None,
    ns3: Annotated[
        Path | None,
        typer.Option(help="Path of ASTRA-sim's program with ns-3.", show_default="not run"),
    ] = None,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Run exported frontier points in ASTRA-sim, and compare with the simulator."""
    programs = {False: clocks.find(binary), True: str(ns3 and clocks.find(ns3))}
    record = begin("astra-exported", check_writable(output), {"smoke": smoke, "ns3": bool(ns3)}, {})
    results: list[astra_exported.ExportedResult] = []
    for case in astra_exported.cases(smoke=smoke, ns3=bool(ns3)):
        results.append(astra_exported.measure(case, programs[case.network == "ns3"]))
        record.write(results, len(results) + 1)
        err().print(escape(f"{results[-1].topology}, {results[-1].plan}"))
    record.write(results, len(results))
    out().print(report.exported_table(results))
    _leave(r.verdict for r in results)


@app.command("astra-steps")
@report_errors
def replayed(
    binary: Annotated[
        Path | None,
        typer.Option(help="Path of ASTRA-sim's program.", show_default="the one on the path"),
    ] = None,
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Run exported training plans in ASTRA-sim, and compare iteration times."""
    program = clocks.find(binary)
    record = begin("astra-steps", check_writable(output), {"smoke": smoke}, {})
    results: list[astra_steps.StepResult] = []
    for case in astra_steps.cases(smoke=smoke):
        results.append(astra_steps.measure(case, program))
        record.write(results, len(results) + 1)
        err().print(escape(results[-1].case))
    record.write(results, len(results))
    out().print(report.replayed_table(results))
    _leave(r.verdict for r in results)


@app.command()
@report_errors
def fuzz(  # noqa: PLR0913, PLR0917 - one parameter per option
    inputs: Annotated[
        int | None, typer.Option(help="Number of inputs.", min=1, show_default="no end")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Wall-clock seconds.", min=0, show_default="no end")
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option(help="Prefix of readers: topo, 'plan mscclpp', own; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    samples: Annotated[Path | None, typer.Option(help="Folder of further seed files.")] = None,
    failures: Annotated[
        Path, typer.Option("--found", help="Folder for inputs on which a reader fails.")
    ] = Path("fuzz"),
    smoke: Smoke = False,
    output: Output = None,
) -> None:
    """Feed mutated files to every reader, guided by coverage."""
    from benchmarks import fuzz as fuzzer  # noqa: PLC0415 - starts a sweep
    from benchmarks.fuzz_readers import readers  # noqa: PLC0415

    settings = {"inputs": inputs, "seconds": seconds, "seed": seed, "smoke": smoke}
    record = begin("fuzz", check_writable(output), settings, {})
    chosen = [r for r in readers(samples) if r.name.startswith(tuple(reader or [""]))]
    inputs = len(chosen) * fuzzer.TURN // 40 if smoke else inputs
    campaigns = [fuzzer.campaign(r) for r in chosen]
    try:
        for done in fuzzer.rounds(campaigns, seed, inputs, seconds):
            if done % (100 * fuzzer.TURN) == 0:
                err().print(f"{done} inputs")
    finally:
        results = [fuzzer.result(c) for c in campaigns]
        record.write(results, len(campaigns))
        out().print(report.fuzz_table(results))
        for failure in (f for c in campaigns for f in c.failures.values()):
            err().print(
                escape(f"{failure.reader}: {failure.outcome}: {fuzzer.keep(failures, failure)}")
            )
    _leave("failed" if c.failures else "sat" for c in campaigns)


def _chosen(parts: Mapping[str, Sequence[Case]], only: str, *, smoke: bool) -> list[Case]:
    """Return the cases of the parts with these prefixes, or only the first case.

    Raises:
        UnknownNameError: No part has such a prefix.
    """
    begins = [name.strip() for name in only.split(",") if name.strip()]
    for begin_so in begins:
        if not any(name.startswith(begin_so) for name in parts):
            raise unknown_name("part", begin_so, parts, f"give some of {', '.join(parts)}")
    names = [name for name in parts if not begins or name.startswith(tuple(begins))]
    cases = [case for name in names for case in parts[name]]
    return cases[:1] if smoke else cases


def _progress(line: str, seconds: float) -> None:
    err().print(f"{escape(line)}: {report.seconds_text(seconds)} s")


def _leave(verdicts: Iterable[Verdict]) -> None:
    """Exit with the code of the worst verdict."""
    seen = set(verdicts)
    if "unsat" in seen or "failed" in seen:
        raise typer.Exit(ExitCode.NO)
    raise typer.Exit(ExitCode.UNKNOWN if "unknown" in seen else ExitCode.OK)


if __name__ == "__main__":
    app()
