"""Shared options of verbs: a collective on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sccl.cli import options
from sccl.cli.report import err
from sccl.collectives import Spec, format_in_groups
from sccl.core.files.shapes import COUNTED_COLLECTIVES
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.synth.common.problem import (
    CollectiveProblem,
    build_problem,
    counted_spec,
    required_machine,
)
from sccl.topo import resolve_topology

if TYPE_CHECKING:
    from sccl.synth.sketches.sketch import Sketch

Collective = Annotated[
    str | None,
    "allgather, allreduce, alltoall, broadcast, gather, reduce, reducescatter, scatter, or a .json "
    "file that defines yours. alltoall@0-3/4-7 runs it in groups of ranks (see --groups), "
    "allgather@0-3+alltoall@4-7 runs two at once. Required, unless --groups is a file with a "
    "collective for each group.",
    options.complete_collective,
]
Topo = Annotated[
    str,
    "Machine: a name such as dgx1 or torus:4x4 ('sccl topo list'), or a .json file.",
    options.complete_topology,
]
TopoOrProfile = Annotated[
    str | None,
    "Machine: a name such as ndv2x2 ('sccl topo list') or a .json file.",
    options.complete_topology,
]
TacclTopology = Annotated[
    Path | None,
    typer.Option(
        "--taccl-topology",
        metavar="FILE",
        help="TACCL machine profile instead of --topo, for as many nodes as the sketch has.",
        show_default=False,
        autocompletion=options.complete_file,
    ),
]
Routed = Annotated[
    str | None,
    typer.Option(
        metavar="ROUTES",
        help="Routes of messages that cross several links in one step: xy (dimension by "
        "dimension), shortest, or a .json file.",
        show_default="each step is one link",
        autocompletion=options.complete_words(("xy", "shortest"), "how messages go"),
    ),
]
CountsFile = Annotated[
    Path | None,
    "File of element counts for allgatherv, alltoallv (one row per rank), gatherv, reducescatterv, "
    "scatterv. --size is then the size of one element.",
    options.complete_file,
]
RefusedCounts = Annotated[
    Path | None,
    typer.Option(
        "--counts", help="File of element counts, which step-based verbs refuse.", hidden=True
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="GROUPS|FILE",
        help="Process groups that run the collective at the same time: 0-3/4-7, 0,2,4/1,3,5, "
        "2x4 (of 4 ranks each), 2x4.strided, 0-3:2/4-7:5 (roots), or a .json file.",
        show_default="one, of all ranks",
        autocompletion=options.complete_file,
    ),
]
Root = Annotated[
    str | None,
    typer.Option(
        metavar="RANK",
        help="Root of broadcast, reduce, gather, or scatter: a rank's number or label.",
        show_default="0",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemOptions:
    """The collective and machine."""

    collective: Collective = None
    topo: Topo
    root: Root = None
    counts: CountsFile = None
    groups: Groups = None
    routed: Routed = None

    def machine(self) -> Topology:
        """Return the machine, with routes for messages if requested.

        Raises:
            InputError: The machine does not exist, or the routes do not fit it.
        """
        machine = resolve_topology(self.topo)
        if self.routed is None:
            return machine
        from sccl.topo.multihop import multihop_machine  # noqa: PLC0415 - few machines are routed

        return multihop_machine(machine, self.routed)

    def inputs(self) -> tuple[Topology, str | Spec, str | None]:
        """Return the machine, the collective, and its root (see :func:`parse_collective`)."""
        machine = self.machine()
        return machine, *parse_collective(
            machine, self.collective, self.root, self.counts, self.groups
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments ``collective``, ``topology``, and ``root`` of the Python API.

        Raises:
            InputError: One of them does not exist, or they do not fit.
        """
        from sccl.api.machine import Topology as Machine  # noqa: PLC0415 - loads charts

        machine, collective, root = self.inputs()
        return {"collective": collective, "topology": Machine(machine), "root": root}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProblemOptions(ProblemOptions):
    """The collective and machine of a verb whose chunks have one size."""

    counts: RefusedCounts = None


@dataclass(frozen=True, slots=True)
class SketchedProblemOptions:
    """The collective and machine, with an optional sketch."""

    collective: Collective = None
    topo: TopoOrProfile = None
    taccl_topology: TacclTopology = None
    root: Root = None
    counts: CountsFile = None
    groups: Groups = None

    def collective_and_root(self, machine: Topology) -> tuple[str | Spec, str | None]:
        """Return the collective and its root (see :func:`parse_collective`)."""
        return parse_collective(machine, self.collective, self.root, self.counts, self.groups)

    def machine(self, sketch: Sketch | None) -> Topology:
        """Return the machine.

        Args:
            sketch: Sketch, whose number of nodes a profile is expanded to. None: one node.

        Raises:
            InputError: No machine or two machines are given, or the machine does not exist.
        """
        nodes = 1 if sketch is None else sketch.nodes
        return required_machine(self.topo, self.taccl_topology, nodes)


def parse_collective(
    machine: Topology,
    collective: str | None,
    root: str | None,
    counts: Path | None,
    groups: str | None = None,
) -> tuple[str | Spec, str | None]:
    """Return a collective, possibly in groups or with counts, and its root.

    Raises:
        InputError: No collective is given, counts are missing or not allowed, or counts or groups
            do not fit.
    """
    if collective is None and not (groups or "").endswith(".json"):
        raise ParameterError(
            "no collective is given: name one with --collective, or give --groups a .json file in "
            "which each group has its own"
        )
    if groups is not None:
        if counts is not None:
            raise ParameterError("--counts apply to all ranks and --groups to some: leave one out")
        return format_in_groups(collective, groups), root
    assert collective is not None
    if counts is not None:
        return counted_spec(machine, collective, root, counts), None
    if collective in COUNTED_COLLECTIVES:
        raise ParameterError(f"{collective} needs counts of elements: give --counts FILE")
    return collective, root


def load_problem(options: ProblemOptions) -> CollectiveProblem:
    """Return the machine model and the collective, and print changes to the machine.

    Raises:
        InputError: One of them does not exist, or they do not fit.
    """
    subject = build_problem(*options.inputs()).require_steps()
    for note in subject.notes:
        err().print(f"{subject.topology.name}: {note}", markup=False, soft_wrap=True)
    return subject
