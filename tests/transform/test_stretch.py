"""The same rounds in more steps: valid for any algorithm, and found where models would be large."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.collectives import named_spec
from sccl.core.answer import Sat
from sccl.core.instance import Instance
from sccl.errors import ParameterError
from sccl.judge import violations
from sccl.solvers.effort import Effort
from sccl.synth.limits import TRIAL_EFFORT
from sccl.synth.syncoll import solve_cpsat
from sccl.topo import resolve_topology
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import build_question
from sccl.transform.stretch import stretch_steps
from tests.kit.nightly import times
from tests.kit.strategies import diameter, specs, topologies


@settings(max_examples=times(60))
@given(st.data())
def test_rounds_are_as_many_in_any_number_of_steps(data: st.DataObject) -> None:
    topology = replace(data.draw(topologies()), budgets=())
    spec = data.draw(specs(topology.ranks))
    steps = diameter(topology)
    more = steps + data.draw(st.integers(0, 4))
    for instance in build_question(topology, spec, spec.unit, 2 * steps, 2 * more).instances:
        found = solve_cpsat.answer(instance, Effort(units=1.0))
        if isinstance(found, Sat):
            algorithm = expand_algorithm(found.algorithm)
            then = data.draw(st.integers(algorithm.steps, algorithm.rounds))
            longer = stretch_steps(algorithm, then)
            assert (longer.steps, longer.rounds) == (then, algorithm.rounds)
            assert len(longer.sends) == len(algorithm.sends)
            assert violations(longer) == []


def test_many_steps_are_answered_by_the_fewest() -> None:
    """By presolve and a search of all steps it takes two seconds."""
    topology = resolve_topology("dgx1")
    instance = Instance(topology, named_spec("alltoall", 8).at(24), 8, 8)
    found = solve_cpsat.answer(instance, Effort(units=TRIAL_EFFORT))
    assert isinstance(found, Sat)
    algorithm = expand_algorithm(found.algorithm)
    assert (algorithm.steps, algorithm.rounds_per_step) == (8, (1,) * 8)
    assert violations(algorithm) == []
    for steps in (7, 9):
        with pytest.raises(ParameterError, match="expected 8 to 8"):
            stretch_steps(algorithm, steps)
