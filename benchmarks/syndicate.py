"""SYNDICATE: our searches for training plans, the published search, and proved optima.

The motivating example of the paper (Figure 6) is a reconstruction. The text gives 11 units for
first-in-first-out and 9.5 for a joint search, but not the times of the options.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from sccl.solvers.effort import Effort
from sccl.training.bounds.step_bounds import finish_lower_bound
from sccl.training.scheduling.cpsat_models import solve_step
from sccl.training.scheduling.list_scheduling import schedule_in_order
from sccl.training.scheduling.plan_search import search_step_plan
from sccl.training.scheduling.search_strategies import (
    build_fifo_plan,
    fastest_options,
    search_by_annealing,
    search_by_markov_chain,
)
from sccl.training.scheduling.step_problem import (
    StepMotif,
    StepOp,
    StepOption,
    StepPlan,
    StepProblem,
)
from sccl.training.validate.plan_faults import find_step_plan_fault

PARTS = ("figure6", "bank")

PROPOSALS = 20_000
SEEDS = 100
BANK = 1_000

GPU, CPU, COMPUTE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class SyndicateResult:
    """Quality of a search over some problems.

    Attributes:
        part: ``figure6`` or ``bank``.
        search: Name of the search.
        problems: Number of problems with a proved optimum.
        optimal: Fraction of the problems for which the search attains the optimum.
        mean: Mean gap to the optimum, as a fraction.
        worst: Maximum gap to the optimum, as a fraction.
        seconds: Processor time per problem.
        note: Further remark for the table.
    """

    part: str
    search: str
    problems: int
    optimal: float
    mean: float
    worst: float
    seconds: float
    note: str = ""

    @property
    def label(self) -> str:
        """Return the part and the search, for progress lines."""
        return f"{self.part}: {self.search}"


def figure6() -> StepProblem:
    """Return the reconstruction, in tenths of its unit.

    Operation a is an all-to-all that is ready at once and is submitted last. Operations b, c and d
    are all-reduces, by tree or ring, that computations release one after another. The last
    computation waits for all of them.
    """

    def computes(name: str, ticks: int, *after: int) -> StepOp:
        motif = StepMotif(ticks, (COMPUTE,))
        return StepOp(name, (StepOption("", (motif,)),), after, communicates=False)

    def calls(name: str, options: dict[str, tuple[int, int]], *after: int) -> StepOp:
        rows = options.items()
        alternatives = tuple(StepOption(n, (StepMotif(ticks, (on,)),)) for n, (ticks, on) in rows)
        return StepOp(name, alternatives, after)

    return StepProblem(
        ("gpu", "cpu", "compute"),
        (
            computes("first", 10),
            calls("b", {"tree": (15, GPU), "ring": (30, GPU)}, 0),
            computes("second", 15, 0),
            calls("c", {"tree": (35, GPU), "ring": (25, GPU)}, 2),
            computes("third", 15, 2),
            calls("d", {"tree": (30, GPU), "ring": (45, GPU)}, 4),
            calls("a", {"gpu": (15, GPU), "cpu": (40, CPU)}),
            computes("last", 15, 1, 3, 5, 6),
        ),
    )


def order_alone(problem: StepProblem) -> int:
    """Return the best finish over all orders, with the fastest option of each operation."""
    rows = zip(problem.ops, fastest_options(problem).tolist(), strict=True)
    ops = tuple(replace(op, options=(op.options[choice],)) for op, choice in rows)
    return _best(replace(problem, ops=ops))[0]


def options_alone(problem: StepProblem) -> int:
    """Return the best finish over all choices of options, in submission order."""
    starts = np.zeros(len(problem.arrays.ticks), dtype=np.int64)
    choices = product(*(range(len(op.options)) for op in problem.ops))
    return min(
        schedule_in_order(problem.arrays, np.array(c, dtype=np.int64), starts) for c in choices
    )


def draw_problem(seed: int) -> StepProblem:
    """Return a random small step: 5 to 9 computations, up to 11 collectives of 2 to 4 options."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    channels, ops, computed, calls = rng.randint(2, 3), list[StepOp](), list[int](), 0
    for number in range(rng.randint(5, 9)):
        after = set(computed[-1:])
        waiting = [k for k, op in enumerate(ops) if op.communicates]
        if waiting and rng.random() < 0.5:
            after.add(rng.choice(waiting))
        computed.append(len(ops))
        ops.append(_computation(f"compute {number}", rng.randint(5, 40), channels, after))
        for _ in range(min(rng.choice((0, 1, 1, 2)), 11 - calls)):
            calls += 1
            options = tuple(_option(rng, channels, str(k)) for k in range(rng.randint(2, 4)))
            ready = (computed[-1],) if rng.random() < 0.8 else ()
            ops.append(StepOp(f"call {calls}", options, ready))
    ends = {k for k, op in enumerate(ops) if op.communicates and rng.random() < 0.7}
    ops.append(_computation("last", rng.randint(5, 20), channels, {*ends, computed[-1]}))
    names = tuple(f"channel {k}" for k in range(channels))
    return StepProblem((*names, "compute"), tuple(ops))


def _computation(name: str, ticks: int, resource: int, after: set[int]) -> StepOp:
    option = StepOption("", (StepMotif(ticks, (resource,)),))
    return StepOp(name, (option,), tuple(sorted(after)), communicates=False)


def _option(rng: random.Random, channels: int, name: str) -> StepOption:
    """Return an option with one to three motifs, some of which follow their predecessor."""
    ticks, count = rng.randint(8, 50), rng.choice((1, 1, 2, 3))
    motifs = []
    for k in range(count):
        share = ticks if count == 1 else max(1, ticks // count + rng.randint(0, 3))
        after = (k - 1,) if k and rng.random() < 0.4 else ()
        motifs.append(StepMotif(share, (rng.randrange(channels),), after))
    return StepOption(name, tuple(motifs))


SEARCHES: dict[str, Callable[[StepProblem, int], StepPlan]] = {
    "first in, first out": lambda problem, _: build_fifo_plan(problem),
    "published": lambda problem, seed: search_by_markov_chain(problem, PROPOSALS, seed),
    "serial": lambda problem, seed: search_by_annealing(
        problem, PROPOSALS, seed, finish_lower_bound(problem).value
    ),
    "joint": lambda problem, seed: search_step_plan(problem, PROPOSALS, seed),
}


def run(parts: Sequence[str], *, smoke: bool = False) -> Iterator[SyndicateResult]:
    """Yield the result of each search.

    Raises:
        AssertionError: The verifier rejects a plan, or a plan is shorter than a proved optimum.
    """
    if "figure6" in parts:
        yield from _figure6(2 if smoke else SEEDS)
    if "bank" in parts:
        yield from _bank(3 if smoke else BANK)


def _figure6(seeds: int) -> Iterator[SyndicateResult]:
    problem = figure6()
    best, seconds = _best(problem)
    proof = f"{best / 10:g} units, proved by CP-SAT"
    yield SyndicateResult("figure6", "exact", 1, 1.0, 0.0, 0.0, seconds, proof)
    for name, finish in (
        ("order alone", order_alone(problem)),
        ("options alone", options_alone(problem)),
    ):
        above = finish / best - 1
        note = f"{finish / 10:g} units"
        yield SyndicateResult("figure6", name, 1, float(not above), above, above, 0.0, note)
    for name in SEARCHES:
        yield _over(name, "figure6", [(problem, best, seed) for seed in range(seeds)])


def _bank(count: int) -> Iterator[SyndicateResult]:
    problems, seconds = [], 0.0
    for seed in range(count):
        problem = draw_problem(seed)
        best, elapsed = _best(problem)
        seconds += elapsed
        problems.append((problem, best, seed))
    yield SyndicateResult("bank", "exact", count, 1.0, 0.0, 0.0, seconds / count)
    met = sum(finish_lower_bound(problem).value == best for problem, best, _ in problems)
    for name in SEARCHES:
        result = _over(name, "bank", problems)
        note = f"bounds are met by {met} optima" if name == "serial" else ""
        yield replace(result, note=note)


def _over(
    name: str, part: str, problems: Sequence[tuple[StepProblem, int, int]]
) -> SyndicateResult:
    """Run a search on problems, each with its optimum and a seed."""
    SEARCHES[name](problems[0][0], 0)  # compile before timing
    begin, above, finishes = time.process_time(), [], set[int]()
    for problem, best, seed in problems:
        plan = SEARCHES[name](problem, seed)
        finish = plan.finish(problem)
        assert not find_step_plan_fault(problem, plan)
        assert finish >= best
        above.append(finish / best - 1)
        finishes.add(finish)
    seconds = (time.process_time() - begin) / len(problems)
    note = f"{max(finishes) / 10:g} units at the most" if part == "figure6" else ""
    optimal = sum(not gap for gap in above) / len(above)
    mean = sum(above) / len(above)
    return SyndicateResult(part, name, len(problems), optimal, mean, max(above), seconds, note)


def _best(problem: StepProblem) -> tuple[int, float]:
    """Return the proved optimum and its processor time, in seconds."""
    begin = time.process_time()
    solution = solve_step(problem, Effort(units=60.0))
    assert solution.plan is not None
    assert solution.proved
    assert not find_step_plan_fault(problem, solution.plan)
    return solution.plan.finish(problem), time.process_time() - begin
