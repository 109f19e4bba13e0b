"""Compute lower bounds for algorithms of S steps by cuts through time, in polynomial time.

Each rank gets a label from 0 to S+1: the time from which it is *inside*. Ranks keep their chunks,
so storing a chunk never moves it outside. Take a chunk that initially only ranks of label 0 hold,
and that has a destination of label S+1. It starts inside and has to be outside in the end. So in
some step s it crosses a link from a rank that is inside at time s to a rank that is not inside at
time s+1. If a_s lanes cross in this way in step s, and D chunks per C have to cross, then

    sum_s rho_s a_s >= D, rho_s = r_s / C.

F(S) is the smallest sum of rho that satisfies this for all labels. By max-flow min-cut, it is the
smallest sum at which each rank's flow through time exists. If a flow falls short, its minimum cut
is added. A combination of rows proves the value of the program: weights w_i with sum_i w_i a_is <=
1 in every step. Shared budgets have additional prices, as in :mod:`sccl.prove.bounds.cut_lp`.
Images of proofs under symmetries, and means of proofs, are proofs. So images of links have equal
loads, and all images of a cut have equal weights.

If chunks are copied, F may be below the optimum, since copies are no flows: on a 3-cube with S = 3
it is 5/6, while the limit of timed trees is 1. For scatter and gather F is that limit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np
from flint import fmpq, fmpq_mat

from sccl.collectives import Spec, named_spec
from sccl.core.arrays import IntArray
from sccl.core.bound import Bound, Measure
from sccl.core.collective import Collective
from sccl.core.graphs import first_members
from sccl.core.ids import Edge
from sccl.core.step_limit import StepPrices, TimedCut
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.prove.bounds.timed_flow import (
    Labels,
    TimedFlow,
    demand_flows,
    flows_of_collectives,
    group_flows,
    is_applicable,
)
from sccl.solvers import lp
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.permutations import Permutation, closure, edge_orbits, rank_orbits

_MAX_EXACT_ROWS = 1500  # rows of a basis that is solved in fractions
_MAX_GROUP_FACTOR = 16  # maximum size of symmetry groups, as a multiple of the ranks
_DENOMINATOR = 720_720  # common denominator of rounded duals, so that sums have no larger one

BOUND_UNITS = 6.0
"""Default budget of the bound for a number of steps, in units of one to five seconds."""

_ARC_EFFORT = 2e-7  # units per arc of a flow
_CELL_EFFORT = 1e-7  # units per row and column of a program (rail:2x8, S = 3: 2,500 rows, 339)
_ROWS_PER_SOLVE = 8  # rows to add before the next solve


@dataclass(frozen=True, slots=True)
class CutRow:
    """The inequality of a cut: the sum of rounds times lanes over steps is at least the demand.

    The loads of links with shared budgets are separate terms.

    Attributes:
        lanes: Lanes of the crossing links without shared budgets, shape (steps,).
        demand: Number of chunks that have to cross.
    """

    lanes: tuple[int, ...]
    demand: int


class CutRows:
    """Build rows from labels, for a machine, a collective and a number of steps.

    In an allreduce the contributions to a chunk may travel as one. So the chunk has to cross once
    if one of its contributions has to.

    Attributes:
        lanes: Lanes of every link, shape (links,).
        apart: Indices of links with shared budgets.
    """

    def __init__(self, topology: Topology, collective: Collective, steps: int) -> None:
        self.steps, self._starts = steps, any if collective.combining else all
        self._classes = [
            (tuple(map(int, holders)), tuple(map(int, wanted)), len(chunks))
            for (holders, wanted), chunks in collective.chunk_classes().items()
        ]
        edges = [link.edge for link in topology.links]
        shared = {edge for budget in topology.budgets for edge in budget.edges}
        self._ends: IntArray = np.array(edges, np.int64).reshape(-1, 2).T
        self._owners = np.array([edge not in shared for edge in edges], np.bool_)
        self.lanes: IntArray = np.array([link.lanes for link in topology.links], np.int64)
        self.apart: list[int] = np.flatnonzero(~self._owners).tolist()

    def row(self, labels: Labels) -> CutRow:
        """Return the row of a cut."""
        begin, end = self.crossing_steps(labels)
        crossed = np.zeros(self.steps + 1, np.int64)
        mask = self._owners & (begin < end)
        np.add.at(crossed, begin[mask], self.lanes[mask])
        np.add.at(crossed, end[mask], -self.lanes[mask])
        return CutRow(tuple(crossed.cumsum()[: self.steps].tolist()), self._demand(labels))

    def crossing_steps(self, labels: Labels) -> tuple[IntArray, IntArray]:
        """Return the first step in which each link leads outside, and the step after the last."""
        time = np.array(labels, np.int64)
        return time[self._ends[0]], time[self._ends[1]] - 1

    def _demand(self, labels: Labels) -> int:
        """Return the number of chunks that have to cross, from label 0 to label S+1."""
        return sum(
            chunks
            for holders, wanted, chunks in self._classes
            if self._starts(labels[r] == 0 for r in holders)
            and any(labels[r] > self.steps for r in wanted)
        )


@dataclass(frozen=True, slots=True)
class TimedCuts:
    """The proof of a lower bound on R/C for S steps.

    Attributes:
        cuts: Weighted cuts through time.
        prices: Prices of shared budgets in steps.
    """

    cuts: tuple[TimedCut, ...] = ()
    prices: StepPrices = ()


@dataclass(frozen=True, slots=True)
class TimedRelaxation:
    """The solution of the linear program over cuts through time.

    Attributes:
        steps: S.
        bound: Lower bound on R/C for algorithms of S steps.
        rho: Rounds over C of each step that satisfy the generated cuts, shape (steps,). Empty:
            unknown.
        rows: The rows of the generated cuts.
        is_tight: Whether all cuts are satisfied up to rounding. Then the bound is F(S).
    """

    steps: int
    bound: Bound[Fraction, TimedCuts]
    rho: tuple[Fraction, ...]
    rows: tuple[CutRow, ...]
    is_tight: bool


@dataclass(frozen=True, slots=True)
class _ProgramRow:
    """A row of the program, with its coefficients by variable, and its demand."""

    row: lp.LinearConstraint
    coefficients: Mapping[lp.Variable, int]
    demand: int


class _LabelImages:
    """The images of labels, and of links with shared budgets, under symmetries.

    Attributes:
        generators: Generators of the group. Empty: it is too large, or not computed.
    """

    def __init__(self, topology: Topology, collective: Collective, edges: Sequence[Edge]) -> None:
        self.generators: tuple[Permutation, ...] = ()
        self._group = np.arange(topology.ranks)[None, :]
        if edges:
            alike = automorphisms(topology, collective)
            group = closure(alike, topology.ranks, _MAX_GROUP_FACTOR)
            if group is not None:
                self.generators, self._group = alike, np.array(sorted(group))
        first = first_members(edge_orbits(edges, self.generators))
        self.first = {edge: first[edge] for edge in edges}

    def images_of(self, labels: Labels) -> list[Labels]:
        """Return all distinct images of labels, sorted."""
        images = np.unique(np.array(labels)[self._group], axis=0)
        return [tuple(image) for image in images.tolist()]


class TimedProgram:
    """The linear program over the generated cuts: rounds by step, and loads of ``apart`` links.

    Attributes:
        apart: Indices of the links with shared budgets.
        symmetries: Symmetries under which these links have equal loads.
        rounds: Rounds of each step in the last solution.
        loads: Loads of these links by step in the last solution.
    """

    def __init__(self, topology: Topology, collective: Collective, steps: int) -> None:
        self.topology, self.collective, self.steps = topology, collective, steps
        links = topology.links
        self._rows = CutRows(topology, collective, steps)
        self.apart = self._rows.apart
        edges = [links[i].edge for i in self.apart]
        self._images = _LabelImages(topology, collective, edges)
        self.symmetries, self._first = self._images.generators, self._images.first
        self._model = lp.Model()
        self._rho = [self._model.add_variable(lb=0.0) for _ in range(steps)]
        self._load = {
            (edge, s): self._model.add_variable(lb=0.0)
            for edge in dict.fromkeys(self._first.values())
            for s in range(steps)
        }
        self._model.minimize(lp.fast_sum(self._rho))
        self._cuts: dict[Labels, _ProgramRow] = {}
        self._cut_rows: dict[Labels, CutRow] = {}
        self._limits: dict[tuple[tuple[ConstraintKey, ...], int], _ProgramRow] = {}
        for (shares, room), keys in self._shared_constraints().items():
            for s in range(steps):
                row = {self._load[edge, s]: times for edge, times in shares}
                self._limits[tuple(keys), s] = self._row({**row, self._rho[s]: -room}, None)
        self._program = lp.IncrementalProgram(self._model)

    def _shared_constraints(
        self,
    ) -> dict[tuple[tuple[tuple[Edge, int], ...], int], list[ConstraintKey]]:
        """Return the constraints of ``apart`` links, grouped by equal rows of the program.

        A row is the number of links of each orbit that share a capacity, and that capacity.
        """
        by_shares = defaultdict(list)
        for constraint in self.topology.constraints():
            if self._first.keys() >= set(constraint.edges):
                shares = Counter(self._first[edge] for edge in constraint.edges)
                by_shares[tuple(sorted(shares.items())), constraint.chunks_per_round].append(
                    constraint.key
                )
        return by_shares

    def _row(self, coefficients: Mapping[lp.Variable, int], lower_bound: int | None) -> _ProgramRow:
        row = (
            self._model.add_linear_constraint(ub=0.0)
            if lower_bound is None
            else self._model.add_linear_constraint(lb=float(lower_bound))
        )
        for variable, times in coefficients.items():
            row.set_coefficient(variable, float(times))
        return _ProgramRow(row, coefficients, lower_bound or 0)

    def add(self, labels: Labels) -> bool:
        """Add a cut. Return False if an image of it exists or its demand is zero."""
        labels = self._images.images_of(labels)[0]
        if labels in self._cuts:
            return False
        made = self._rows.row(labels)
        if not made.demand:
            return False
        begin, end = self._rows.crossing_steps(labels)
        row = Counter({self._rho[s]: times for s, times in enumerate(made.lanes) if times})
        for i in self.apart:
            first = self._first[self.topology.links[i].edge]
            row.update(self._load[first, s] for s in range(int(begin[i]), int(end[i])))
        self._cuts[labels], self._cut_rows[labels] = self._row(row, made.demand), made
        return True

    def solve(self) -> None:
        """Solve the program.

        Raises:
            SolverError: No solver finds its optimum.
        """
        self._result = self._program.solve()
        value = self._result.variable_values()
        self.rounds = np.array([max(value[x], 0.0) for x in self._rho])
        loads = {use: max(value[x], 0.0) for use, x in self._load.items()}
        firsts, times = self._first.values(), range(self.steps)
        of_links = [[loads[first, s] for s in times] for first in firsts]
        self.loads = np.array(of_links).reshape(len(self.apart), self.steps)

    @property
    def cells(self) -> int:
        """Return the number of rows times that of columns."""
        model = self._program.model
        return int(model.get_num_linear_constraints() * model.get_num_variables())

    def bound(self, *, is_complete: bool) -> TimedRelaxation:
        """Return the bound that the last solution proves.

        Its duals are converted to fractions and scaled such that the capacity of a round costs at
        most 1. Then the bound is computed exactly, and is valid for any duals.
        """
        basis = self._solve_exactly()
        duals = self._result.dual_values() if basis is None else basis[1]
        rho = () if basis is None else tuple(basis[0].get(x, Fraction(0)) for x in self._rho)
        budgets = {budget.name for budget in self.topology.budgets}

        def dual(row: _ProgramRow) -> Fraction:
            """Return the size of a row's dual value."""
            value = duals[row.row]
            return (
                value if basis is not None else Fraction(round(value * _DENOMINATOR), _DENOMINATOR)
            )

        weights = {
            labels: weight for labels in self._cuts if (weight := dual(self._cuts[labels])) > 0
        }
        images = {labels: self._images.images_of(labels) for labels in weights}
        cuts = [(i, weights[of] / len(orbit)) for of, orbit in images.items() for i in orbit]
        prices: dict[tuple[ConstraintKey, int], Fraction] = {
            (key, s): price / len(keys)
            for (keys, s), row in self._limits.items()
            if (price := -dual(row)) > 0
            for key in keys
            if key in budgets
        }
        bought = max(self._bought_rounds(cuts, prices), default=Fraction(0))
        rows = tuple(self._cut_rows.values())
        if not bought:
            trivial = Bound(Measure.COST, Fraction(0), TimedCuts())
            return TimedRelaxation(self.steps, trivial, rho, rows, is_tight=False)
        demand = sum((w * self._cuts[labels].demand for labels, w in weights.items()), Fraction(0))
        named = sorted((constraint_name(key), s, key) for key, s in prices)
        chunks = self.collective.chunks
        proof = TimedCuts(
            tuple(TimedCut(labels, weight / bought) for labels, weight in cuts),
            tuple((key, s, prices[key, s] / bought) for _, s, key in named),
        )
        return TimedRelaxation(
            self.steps,
            Bound(Measure.COST, demand / bought / chunks, proof),
            tuple(rounds / chunks for rounds in rho),
            rows,
            is_complete,
        )

    def _bought_rounds(
        self,
        cuts: Sequence[tuple[Labels, Fraction]],
        prices: Mapping[tuple[ConstraintKey, int], Fraction],
    ) -> list[Fraction]:
        """Return the cost of a round's capacity in each step, shape (steps,).

        The prices of budgets pay for a part of each link's weight. Only the other part counts here.
        """
        scale = lcm(*(w.denominator for _, w in cuts), *(p.denominator for p in prices.values()))
        weight = np.zeros((len(self.topology.links), self.steps + 1), object)
        rows = np.arange(len(self.topology.links))
        for labels, share in cuts:
            begin, end = self._rows.crossing_steps(labels)
            crosses = begin < end
            weight[rows[crosses], begin[crosses]] += int(share * scale)
            weight[rows[crosses], end[crosses]] -= int(share * scale)
        weight = weight.cumsum(axis=1)[:, : self.steps]
        place = {link.edge: i for i, link in enumerate(self.topology.links)}
        total = [0] * self.steps
        for budget in self.topology.budgets:
            for s in range(self.steps):
                price = int(prices.get((budget.name, s), Fraction(0)) * scale)
                total[s] += price * budget.chunks_per_round
                if price:
                    weight[[place[edge] for edge in budget.edges], s] -= price
        link_totals = (np.maximum(weight, 0) * self._rows.lanes[:, None].astype(object)).sum(axis=0)
        return [Fraction(int(link_totals[s]) + total[s], scale) for s in range(self.steps)]

    def _solve_exactly(
        self,
    ) -> tuple[dict[lp.Variable, Fraction], dict[lp.LinearConstraint, Fraction]] | None:
        """Return the values and the duals of the last basis as fractions, None if impossible."""
        basis = self._result.solutions[0].basis
        if basis is None:
            return None
        basic = lp.BasisStatus.BASIC
        variables = [x for x, status in basis.variable_status.items() if status == basic]
        all_rows = [*self._cuts.values(), *self._limits.values()]
        tight = [row for row in all_rows if basis.constraint_status[row.row] != basic]
        if len(variables) != len(tight) or len(tight) > _MAX_EXACT_ROWS:
            return None
        matrix = fmpq_mat(len(tight), len(tight))
        right, costs = fmpq_mat(len(tight), 1), fmpq_mat(len(tight), 1)
        rho = set(self._rho)
        for j, x in enumerate(variables):
            costs[j, 0] = fmpq(int(x in rho))
            for i, row in enumerate(tight):
                if times := row.coefficients.get(x):
                    matrix[i, j] = fmpq(times)
        for i, row in enumerate(tight):
            right[i, 0] = fmpq(row.demand)
        try:
            primal, dual = matrix.solve(right), matrix.transpose().solve(costs)
        except ZeroDivisionError:
            return None
        duals = {row.row: Fraction(0) for row in all_rows}
        duals |= {row.row: _to_fraction(dual[i, 0]) for i, row in enumerate(tight)}
        return {x: _to_fraction(primal[j, 0]) for j, x in enumerate(variables)}, duals


def _to_fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


@lru_cache(maxsize=64)
def timed_bound(
    topology: Topology, collective: Collective, steps: int, effort: float = BOUND_UNITS
) -> TimedRelaxation | None:
    """Return the best bound on R/C for S = ``steps`` by cuts through time, None if inapplicable.

    Args:
        collective: Non-combining collective. Each chunk can reach its destinations within S steps.
        effort: Budget in units. If it is spent, the unfinished program gives a smaller bound.

    Raises:
        SolverError: no solver finds the optimum of a linear program.
        KeyboardInterrupt: the user interrupted.
    """
    if not is_applicable(topology, collective, steps):
        return None
    program = TimedProgram(topology, collective, steps)
    all_flows = demand_flows(topology, collective, steps, program.apart, program.symmetries)
    return _solve_bound(program, all_flows, effort)


@lru_cache(maxsize=64)
def allreduce_bound(
    topology: Topology, spec: Spec, steps: int, effort: float = BOUND_UNITS
) -> TimedRelaxation | None:
    """Return a lower bound for every allreduce of S = ``steps`` by cuts through time.

    A contribution of a rank with label 0 has to reach a rank with label S+1, so for each chunk at
    least one send crosses. There is a flow for every contribution and every destination, each
    separately within the same rounds: since sums travel as one, flows of contributions to one chunk
    may share capacity. In process groups there are also joint flows of one pair of ranks in each
    group, at the same positions in the groups. None: the program is too large.

    Args:
        spec: Allreduce, of all ranks or in groups.
        steps: At least the greatest distance between ranks that reduce together.
        effort: Budget in units. If it is spent, the unfinished program gives a smaller bound.

    Raises:
        SolverError: no solver finds the optimum of a linear program.
        KeyboardInterrupt: the user interrupted.
    """
    unit = spec.at(spec.unit)
    if not is_applicable(topology, named_spec("broadcast", topology.ranks).at(1), steps):
        return None
    program = TimedProgram(topology, unit, steps)
    alike = program.symmetries if program.apart else automorphisms(topology, unit)
    ranks = rank_orbits(topology, alike)
    if spec.post.pattern:
        return _solve_bound(
            program, group_flows(topology, unit, ranks, steps, program.apart), effort
        )
    # with the number of chunks in the program
    from_each = (named_spec("broadcast", topology.ranks, rank).at(unit.chunks) for rank in ranks)
    return _solve_bound(
        program, flows_of_collectives(topology, from_each, steps, program.apart), effort
    )


def _solve_bound(
    program: TimedProgram, flows: Iterable[TimedFlow], effort: float
) -> TimedRelaxation:
    """Return the bound of a program once no flow falls short, or the budget is spent."""
    all_flows = list(flows)
    for flow in all_flows[:1]:
        for labels in flow.distance_layers():
            program.add(labels)
    program.solve()
    spent, new, failed = 0.0, 1, len(all_flows)
    while new and spent <= effort:
        new, short = 0, []
        for place, flow in enumerate(all_flows):
            if new and place >= failed:
                break  # flows that passed are checked again once all failed ones pass
            added = sum(map(program.add, flow.violated_cuts(program.rounds, program.loads)))
            spent, new = spent + _ARC_EFFORT * flow.work, new + added
            short += [flow] if added else []
            if new >= _ROWS_PER_SOLVE or spent > effort:
                break
        all_flows, failed = [*short, *(flow for flow in all_flows if flow not in short)], len(short)
        program.solve()
        spent += _CELL_EFFORT * program.cells
    return program.bound(is_complete=not new)
