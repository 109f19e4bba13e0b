"""Fit a sketch to a machine: its remaining paths, its symmetries, and the planned chunks."""

from __future__ import annotations

from dataclasses import dataclass

from sccl.collectives import Spec, dual_of
from sccl.core.clock import Clock
from sccl.core.ids import Edge
from sccl.core.topology import Topology
from sccl.errors import ParameterError, UnreachableError
from sccl.synth.sketches.sketch import Sketch

DEFAULT_BYTES = 10**6
"""Bytes of a chunk when routes are counted without times."""


@dataclass(frozen=True, slots=True)
class SketchedRoute:
    """A link, or links through switches, from rank to rank.

    Attributes:
        src: Source rank.
        dst: Destination rank.
        factor: Factor of its time. 0: the sketch excludes it.
        links: Links of the machine.
    """

    src: int
    dst: int
    factor: int
    links: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class FittedSketch:
    """A sketch that fits a machine.

    Attributes:
        sketch: The sketch.
        topology: The machine.
        routes: All routes of the machine.
        symmetries: Size of the group that its rotations generate.
    """

    sketch: Sketch
    topology: Topology
    routes: tuple[SketchedRoute, ...]
    symmetries: int

    @property
    def ranks_per_node(self) -> int:
        """Return the number of ranks of a node."""
        return self.topology.ranks // self.sketch.nodes

    def is_inter_node(self, route: SketchedRoute) -> bool:
        """Return whether a route joins different nodes."""
        return route.src // self.ranks_per_node != route.dst // self.ranks_per_node

    def count_routes(self, *, between: bool) -> tuple[int, int]:
        """Return the numbers of allowed routes and of all routes, between nodes or within them."""
        routes = [route for route in self.routes if self.is_inter_node(route) == between]
        return sum(route.factor > 0 for route in routes), len(routes)


@dataclass(frozen=True, slots=True)
class SketchedChunks:
    """The chunks of a collective within a sketch.

    Attributes:
        chunks: Chunks of the collective. For reductions: chunks of its dual.
        planned: Chunks that represent the others by symmetry.
    """

    collective: str
    chunks: int
    planned: int


def fit_sketch(sketch: Sketch, machine: Topology) -> FittedSketch:
    """Fit a sketch to a machine.

    Raises:
        InputError: The machine contradicts the sketch. The message names the entry.
    """
    from sccl.synth.network.routes import build_routes  # noqa: PLC0415
    from sccl.synth.scheduling.sketch import MachineSketch  # noqa: PLC0415 - loads NumPy

    sketched = MachineSketch(sketch, machine)
    crossings = build_routes(machine, Clock.from_topology(machine, DEFAULT_BYTES))
    factors = sketched.route_factors(crossings.src, crossings.dst)
    symmetries = len(sketched.group)
    sketched.check_symmetric(crossings.src, crossings.dst)
    edges = [k.edge for k in machine.links]
    columns = (crossings.src.tolist(), crossings.dst.tolist(), factors.tolist(), crossings.paths())
    routes = tuple(
        SketchedRoute(src, dst, factor, tuple(edges[k] for k in path))
        for src, dst, factor, path in zip(*columns, strict=True)
    )
    return FittedSketch(sketch, machine, routes, symmetries)


def sketched_chunks(fit: FittedSketch, spec: Spec) -> SketchedChunks:
    """Return the chunks of a collective within a sketch.

    Raises:
        InputError: A symmetry does not preserve the collective, a chunk cannot reach its
            destination over the remaining links, or the sketch's size does not divide into chunks.
    """
    from sccl.synth.common.contract import Request  # noqa: PLC0415
    from sccl.synth.common.reduction import reduce_request  # noqa: PLC0415 - loads NumPy
    from sccl.synth.scheduling.problem import build_problem  # noqa: PLC0415
    from sccl.synth.scheduling.sketch import MachineSketch  # noqa: PLC0415
    from sccl.synth.taccl.routing import check_reachable  # noqa: PLC0415

    sketch, dual = fit.sketch, dual_of(spec)
    collective = dual.spec.at(dual.spec.unit * sketch.chunks)
    where = f"sketch {sketch.name}, on {fit.topology.name!r}"
    _check_divides(sketch, spec, where)
    for phase in reduce_request(Request(fit.topology, spec, DEFAULT_BYTES)).phases:
        machine = phase.topology
        sketched = MachineSketch(sketch, machine, phase.is_backwards)
        sketched.check_preserves(collective)
        try:
            problem = build_problem(
                machine, collective, Clock.from_topology(machine, DEFAULT_BYTES), sketched=sketched
            )
        except UnreachableError as error:
            raise UnreachableError(
                f"{where}: its routes do not permit {spec.name} ({error})"
            ) from error
        check_reachable(problem, where)
    count = collective.num_chunks
    return SketchedChunks(spec.name, count, count // fit.symmetries)


def _check_divides(sketch: Sketch, spec: Spec, where: str) -> None:
    """Check that each chunk of a sketch's size has an integral number of bytes.

    Raises:
        ParameterError: It has not.
    """
    pieces = spec.unit * sketch.chunks
    if sketch.size_bytes is None or not sketch.size_bytes % pieces:
        return
    below = sketch.size_bytes // pieces * pieces
    others = f"{below} or {below + pieces}" if below else f"{pieces}"
    raise ParameterError(
        f"{where}: hyperparameters.input_size is {sketch.size_bytes} bytes, which {spec.name} with "
        f"input_chunkup {sketch.chunks} would cut into {pieces} chunks of no whole bytes: give "
        f"{others}, or another input_chunkup"
    )
