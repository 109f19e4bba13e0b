"""Profile a machine: time its links, fit alpha and beta, and build a topology from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

import sccl
from sccl.core.cost import format_bytes
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import digest, to_text
from sccl.core.files.outputs import Output, build_output, question_digests
from sccl.core.files.shapes import FileText, NonNegative, Part
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.runtime.link_profile import LinkTrial, build_gpu_profiler, measure_links
from sccl.runtime.mpi import Mpi
from sccl.runtime.project_timing import size_range
from sccl.topo.profiles.measurement_files import load_measurements, measurements_to_wire
from sccl.topo.profiles.measurements import MAX_PROFILED, Measurements, RepetitionStatistic

if TYPE_CHECKING:
    from sccl.topo.profiles.measured_machine import CostInterval, LinkFit, SharedCost

SIZES, COUNTS, REPEAT = "1K..1M", "1,2,8", 10
_MAX_SIZES, _MAX_COUNT, _MAX_BYTES, _MAX_REPEAT = 31, 1024, 1 << 30, 1000

Interval = Annotated[tuple[float, float], Meta(description="Bootstrap interval, 95 %.")]


class FittedLinkPart(Part, frozen=True, kw_only=True):
    """The fitted costs of a link, and the index of its shared costs."""

    src: NonNegative
    dst: NonNegative
    alpha_us: Annotated[float, "Latency, microseconds."]
    alpha_us_interval: Interval
    gb_per_s: Annotated[float, "1/beta, 10^9 bytes per second."]
    gb_per_s_interval: Interval
    misfit: Annotated[float, "Median relative error of its measurements."]
    cost: Annotated[NonNegative, "Index of the link's costs in 'costs'."]


class SharedCostPart(Part, frozen=True, kw_only=True):
    """The costs that similar links share."""

    alpha_us: float
    gb_per_s: Annotated[float, "Bandwidth of a link with all its lanes."]
    links: NonNegative


class ProfileOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl topo profile'."""

    kind: Literal["profile"] = "profile"
    name: str
    ranks: NonNegative
    timings: Annotated[NonNegative, "Number of fitted rows, each with several repetitions."]
    take: Annotated[Literal["least", "median"], "Repetitions that were fitted."]
    links: tuple[FittedLinkPart, ...]
    costs: tuple[SharedCostPart, ...]
    measurements: Annotated[FileText | None, "File with the timings."]
    file: Annotated[FileText | None, "File with the machine."]
    picture: FileText | None


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """A machine that was built from measurements.

    Attributes:
        fits: Fitted costs of each link, ascending by link.
    """

    measurements: Measurements
    take: RepetitionStatistic
    fits: tuple[LinkFit, ...]
    costs: tuple[SharedCost, ...]
    topology: Topology

    def cost_of(self, fit: LinkFit) -> int:
        """Return the index in ``costs`` of a link's cost."""
        return next(i for i, cost in enumerate(self.costs) if fit.edge in cost.edges)


def build_link_trial(
    ranks: int | None, machine: Topology | None, sizes: str, counts: str, repeat: int
) -> LinkTrial:
    """Return the parameters of a measurement.

    Args:
        ranks: Number of ranks. None: the number of the machine.
        machine: Machine whose links are measured. None: every pair of ranks.
        sizes: Range of chunk sizes in bytes, ``from..to``, in factors of two.
        counts: Numbers of chunks, such as ``"1,2,8"``.

    Raises:
        ParameterError: A value is out of range, or the machine has links that cannot be measured
            between two ranks.
    """
    if machine is not None:
        from sccl.topo.profiles.measured_machine import check_measurable  # noqa: PLC0415 - as below

        check_measurable(machine)
        if ranks not in (None, machine.ranks):
            raise ParameterError(
                f"ranks is {ranks}, but topology {machine.name!r} has {machine.ranks}: leave "
                "--ranks "
                "out"
            )
        ranks = machine.ranks
    if ranks is None:
        raise ParameterError(
            "nothing to measure: give --ranks N, --gpus, a machine as --topo, or a file of "
            "--measurements"
        )
    if not 2 <= ranks <= MAX_PROFILED:
        raise ParameterError(f"ranks is {ranks}, expected 2 to {MAX_PROFILED}")
    if not 1 <= repeat <= _MAX_REPEAT:
        raise ParameterError(f"repeat is {repeat}, expected 1 to {_MAX_REPEAT}")
    edges = sorted(machine.edges) if machine else list(permutations(range(ranks), 2))
    return LinkTrial(ranks, tuple(edges), _size_ladder(sizes), _parse_counts(counts, sizes), repeat)


def _size_ladder(text: str) -> tuple[int, ...]:
    low, high = size_range(text)
    sizes = [low << n for n in range(_MAX_SIZES) if low << n <= high]
    if len(sizes) < 2:
        raise ParameterError(
            f"sizes is {text!r}, expected at least two, each twice the one before, such as {SIZES}"
        )
    return tuple(sizes)


def _parse_counts(text: str, sizes: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 5 for word in words):
        raise ParameterError(f"chunks is {text!r}, expected numbers such as {COUNTS}")
    counts = sorted({int(word) for word in words})
    if not 1 <= counts[0] <= counts[-1] <= _MAX_COUNT:
        raise ParameterError(f"chunks is {text!r}, expected numbers from 1 to {_MAX_COUNT}")
    max_bytes = counts[-1] * size_range(sizes)[1]
    if max_bytes > _MAX_BYTES:
        raise ParameterError(
            f"{counts[-1]} chunks of the largest of sizes {sizes!r} are {format_bytes(max_bytes)}, "
            f"expected at most {format_bytes(_MAX_BYTES)} at once"
        )
    return tuple(counts)


def measure_rank_links(
    trial: LinkTrial, mpi: Mpi, name: str, notify: Callable[[str], None]
) -> Measurements:
    """Measure the times of transfers between MPI ranks, one pair after another.

    Raises:
        ToolError: The measuring program cannot be built, or failed.
    """
    library = "Open MPI" if mpi.open_mpi else "MPICH or its like"
    source = _source_text(trial, f"MPI ranks ({library})")
    return Measurements(name, trial.ranks, measure_links(trial, mpi, notify), source)


def measure_gpus(
    machine: Topology | None,
    asked: tuple[str, str, int],
    name: str | None,
    notify: Callable[[str], None],
) -> Measurements:
    """Measure the times of copies between the GPUs of this machine, one pair after another.

    Args:
        machine: Machine whose links are measured. None: every pair of GPUs.
        asked: Sizes, counts, and repetitions, as for :func:`build_link_trial`.
        name: Name of the measurement. None: a generated one.
        notify: Progress callback: description of the current work.

    Raises:
        InputError: A value is out of range, there is no compiler, or too few GPUs are visible.
        ToolError: The measuring program cannot be built, or failed.
    """
    build_link_trial(None if machine else 2, machine, *asked)  # before anything is compiled
    with build_gpu_profiler(notify) as profiler:
        trial = build_link_trial(None if machine else profiler.gpus, machine, *asked)
        timings = profiler.measure(trial, machine.pci_bus_ids if machine else (), notify)
    default_name = f"{machine.name}-measured" if machine else f"measured-{trial.ranks}-gpus"
    return Measurements(name or default_name, trial.ranks, timings, _source_text(trial, "GPUs"))


def _source_text(trial: LinkTrial, between: str) -> str:
    low, high = format_bytes(trial.sizes[0]), format_bytes(trial.sizes[-1])
    counts = ", ".join(map(str, trial.counts))
    return (
        f"Measured by sccl {sccl.__version__} between {trial.ranks} {between} of one machine: "
        f"chunks of {low} to {high}, {counts} of them one after another and at once, "
        f"{trial.repeat} repetitions."
    )


def read_measurements(path: Path, machine: Topology | None, name: str | None) -> Measurements:
    """Return the measurements in a file.

    Args:
        machine: Machine. If all its links were measured, other links are left out. None: all links.
        name: New name of the measurements. None: the name in the file.

    Raises:
        InputError: The file contains no measurements.
    """
    measurements = load_measurements(path)
    if machine is not None and machine.edges <= set(measurements.by_link()):
        kept = tuple(t for t in measurements.timings if t.edge in machine.edges)
        measurements = replace(measurements, timings=kept)
    return measurements if name is None else replace(measurements, name=name)


def save_measurements(measurements: Measurements, path: Path) -> None:
    """Write measurements to a file, from which they can be fitted again.

    Raises:
        InputError: The file cannot be written.
    """
    write_atomically(path, to_text(measurements_to_wire(measurements)))


def check_fitting(alike: float, max_misfit: float, name: str | None = None) -> None:
    """Check the settings of the fit and the name before measuring.

    Raises:
        ParameterError: A setting is out of range, or the name is empty.
    """
    if name is not None and not name.strip():
        raise ParameterError(f"name is {name!r}: give one, or leave --name out")
    if not 0 <= alike <= 1:
        raise ParameterError(f"alike is {alike}, expected a number from 0 to 1, such as 0.1")
    if not 0 < max_misfit <= 10:
        raise ParameterError(f"max_misfit is {max_misfit}, expected a number above 0, to 10")


def fit_profile(
    measurements: Measurements,
    machine: Topology | None,
    alike: float,
    max_misfit: float,
    take: RepetitionStatistic,
) -> LinkProfile:
    """Fit alpha and beta of each link, and return the resulting machine.

    Args:
        machine: Machine with the links of the result. None: the measured links.
        alike: Relative difference up to which costs always count as equal.
        max_misfit: Maximum median relative error of a link's fit.
        take: Statistic of the repetitions to fit.

    Raises:
        ParameterError: No alpha and beta fit the measurements of a link, or the measurements are
            not of the machine.
    """
    from sccl.topo.profiles.measured_machine import (  # noqa: PLC0415 - NumPy is slow to load
        build_measured_machine,
        fit_links,
        shared_costs,
    )

    fits = fit_links(measurements, max_misfit, take)
    costs = shared_costs(fits, alike)
    return LinkProfile(
        measurements, take, fits, costs, build_measured_machine(measurements, costs, machine)
    )


def check_distinct_files(files: Mapping[str, Path | None]) -> None:
    """Check that no output file would overwrite another file.

    Args:
        files: Files by the option that names them.

    Raises:
        ParameterError: Two files are the same.
    """
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        before = seen.setdefault(path.resolve(), option)
        if before != option:
            raise ParameterError(
                f"{before} and {option} are both {path}, so one would overwrite the other: give "
                "different files"
            )


def profile_output(
    profile: LinkProfile,
    machine: Topology | None,
    *,
    measurements: Path | None,
    file: Path | None,
    picture: Path | None,
) -> ProfileOutput:
    """Return the JSON output.

    Args:
        machine: Machine whose links were measured. None: every pair of ranks.
    """
    inputs = {"measurements": digest(measurements_to_wire(profile.measurements))}
    if machine is not None:
        inputs |= question_digests(machine)
    return build_output(
        ProfileOutput,
        profile.topology,
        inputs=inputs,
        timings=len(profile.measurements.timings),
        take=profile.take,
        links=[_link_part(fit, profile.cost_of(fit)) for fit in profile.fits],
        costs=[build_output(SharedCostPart, c, links=len(c.edges)) for c in profile.costs],
        measurements=measurements,
        file=file,
        picture=picture,
    )


def _link_part(fit: LinkFit, cost: int) -> FittedLinkPart:
    return build_output(
        FittedLinkPart,
        fit,
        alpha_us=_round_value(fit.alpha_us.value),
        alpha_us_interval=_interval_ends(fit.alpha_us),
        gb_per_s=_round_value(fit.gb_per_s.value),
        gb_per_s_interval=_interval_ends(fit.gb_per_s),
        misfit=round(fit.misfit, 4),
        cost=cost,
    )


def _interval_ends(interval: CostInterval) -> tuple[float, float]:
    return _round_value(interval.low), _round_value(interval.high)


def _round_value(value: float) -> float:
    return float(f"{value:.6g}")
