"""The name, source, features, and options of TE-CCL. The seed is that of the effort."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from sccl.core.files.schedule_shapes import VariableBandwidthWire
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.synth.common import contract
from sccl.synth.common.contract import Feature

NAME = "teccl"
SOURCE = "Liu et al., TE-CCL, SIGCOMM 2024, sections 3 and 4.2; also without epochs"
FEATURES = (
    Feature.SWITCHES
    | Feature.UNEQUAL_LINKS
    | Feature.COMBINES
    | Feature.CUSTOM
    | Feature.UNEQUAL_CHUNKS
    | Feature.ANYTIME
    | Feature.PROVES
    | Feature.TIMES
)


class Options(contract.Options, frozen=True, kw_only=True):
    """The options of TE-CCL."""

    DEFAULT_BUDGET: ClassVar[float] = 10.0

    chunks: Annotated[
        int,
        Meta(ge=1, le=1024),
        "Chunks per part that a rank sends or receives.",
        "the sketch's, else 1",
    ] = 1
    model: Annotated[
        Literal["auto", "continuous", "milp", "astar", "lp"],
        "Model: auto, continuous, milp, astar, or lp. continuous (intervals in continuous time) is "
        "the choice of auto, milp has epochs in one model, astar epochs in rounds, and lp rates, "
        "for collectives that copy nothing.",
    ] = "auto"
    switch: Annotated[
        Literal["machine", "copy", "nocopy", "hyperedge"],
        "Switch behavior: as in the machine, copy, nocopy, or hyperedge (no copy, and each link at "
        "a switch takes at most one chunk per epoch).",
    ] = "machine"
    epoch: Annotated[
        str,
        "Epoch length: time of a chunk on the fastest or slowest link, or microseconds; auto: the "
        "fastest link's, which lp shortens while that helps.",
    ] = "auto"
    multiplier: Annotated[
        int, Meta(ge=1, le=1024), "Epoch length as a multiple of the base epoch (TE-CCL's EM)."
    ] = 1
    epochs: Annotated[
        int,
        Meta(ge=0, le=4096),
        "Number of epochs of the horizon or of a round; 0: the smallest feasible number.",
    ] = 0
    buffers: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        "Chunks of other ranks that a rank can buffer, in model milp.",
        "any number",
    ] = None
    combine: Annotated[
        Literal["auto", "reversal", "direct"],
        "Reductions: reversal (the dual's schedule reversed in time), direct (each contribution is "
        "sent separately to the rank that reduces it), auto (the faster one).",
    ] = "auto"
    alpha: Annotated[
        Literal["travels", "occupies"],
        "Alpha model: travels or occupies. With travels a chunk arrives alpha later, with occupies "
        "the link is busy during alpha.",
    ] = "travels"
    solver: Annotated[
        Literal["auto", "cp-sat", "glop", "highs", "pdlp", "scip", "gurobi"],
        "Solver of the model: auto, cp-sat, glop, highs, pdlp, scip, or gurobi. auto is GLOP for "
        "lp and otherwise CP-SAT. Gurobi must be installed. SCIP solves milp and astar, PDLP lp.",
    ] = "auto"
    priorities: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=1000)], ...],
        "Weights of concurrent collectives (e.g. 3,1): minimizes the weighted mean completion "
        "time.",
        "the last finish",
    ] = ()
    bandwidth: Annotated[
        VariableBandwidthWire | None,
        "File of reduced link bandwidths over time ('sccl doctor schema bandwidth'), for models "
        "auto, milp, and astar.",
        "all, always",
    ] = None
    gap: Annotated[
        float, Meta(ge=0, le=1), "Relative optimality gap at which the search stops (0.01 = 1 %)."
    ] = 0.0

    def adapt_machine(self, topology: Topology) -> Topology:
        """Return the machine with the assumed behavior of switches.

        Raises:
            ParameterError: It has no switches.
        """
        if self.switch != "machine" and not topology.switches:
            raise ParameterError(
                f"switch is {self.switch}, and topology {topology.name!r} has no switches: leave "
                "it out"
            )
        if self.switch in {"machine", "hyperedge"}:
            return topology
        copies = self.switch == "copy"
        switches = tuple(replace(device, copies=copies) for device in topology.switches)
        return replace(topology, switches=switches)

    @property
    def has_exclusive_ports(self) -> bool:
        """Return whether a link at a switch takes at most one chunk per epoch."""
        return self.switch == "hyperedge"
