"""Algorithms that are invariant under symmetries, on CP-SAT: the way to thousands of ranks.

An algorithm found is one for the whole machine, and judged there, all of its sends. That none
exists under a symmetry is reported, and refutes nothing: the answer is then Unknown.

For each group first only shortest paths without waiting are offered: on tori and hypercubes the
breadth-first layers alone are a schedule if links are loaded evenly, and finding one takes no time.
Then shortest paths with waiting, then any. Alltoall and its like begin with waiting, without which
their links are not full in all steps: 64 ranks under a second, and 10 s lost otherwise.
Measured (two cores, allgather, C chunks in as many steps as the diameter): 16x16 torus with
translations alone 4 s, with quarter turns 0.1 s; 32x32 not in 400 s and 0.4 s.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ortools.sat.python import cp_model

from sccl.backends.interrupt import run_interruptible
from sccl.backends.limits import Limits
from sccl.core.answer import Sat, Unknown
from sccl.core.instance import Instance
from sccl.core.symmetric import SymmetricAlgorithm, Symmetry
from sccl.encode.orbits import OrbitModel, Paths, decode_orbits, encode_orbits
from sccl.errors import TooLargeError

_SECONDS = {Paths.LAYERED: 10.0, Paths.SHORTEST: 45.0, Paths.ANY: 60.0}

Groups = Sequence[tuple[str, tuple[Symmetry, ...]]]
"""(name, generators) of the groups to try, the largest first."""


def answer(instance: Instance, groups: Groups, limits: Limits) -> Sat | Unknown:
    """Return a symmetric algorithm, not yet judged, or Unknown."""
    begin = time.perf_counter()
    reasons = []
    single = all(len(wanted - held) <= 1 for held, wanted in instance.collective.classes())
    for name, symmetries in groups:
        for paths in (Paths.SHORTEST, Paths.ANY) if single else Paths:
            left = seconds = _SECONDS[paths]
            if limits.timeout_s is not None:
                left = limits.timeout_s - (time.perf_counter() - begin)
                if left <= 0:
                    break
            budget = replace(limits, timeout_s=min(left, seconds))
            found = _try(instance, symmetries, budget, paths)
            if isinstance(found, SymmetricAlgorithm):
                return Sat(found, f"orbits ({name})", time.perf_counter() - begin)
        reasons.append(f"{name}: {found}")
    text = "; ".join(reasons) or "timeout"
    return Unknown(
        f"no symmetric algorithm was found ({text}), which says nothing of others",
        "orbits",
        time.perf_counter() - begin,
    )


def _try(
    instance: Instance, symmetries: tuple[Symmetry, ...], limits: Limits, paths: Paths
) -> SymmetricAlgorithm | str:
    """Return an algorithm with these symmetries, or in a word why there is none."""
    try:
        model = encode_orbits(instance, symmetries, paths)
    except TooLargeError:
        return "too large"
    if model.impossible:
        return "none exists"
    cp, chosen, rounds = _build(model)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limits.timeout_s or _SECONDS[paths]
    solver.parameters.random_seed = limits.seed
    solver.parameters.num_workers = 2
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    solver.parameters.catch_sigint_signal = False
    status = run_interruptible(partial(solver.solve, cp), solver.stop_search)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        true = [i for i, x in enumerate(chosen) if solver.boolean_value(x)]
        return decode_orbits(model, true, [solver.value(r) for r in rounds])
    return "none exists" if status == cp_model.INFEASIBLE else "none found in time"


def _build(
    model: OrbitModel,
) -> tuple[cp_model.CpModel, list[cp_model.IntVar], list[cp_model.IntVar]]:
    cp = cp_model.CpModel()
    instance = model.instance
    x = [cp.new_bool_var("") for _ in model.transfers]
    most = instance.rounds - instance.steps + 1
    rounds = [cp.new_int_var(1, most, f"r{s}") for s in range(instance.steps)]
    cp.add(cp_model.LinearExpr.sum(rounds) == instance.rounds)
    for variables, must in model.arrivals:
        # a variable that stands here twice would deliver a chunk twice: it cannot be true
        twice = {i for i in variables if variables.count(i) > 1} if len(variables) > 1 else set()
        for i in twice:
            cp.add_bool_and([~x[i]])
        once = [x[i] for i in variables if i not in twice]
        (cp.add_exactly_one if must else cp.add_at_most_one)(once)
    for i, providers in model.needs:
        cp.add_bool_or([~x[i], *(x[j] for j in providers)])
    for step, width, load in model.capacities:
        carried = cp_model.LinearExpr.weighted_sum([x[i] for i, _ in load], [n for _, n in load])
        cp.add(carried <= width * rounds[step])
    return cp, x, rounds
