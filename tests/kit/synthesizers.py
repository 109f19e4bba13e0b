"""The conformance of a synthesiser, written once: :func:`check_synthesizer` is one call for all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from sccl.collectives import named_spec
from sccl.core.algorithm import Algorithm
from sccl.core.bound import Measure
from sccl.core.cost import Costs
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.json_text import to_text
from sccl.core.files.kinds import json_schema
from sccl.core.files.schedules import text_pieces
from sccl.core.outcome import Inconclusive, Infeasible, Outcome, Solution
from sccl.core.packed_schedule import PackedSchedule
from sccl.core.schedule import Schedule
from sccl.core.symmetric import SymmetricAlgorithm
from sccl.core.topology import Link, Switch, Topology
from sccl.errors import InputError
from sccl.judge import violations
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Feature, Options, Request, Synthesizer
from sccl.synth.packing.by_steps.limits_by_steps import PackingLimits
from sccl.topo import resolve_topology
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S
from tests.kit.small_budgets import small_tacos_budget

ANY = Feature(0)
ENOUGH = Effort(units=20.0)
"""Budget in units instead of seconds, so results depend on no clock."""


@dataclass(frozen=True)
class Case:
    """A request that some plan fulfils.

    Attributes:
        needs: features without which it is refused.
    """

    name: str
    request: Request
    needs: Feature


def _case(topology: str, collective: str, size_bytes: int, needs: Feature = ANY) -> Case:
    machine = resolve_topology(topology)
    spec = named_spec(collective, machine.ranks)
    return Case(
        f"{collective}-{topology}", Request(machine, spec, size_bytes, PackingLimits), needs
    )


def _swap() -> Case:
    """Return an alltoall by a name that no synthesiser knows."""
    ring = resolve_topology("ring:4")
    spec = replace(named_spec("alltoall", 4), name="swap")
    return Case("swap-ring:4", Request(ring, spec, 1 << 16, PackingLimits), Feature.CUSTOM)


def _star() -> Case:
    """Return three ranks at a switch."""
    links = tuple(Link(*edge, 1, 0.5, 25.0) for r in range(3) for edge in ((r, 3), (3, r)))
    star = Topology("star", 3, links, 0.5, 25.0, switches=(Switch("hub"),))
    return Case(
        "broadcast-star",
        Request(star, named_spec("broadcast", 3), 1 << 16, PackingLimits),
        Feature.SWITCHES,
    )


def _uneven() -> Case:
    ring = resolve_topology("ring:3")
    links = (replace(ring.links[0], gb_per_s=2 * ring.gb_per_s), *ring.links[1:])
    request = Request(
        replace(ring, links=links), named_spec("allgather", 3), 1 << 16, PackingLimits
    )
    return Case("allgather-uneven", request, Feature.UNEQUAL_LINKS)


CASES = (
    _case("dgx1", "allgather", 1 << 20),
    _case("ring:4", "allgather", 1),
    _case("line:3", "scatter", 1 << 30),
    _case("full:4", "allreduce", 1 << 20, Feature.COMBINES),
    _case("ring:4", "reduce", 1 << 20, Feature.COMBINES),
    _swap(),
    _star(),
    _uneven(),
)
"""All but the first are small."""


LITTLE = {"limits-time": 0.25, "taccl": 0.1, "teccl": 0.1}
"""Budget of synthesizers that improve a plan, because the contract requires no optimum."""


def sufficient_effort(name: str) -> Effort:
    """Return a sufficient budget, which is smaller for synthesizers that improve a plan."""
    return Effort(units=LITTLE.get(name, ENOUGH.units))


def check_synthesizer(synthesizer: Synthesizer) -> None:
    """Check all that the contract promises of a synthesiser.

    Raises:
        AssertionError: it does not keep to it.
    """
    check_fields(synthesizer)
    check_options(synthesizer)
    outcomes = [(case, _planned(synthesizer, case)) for case in CASES]
    for case, outcome in outcomes:
        if outcome is not None:
            check_outcome(synthesizer, case, outcome)
    assert any(isinstance(outcome, Solution) for _, outcome in outcomes)
    check_little_effort(synthesizer)
    first = {
        case.name: outcome_text(o) for case, o in outcomes if o is not None and case in CASES[1:]
    }
    check_same_bytes(synthesizer, first)
    check_interrupt(synthesizer)


def check_fields(synthesizer: Synthesizer) -> None:
    """Check the declared attributes."""
    assert synthesizer.NAME in registry.names()
    assert registry.load(synthesizer.NAME) is synthesizer
    assert synthesizer.SOURCE.strip()
    assert synthesizer.FEATURES & (Feature.STEPS | Feature.TIMES)


def check_options(synthesizer: Synthesizer) -> None:
    """Check that options have defaults, help and ranges from which verbs can be made."""
    kind = synthesizer.Options
    assert issubclass(kind, Options)
    assert kind.__struct_config__.frozen
    assert kind() == kind()
    schema = json_schema(kind)["$defs"][kind.__name__]
    for field in msgspec.structs.fields(kind):
        assert not field.required, f"{field.name} has no default"
        assert schema["properties"][field.name].get("description"), f"{field.name} has no help"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"no-such-option": 1}, kind)


@small_tacos_budget()
def _planned(synthesizer: Synthesizer, case: Case) -> Outcome | None:
    """Return the outcome of a case, or None if it is rejected with one sentence."""
    effort = sufficient_effort(synthesizer.NAME)
    if case.needs in synthesizer.FEATURES:
        return registry.plan(synthesizer, case.request, effort=effort)
    with pytest.raises(InputError) as refused:
        registry.plan(synthesizer, case.request, effort=effort)
    assert synthesizer.NAME in str(refused.value)
    assert "\n" not in str(refused.value)
    return None


def check_outcome(synthesizer: Synthesizer, case: Case, outcome: Outcome) -> None:
    """Check the outcome of a feasible request."""
    assert not isinstance(outcome, Infeasible), f"{case.name} is possible"
    best = outcome.best if isinstance(outcome, Inconclusive) else outcome
    if isinstance(outcome, Inconclusive):
        assert outcome.reason
        assert best is None or Feature.ANYTIME in synthesizer.FEATURES or not best.is_optimal
    if best is None:
        return
    plan, bound = best.plan, best.bound
    is_timed = isinstance(plan, Schedule)
    assert (Feature.TIMES if is_timed else Feature.STEPS) in synthesizer.FEATURES
    assert plan.topology == case.request.topology
    assert plan.collective == case.request.spec.at(plan.collective.chunks)
    assert bound.value <= best.objective
    assert best.is_optimal <= (Feature.PROVES in synthesizer.FEATURES)
    if isinstance(plan, Algorithm | SymmetricAlgorithm):
        assert violations(plan) == []
        if bound.measure is Measure.COST:
            assert best.objective == plan.bandwidth_cost
        else:
            costs, size = Costs.from_topology(plan.topology), case.request.size_bytes
            time_us = costs.time_us(plan.steps, plan.bandwidth_cost, size)
            assert float(best.objective) == pytest.approx(time_us)


@small_tacos_budget()
def check_little_effort(synthesizer: Synthesizer) -> None:
    """Check that a budget near zero, or no time, is the stated reason, and refutes nothing.

    It covers only the smallest case, because a synthesizer without a decision may try many things.
    """
    for case in CASES[1:4]:
        if case.needs not in synthesizer.FEATURES:
            continue
        none = registry.plan(synthesizer, case.request, effort=Effort(units=0.0))
        assert isinstance(none, Inconclusive)
        little = registry.plan(synthesizer, case.request, effort=Effort(units=1e-9))
        check_outcome(synthesizer, case, little)
    late = registry.plan(synthesizer, CASES[1].request, effort=Effort(timeout_s=1e-9))
    check_outcome(synthesizer, CASES[1], late)


def outcome_text(outcome: Outcome) -> str:
    """Format all fields of an outcome, with plans as their files."""
    match outcome:
        case Solution(plan, bound):
            assert not isinstance(plan, PackedSchedule)  # with millions of transfers
            text = (
                "".join(text_pieces(plan))
                if isinstance(plan, Schedule)
                else to_text(algorithm_to_wire(plan))
            )
            return f"{text}\n{bound}"
        case Inconclusive(reason, best):
            return f"{reason}\n{outcome_text(best) if best else ''}"
        case Infeasible(evidence):
            return str(evidence)


@small_tacos_budget()
def outcome_texts(synthesizer: Synthesizer) -> dict[str, str]:
    """Return the outcome of every supported case except the large ones."""
    small = [case for case in CASES[1:] if case.needs in synthesizer.FEATURES]
    effort = sufficient_effort(synthesizer.NAME)
    return {
        case.name: outcome_text(registry.plan(synthesizer, case.request, effort=effort))
        for case in small
    }


def _program(*words: str, hash_seed: str = "0") -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.planned", *words],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_same_bytes(synthesizer: Synthesizer, first: dict[str, str]) -> None:
    """Check that outcomes are reproducible, here and with another order of string sets.

    Args:
        first: Earlier outcomes of the same cases.
    """
    assert outcome_texts(synthesizer) == first
    assert _program(synthesizer.NAME, hash_seed="4711") == first


def check_interrupt(synthesizer: Synthesizer) -> None:
    """Check that Ctrl-C is heard while native code works for it."""
    said = _program(synthesizer.NAME, "--interrupt")
    assert said in {"nothing native", "KeyboardInterrupt", "Inconclusive"}
