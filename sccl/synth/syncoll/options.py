"""The name, source, features, and options of the k-synchronous synthesizer."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from sccl.core.instance import MAX_K
from sccl.synth.common import contract
from sccl.synth.common.contract import Feature

NAME = "pareto"
SOURCE = "Cai et al., Synthesizing Optimal Collective Algorithms, PPoPP 2021, section 3"
FEATURES = (
    Feature.COMBINES | Feature.CUSTOM | Feature.ANYTIME | Feature.PROVES | Feature.STEPS
)  # fmt: skip

_Count = Annotated[int, Meta(ge=1)]


class Options(contract.Options, frozen=True, kw_only=True):
    """Which algorithm: the best of a sweep at the request's size, or that of (C, S, R)."""

    solver: Annotated[Literal["cpsat", "cadical", "z3"], "Solver of each instance."] = "cpsat"
    symmetry: Annotated[str, "auto, none, translations, or a file with generators."] = "auto"
    k: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_K)] | None,
        "R <= S + k is swept; default: 5, or the rounds of the bandwidth bound.",
    ] = None
    max_steps: Annotated[
        _Count | None, "Last S of the sweep; default: 3 above the latency bound."
    ] = None
    max_chunks: Annotated[
        _Count | None, "Largest C; default: all that the bandwidth bound allows for R."
    ] = None
    chunks: Annotated[_Count | None, "C of the algorithm to search for, with steps and rounds."] = (
        None
    )
    steps: Annotated[_Count | None, "S of it."] = None
    rounds: Annotated[_Count | None, "R of it."] = None
