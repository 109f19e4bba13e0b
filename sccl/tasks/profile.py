"""Profiling: links are timed, alpha and beta fitted, and a machine is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

import sccl
from sccl.core.cost import bytes_text
from sccl.core.files.disk import write_atomically
from sccl.core.files.fields import Count, FileText, Part
from sccl.core.files.measurements import load_measurements, measurements_to_wire
from sccl.core.files.text import digest, text_of
from sccl.core.files.topologies import topology_to_wire
from sccl.core.measurements import MAX_PROFILED, Measurements, Repetitions
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.runtime import LinkTrial, Mpi, gpu_profiler, link_timings
from sccl.tasks.outputs import Output, question_digests
from sccl.tasks.run import size_range

if TYPE_CHECKING:
    from sccl.topo.profiles.alike import SharedCost
    from sccl.topo.profiles.fit import CostInterval, LinkFit

SIZES, COUNTS, REPEAT = "1K..1M", "1,2,8", 10
_MOST_SIZES, _MOST_COUNT, _MOST_BYTES, _MOST_REPEAT = 31, 1024, 1 << 30, 1000

Interval = Annotated[
    tuple[float, float], Meta(description="Where it lies by the bootstrap, 95 of 100 times.")
]


class FittedLinkPart(Part, frozen=True, kw_only=True):
    """The fitted costs of a link, and the index of its shared costs."""

    src: Count
    dst: Count
    alpha_us: Annotated[float, Meta(description="Latency, microseconds.")]
    alpha_us_interval: Interval
    gb_per_s: Annotated[float, Meta(description="1/beta, 10^9 bytes per second.")]
    gb_per_s_interval: Interval
    misfit: Annotated[
        float, Meta(description="The median error of its measurements, in proportion.")
    ]
    cost: Annotated[Count, Meta(description="Index of the link's costs in 'costs'.")]


class SharedCostPart(Part, frozen=True, kw_only=True):
    """The costs that similar links share."""

    alpha_us: float
    gb_per_s: Annotated[float, Meta(description="Bandwidth of a link with all its lanes.")]
    links: Count


class ProfileOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl profile'."""

    kind: Literal["profile"] = "profile"
    name: str
    ranks: Count
    timings: Annotated[Count, Meta(description="Rows that were fitted, each of some repetitions.")]
    take: Annotated[Literal["least", "median"], Meta(description="Repetitions that were fitted.")]
    links: tuple[FittedLinkPart, ...]
    costs: tuple[SharedCostPart, ...]
    measurements: Annotated[FileText | None, Meta(description="Where timings were kept.")]
    file: Annotated[FileText | None, Meta(description="Where the machine was written.")]
    picture: FileText | None


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """A machine from measurements.

    Attributes:
        take: Repetitions that were fitted.
        fits: Fitted costs of each link, ascending.
        costs: Costs that similar links share.
    """

    measurements: Measurements
    take: Repetitions
    fits: tuple[LinkFit, ...]
    costs: tuple[SharedCost, ...]
    topology: Topology

    def cost_of(self, fit: LinkFit) -> int:
        """Return the place of a link's cost."""
        return next(i for i, cost in enumerate(self.costs) if fit.edge in cost.edges)


def trial_of_links(
    ranks: int | None, known: Topology | None, sizes: str, counts: str, repeat: int
) -> LinkTrial:
    """Return the parameters of a measurement.

    Args:
        ranks: Number of ranks. None: that of the known machine.
        known: Machine whose links are measured. None: every pair of ranks.
        sizes: Bytes of a chunk, ``from..to``, in factors of two.
        counts: Numbers of chunks, such as ``"1,2,8"``.

    Raises:
        ParameterError: A value is out of range, or the machine has links that no two ranks measure.
    """
    if known is not None:
        from sccl.topo.profiles.machine import check_measurable  # noqa: PLC0415 - as below

        check_measurable(known)
        if ranks not in (None, known.ranks):
            raise ParameterError(
                f"ranks is {ranks}, but topology {known.name!r} has {known.ranks}: leave --ranks "
                "out"
            )
        ranks = known.ranks
    if ranks is None:
        raise ParameterError(
            "nothing to measure: give --ranks N, --gpus, a machine as --topo, or a file of "
            "--measurements"
        )
    if not 2 <= ranks <= MAX_PROFILED:
        raise ParameterError(f"ranks is {ranks}, expected 2 to {MAX_PROFILED}")
    if not 1 <= repeat <= _MOST_REPEAT:
        raise ParameterError(f"repeat is {repeat}, expected 1 to {_MOST_REPEAT}")
    edges = sorted(known.edges) if known else list(permutations(range(ranks), 2))
    return LinkTrial(ranks, tuple(edges), _ladder(sizes), _counts(counts, sizes), repeat)


def _ladder(text: str) -> tuple[int, ...]:
    low, high = size_range(text)
    found = [low << n for n in range(_MOST_SIZES) if low << n <= high]
    if len(found) < 2:
        raise ParameterError(
            f"sizes is {text!r}, expected at least two, each twice the one before, such as {SIZES}"
        )
    return tuple(found)


def _counts(text: str, sizes: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 5 for word in words):
        raise ParameterError(f"chunks is {text!r}, expected numbers such as {COUNTS}")
    found = sorted({int(word) for word in words})
    if not 1 <= found[0] <= found[-1] <= _MOST_COUNT:
        raise ParameterError(f"chunks is {text!r}, expected numbers from 1 to {_MOST_COUNT}")
    most = found[-1] * size_range(sizes)[1]
    if most > _MOST_BYTES:
        raise ParameterError(
            f"{found[-1]} chunks of the largest of sizes {sizes!r} are {bytes_text(most)}, "
            f"expected at most {bytes_text(_MOST_BYTES)} at once"
        )
    return tuple(found)


def measure(trial: LinkTrial, mpi: Mpi, name: str, notify: Callable[[str], None]) -> Measurements:
    """Return the times of transfers between MPI ranks, one pair after another.

    Args:
        name: Name of the measurement.
        notify: Function that receives progress.

    Raises:
        ToolError: The measuring program cannot be built, or failed.
    """
    library = "Open MPI" if mpi.open_mpi else "MPICH or its like"
    source = _source(trial, f"MPI ranks ({library})")
    return Measurements(name, trial.ranks, link_timings(trial, mpi, notify), source)


def measure_gpus(
    known: Topology | None,
    asked: tuple[str, str, int],
    name: str | None,
    notify: Callable[[str], None],
) -> Measurements:
    """Return the times of copies between the GPUs of this machine, one pair after another.

    Args:
        known: Machine whose links are measured. None: every pair of GPUs.
        asked: Sizes, counts, and repetitions, as for :func:`trial_of_links`.
        name: Name of the measurement. None: a generated one.
        notify: Function that receives progress.

    Raises:
        InputError: A value is out of range, there is no compiler, or too few GPUs are visible.
        ToolError: The measuring program cannot be built, or failed.
    """
    trial_of_links(None if known else 2, known, *asked)  # before anything is compiled
    with gpu_profiler(notify) as profiler:
        trial = trial_of_links(None if known else profiler.gpus, known, *asked)
        timings = profiler.timings(trial, known.pci_bus_ids if known else (), notify)
    own = f"{known.name}-measured" if known else f"measured-{trial.ranks}-gpus"
    return Measurements(name or own, trial.ranks, timings, _source(trial, "GPUs"))


def _source(trial: LinkTrial, between: str) -> str:
    low, high = bytes_text(trial.sizes[0]), bytes_text(trial.sizes[-1])
    counts = ", ".join(map(str, trial.counts))
    return (
        f"Measured by sccl {sccl.__version__} between {trial.ranks} {between} of one machine: "
        f"chunks of {low} to {high}, {counts} of them one after another and at once, "
        f"{trial.repeat} repetitions."
    )


def read_measurements(path: Path, known: Topology | None, name: str | None) -> Measurements:
    """Return the measurements in a file; of those, the ones of a known machine's links.

    Raises:
        InputError: the file holds none.
    """
    found = load_measurements(path)
    if known is not None and known.edges <= set(found.by_link()):
        kept = tuple(t for t in found.timings if t.edge in known.edges)
        found = replace(found, timings=kept)
    return found if name is None else replace(found, name=name)


def save_measurements(measurements: Measurements, path: Path) -> None:
    """Write measurements to a file, from which they can be fitted again.

    Raises:
        InputError: it cannot be written.
    """
    write_atomically(path, text_of(measurements_to_wire(measurements)))


def check_fitting(alike: float, max_misfit: float, name: str | None = None) -> None:
    """Check the settings of the fit and the name before measuring.

    Raises:
        ParameterError: One of them is out of range.
    """
    if name is not None and not name.strip():
        raise ParameterError(f"name is {name!r}: give one, or leave --name out")
    if not 0 <= alike <= 1:
        raise ParameterError(f"alike is {alike}, expected a number from 0 to 1, such as 0.1")
    if not 0 < max_misfit <= 10:
        raise ParameterError(f"max_misfit is {max_misfit}, expected a number above 0, to 10")


def profile_of(
    measurements: Measurements,
    known: Topology | None,
    alike: float,
    max_misfit: float,
    take: Repetitions,
) -> LinkProfile:
    """Return the machine that measurements tell of.

    Args:
        known: whose links it has. None: those that were measured.
        alike: up to which difference costs are the same in any case, in proportion.
        max_misfit: the most that a link's measurements may miss its alpha and beta in the median.
        take: which repetitions are fitted.

    Raises:
        ParameterError: measurements of some link fit no alpha and beta, or are not of the machine.
    """
    from sccl.topo.profiles.alike import shared_costs  # noqa: PLC0415 - NumPy is slow to load
    from sccl.topo.profiles.fit import fitted  # noqa: PLC0415
    from sccl.topo.profiles.machine import measured_machine  # noqa: PLC0415

    fits = fitted(measurements, max_misfit, take)
    costs = shared_costs(fits, alike)
    return LinkProfile(
        measurements, take, fits, costs, measured_machine(measurements, costs, known)
    )


def check_apart(files: Mapping[str, Path | None]) -> None:
    """Check that no output file would overwrite another file.

    Args:
        files: Files by the option that names them.

    Raises:
        ParameterError: Two are the same.
    """
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        before = seen.setdefault(path.resolve(), option)
        if before != option:
            raise ParameterError(
                f"{before} and {option} are both {path}, which would be written over: give each a "
                "file of its own"
            )


def write_measured(profile: LinkProfile, path: Path) -> None:
    """Write the machine to a file.

    Raises:
        InputError: it cannot be written.
    """
    write_atomically(path, text_of(topology_to_wire(profile.topology)))


def profile_output(
    profile: LinkProfile,
    known: Topology | None,
    *,
    measurements: Path | None,
    file: Path | None,
    picture: Path | None,
) -> ProfileOutput:
    """Return the JSON output.

    Args:
        measurements: File of the timings.
        file: File of the machine.
    """
    inputs = {"measurements": digest(measurements_to_wire(profile.measurements))}
    if known is not None:
        inputs |= question_digests(known)
    return ProfileOutput(
        inputs=inputs,
        name=profile.topology.name,
        ranks=profile.topology.ranks,
        timings=len(profile.measurements.timings),
        take=profile.take.value,
        links=tuple(_link_part(fit, profile.cost_of(fit)) for fit in profile.fits),
        costs=tuple(
            SharedCostPart(alpha_us=c.alpha_us, gb_per_s=c.gb_per_s, links=len(c.edges))
            for c in profile.costs
        ),
        measurements=_text(measurements),
        file=_text(file),
        picture=_text(picture),
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _link_part(fit: LinkFit, cost: int) -> FittedLinkPart:
    return FittedLinkPart(
        src=fit.src,
        dst=fit.dst,
        alpha_us=_short(fit.alpha_us.value),
        alpha_us_interval=_ends(fit.alpha_us),
        gb_per_s=_short(fit.gb_per_s.value),
        gb_per_s_interval=_ends(fit.gb_per_s),
        misfit=round(fit.misfit, 4),
        cost=cost,
    )


def _ends(interval: CostInterval) -> tuple[float, float]:
    return _short(interval.low), _short(interval.high)


def _short(value: float) -> float:
    return float(f"{value:.6g}")
