"""``sccl topo profile``: measured costs of links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.project.run import MpiFolder
from sccl.cli.report import err, out, print_output, print_text, report_errors
from sccl.core.files.topologies import write_topology
from sccl.core.formatting import format_count, single_line
from sccl.core.topology import Topology
from sccl.runtime.machine_profile import (
    COUNTS,
    REPEAT,
    SIZES,
    LinkProfile,
    build_link_trial,
    check_distinct_files,
    check_fitting,
    fit_profile,
    measure_gpus,
    measure_rank_links,
    profile_output,
    read_measurements,
    save_measurements,
)
from sccl.runtime.mpi import find_mpi
from sccl.topo import resolve_topology
from sccl.topo.profiles.measurements import Measurements, RepetitionStatistic
from sccl.view import charts

if TYPE_CHECKING:
    from sccl.topo.profiles.measured_machine import CostInterval

_ALIKE, _MISFIT = 0.1, 0.5  # as in topo/profiles, which loads NumPy

Ranks = Annotated[int | None, "Number of MPI ranks; all pairs are measured in both directions."]
Gpus = Annotated[bool, "Measure the visible GPUs of this machine instead of MPI ranks."]
Machine = Annotated[
    str | None,
    "Machine that defines the measured links; its lanes and budgets are kept (a name from 'sccl "
    "topo list' or a .json file).",
    options.complete_topology,
]
MeasurementsFile = Annotated[
    Path | None,
    typer.Option(
        "--measurements",
        metavar="FILE",
        help="File of measurements to fit, without measuring.",
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File for the measurements, to fit them again."),
]
Sizes = Annotated[
    str | None,
    typer.Option(help="Bytes of a chunk, from..to, each twice the one before.", show_default=SIZES),
]
Chunks = Annotated[
    str | None,
    typer.Option(
        help="Numbers of chunks to send one after another and concurrently.", show_default=COUNTS
    ),
]
Repeat = Annotated[
    int | None,
    typer.Option(help="Number of repetitions.", show_default=str(REPEAT)),
]
Name = Annotated[
    str | None, "Name of the machine.", "the file's, or derived from --topo or --ranks"
]


@report_errors
def profile(
    ranks: Ranks = None,
    gpus: Gpus = False,
    topo: Machine = None,
    measurements: MeasurementsFile = None,
    size: Sizes = None,
    chunks: Chunks = None,
    repeat: Repeat = None,
    mpi: MpiFolder = None,
    alike: Annotated[float, "Relative difference up to which costs are equal."] = _ALIKE,
    max_misfit: Annotated[float, "Largest relative misfit (median) of a link."] = _MISFIT,
    take: Annotated[
        RepetitionStatistic, "Repetition to fit: the fastest (least) or the median."
    ] = RepetitionStatistic.MIN,
    name: Name = None,
    save: Save = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File for the machine.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Picture of times by bytes: .html, .svg, .png, or .pdf.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure alpha and beta of links between MPI ranks or GPUs, and write a machine.

    It sends chunks one after the other and at once, between one pair at a time, and fits alpha and
    beta to both (TACCL, section 4.1). Links with overlapping intervals share one cost.
    """
    check_fitting(alike, max_misfit, name)
    files = {"--measurements": measurements, "--save": save, "--output": output, "--plot": plot}
    check_distinct_files(files)
    machine = resolve_topology(topo) if topo else None
    for path in (save, output):
        options.check_writable(path)
    if plot:
        charts.check_picture(plot)
    if measurements is None:
        trial_settings = size or SIZES, chunks or COUNTS, REPEAT if repeat is None else repeat
        if gpus:
            why = "applies to MPI runs, and --gpus measures the GPUs of one process"
            options.reject_options({"ranks": ranks, "mpi": mpi}, why)
            measured = _measure_gpus(machine, trial_settings, name)
        else:
            measured = _measure(ranks, machine, trial_settings, mpi, name)
        if save:
            save_measurements(measured, save)
    else:
        values = {"ranks": ranks, "size": size, "chunks": chunks, "repeat": repeat, "mpi": mpi}
        values |= {"gpus": gpus or None, "save": save}
        why = "sets a measurement, and --measurements gives the measured values"
        options.reject_options(values, why)
        measured = read_measurements(measurements, machine, name)
    link_profile = fit_profile(measured, machine, alike, max_misfit, take)
    if plot:
        _draw(link_profile, plot)
    if output:
        write_topology(output, link_profile.topology)
    if json:
        print_output(
            profile_output(
                link_profile, machine, measurements=measurements or save, file=output, picture=plot
            )
        )
    else:
        _print(link_profile)
        _print_files({"timings": save, "machine": output, "picture": plot})


def _measure(
    ranks: int | None,
    machine: Topology | None,
    trial_settings: tuple[str, str, int],
    mpi: Path | None,
    name: str | None,
) -> Measurements:
    trial = build_link_trial(ranks, machine, *trial_settings)
    library, console = find_mpi(mpi), err()
    links = format_count(len(trial.edges), "link")
    default_name = f"{machine.name}-measured" if machine else f"measured-{trial.ranks}"
    with console.status("measuring") as status:
        console.print(
            f"measuring {links} between {trial.ranks} MPI ranks, one after another", soft_wrap=True
        )
        return measure_rank_links(
            trial, library, name or default_name, lambda text: status.update(escape(text))
        )


def _measure_gpus(
    machine: Topology | None, trial_settings: tuple[str, str, int], name: str | None
) -> Measurements:
    console = err()
    with console.status("measuring") as status:
        return measure_gpus(machine, trial_settings, name, lambda text: status.update(escape(text)))


def _draw(link_profile: LinkProfile, path: Path) -> None:
    from sccl.view.charts.link_times import profile_chart  # noqa: PLC0415 - charts are slow to load

    charts.save_chart(
        profile_chart(link_profile), path, title=f"sccl: {link_profile.topology.name}"
    )


def _print(link_profile: LinkProfile) -> None:
    console = out()
    table = Table(title=escape(f"{single_line(link_profile.topology.name)}: measured links"))
    table.add_column("link")
    heads = ("alpha, us", "95 %", "GB/s", "95 %", "misfit", "cost")
    for head in heads:
        table.add_column(head, justify="right")
    for fit in link_profile.fits:
        alpha = f"{fit.alpha_us.value:.3g}", _interval_text(fit.alpha_us)
        rate = f"{fit.gb_per_s.value:.3g}", _interval_text(fit.gb_per_s)
        table.add_row(
            f"{fit.src}->{fit.dst}",
            *alpha,
            *rate,
            f"{fit.misfit:.1%}",
            str(link_profile.cost_of(fit) + 1),
        )
    console.print(table)
    for number, cost in enumerate(link_profile.costs, start=1):
        links = format_count(len(cost.edges), "link")
        text = f"cost {number}: alpha {cost.alpha_us:g} us, {cost.gb_per_s:g} GB/s ({links})"
        console.print(text, soft_wrap=True)


def _interval_text(interval: CostInterval) -> str:
    return f"{interval.low:.3g} .. {interval.high:.3g}"


def _print_files(files: dict[str, Path | None]) -> None:
    for label, path in files.items():
        if path is not None:
            print_text(f"{label}: {single_line(path)}")
