"""Create workloads from models, from traces of real jobs, and from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, get_type_hints

from sccl.api.arguments import check_arguments, check_wrapped_kind, coerce_to_hint
from sccl.core.cost import format_bytes, format_duration
from sccl.core.files.disk import write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.formatting import format_count
from sccl.errors import ParameterError
from sccl.training.files.workloads import load_workload, workload_to_wire
from sccl.training.models import FAMILIES, generate_workload
from sccl.training.traces import TraceHints
from sccl.training.types import workload as core
from sccl.training.workload_outputs import import_workload, is_workload_file, workload_part
from sccl.view.text.markup import heading, paragraph, table


@dataclass(frozen=True, slots=True, repr=False)
class Workload:
    """One iteration of a training job: computation, collectives, and their dependencies.

    Attributes:
        value: Workload of :mod:`sccl.training.types.workload`.
        assumed: For traces: assumed values that the traces lack.

    Examples:
        >>> import sccl
        >>> job = {"layers": 4, "hidden": 1024, "heads": 16, "dp": 8, "zero": 3}
        >>> sccl.make_workload("transformer", job)
        Workload(transformer: 8 ranks, 12 collectives, 13.3899 ms of computation)
    """

    value: core.Workload
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_wrapped_kind(self, core.Workload, "sccl.workload")

    @classmethod
    @check_arguments
    def load(cls, path: str | PathLike[str]) -> Workload:
        """Return the workload in a file.

        Raises:
            InputError: The file cannot be read, or is no workload.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> sccl.Workload.load(job.save("job.json"))
            Workload(transformer: 8 ranks, 2 collectives, 7380.01 us of computation)
        """
        return cls(load_workload(Path(path)))

    @property
    def name(self) -> str:
        """Return its name."""
        return self.value.name

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.value.ranks

    @property
    def collectives(self) -> int:
        """Return the number of collectives of an iteration."""
        return sum(1 for _ in self.value.collectives())

    @check_arguments
    def save(self, path: str | PathLike[str]) -> Path:
        """Write the workload to a JSON file and return its path.

        Raises:
            InputError: The file cannot be written.

        Examples:
            >>> import sccl
            >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
            >>> job = sccl.make_workload("transformer", model)
            >>> job.save("job.json").name
            'job.json'
        """
        write_atomically(Path(path), to_text(workload_to_wire(self.value)))
        return Path(path)

    def __repr__(self) -> str:
        return f"Workload({self._summary})"

    @property
    def _summary(self) -> str:
        us = sum(op.duration_us for op in self.value.computation())
        return (
            f"{self.name}: {format_count(self.ranks, 'rank')}, "
            f"{format_count(self.collectives, 'collective')}, {format_duration(us)} of computation"
        )

    def _repr_html_(self) -> str:
        part = workload_part(self.value)
        head = ("Collective", "ranks", "operations", "of", "to", "together")
        rows = [
            (
                item.collective,
                item.group_ranks,
                item.operations,
                *map(format_bytes, (item.least_bytes, item.most_bytes, item.bytes)),
            )
            for item in part.collectives
        ]
        notes = [part.source, *(f"assumed: {item}" for item in self.assumed)]
        return heading(self._summary) + table(head, rows) + "".join(map(paragraph, notes))


@check_arguments
def workload(  # noqa: PLR0913 - a file, a model, or traces, each with its options
    given: str | PathLike[str] | Sequence[str | PathLike[str]],
    parameters: Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    name: str | None = None,
    format: str = "auto",  # noqa: A002 - as the command line calls it
    rank: int | None = None,
    ranks: int | None = None,
    step: int | None = None,
    alike: bool = False,
    host_time: bool = False,
) -> Workload:
    """Return one iteration of a training job from a file, a model, or traces.

    Args:
        given: Path of a workload's file, a family of models such as ``"moe"``, the path of a trace,
            of an archive or a folder of traces, or a list of traces.
        parameters: For models: values by name, such as ``{"layers": 4, "dp": 8}``. Others have
            defaults.
        preset: For models: preset whose parameters are the defaults.
        name: Name of the workload. None: that of the preset, the family, or the first trace.
        format: Format of traces. ``"auto"``: detected.
        rank: With several traces, the only rank to use. With one trace that lacks its rank, the
            rank.
        ranks: Number of ranks of the job, if no trace has it.
        step: Number of the step to use. None: one in the middle.
        alike: Whether ranks without a trace behave like those with one, in groups of their own.
        host_time: Whether to keep the host's time between calls as a stream.

    Raises:
        InputError: An input cannot be read or made, ranks disagree, there are no collectives, or an
            argument does not apply to this kind of input.

    Examples:
        >>> import sccl
        >>> job = {"layers": 4, "hidden": 1024, "heads": 16, "dp": 8, "zero": 3}
        >>> sccl.workload("transformer", job)
        Workload(transformer: 8 ranks, 12 collectives, 13.3899 ms of computation)
    """
    of_model = {"parameters": parameters, "preset": preset}
    of_traces = {"format": None if format == "auto" else format, "rank": rank, "ranks": ranks}
    of_traces |= {"step": step, "alike": alike or None, "host_time": host_time or None}
    if isinstance(given, str) and given in FAMILIES:
        _reject_argument(of_traces, "applies to traces only", f"{given!r} is a family of models")
        return make_workload(given, parameters, preset=preset, name=name)
    paths = [Path(given)] if isinstance(given, str | PathLike) else [Path(path) for path in given]
    if not paths:
        raise ParameterError("sccl.workload: given is an empty list, expected traces")
    _reject_argument(
        of_model,
        "applies to models only",
        f"{str(paths[0])!r:.60} is not a family of models ({', '.join(FAMILIES)})",
    )
    if len(paths) == 1 and is_workload_file(paths[0]):
        _reject_argument(
            {**of_traces, "name": name}, "applies to traces only", f"{paths[0]} is a workload"
        )
        return Workload(load_workload(paths[0]))
    hints = TraceHints(format, rank, ranks, step, alike, host_time)
    read = import_workload(paths, hints, name, None).read
    return Workload(read.workload, read.assumed)


def _reject_argument(options: Mapping[str, object], why: str, fact: str) -> None:
    """Raise a ParameterError if an argument does not apply to this kind of input."""
    for name, value in options.items():
        if value is not None:
            raise ParameterError(f"sccl.workload: {name} {why}, and {fact}: leave it out")


@check_arguments
def make_workload(
    family: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    name: str | None = None,
) -> Workload:
    """Return one training iteration of a model, computed from formulas.

    Args:
        family: ``"transformer"``, ``"moe"``, ``"dlrm"``, ... (``sccl train make --help``).
        parameters: Values by name, such as ``{"layers": 4, "dp": 8}``. Others have defaults.
        preset: Preset whose parameters are the defaults.
        name: Name of the workload. None: that of the preset, or of the family.

    Raises:
        InputError: There is no such family or preset, or parameters contradict one another.

    Examples:
        >>> import sccl
        >>> model = {"layers": 2, "hidden": 1024, "heads": 16, "dp": 8}
        >>> sccl.make_workload("transformer", model)
        Workload(transformer: 8 ranks, 2 collectives, 7380.01 us of computation)
    """
    values = dict(parameters or {})
    if family in FAMILIES:
        hints = get_type_hints(FAMILIES[family].job)
        for parameter in [name for name in values if name in hints]:
            values[parameter] = coerce_to_hint(
                f"sccl.make_workload: {parameter}", values[parameter], hints[parameter]
            )
    return Workload(generate_workload(family, values, preset, name).workload)
