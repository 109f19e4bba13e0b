"""The linear program over cuts through time, and the exact bound from its last basis."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from flint import fmpq, fmpq_mat

from sccl.core.bound import Bound, Measure
from sccl.core.collective import Collective
from sccl.core.ids import Edge
from sccl.core.step_limit import StepPrices, TimedCut
from sccl.core.topology import ConstraintKey, Topology, constraint_name
from sccl.prove.bounds.timed_flow import Labels
from sccl.prove.bounds.timed_rows import CutRow, CutRows
from sccl.solvers import lp
from sccl.topo.symmetry.automorphisms import automorphisms
from sccl.topo.symmetry.orbits import Orbits
from sccl.topo.symmetry.permutations import Permutation, closure

_MAX_EXACT_ROWS = 1500  # rows of a basis that is solved in fractions
_MAX_GROUP_FACTOR = 16  # times the ranks: symmetries of larger groups are not made use of
_DENOMINATOR = (
    720_720  # the denominator of others: one for all, so that their sums have no larger one
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
        rho: By step, rounds over C that satisfy all known cuts. Empty: unknown.
        rows: The rows of all known cuts.
        is_tight: Whether, up to rounding, these satisfy all cuts: then the bound is F(S).
    """

    steps: int
    bound: Bound[Fraction, TimedCuts]
    rho: tuple[Fraction, ...]
    rows: tuple[CutRow, ...]
    is_tight: bool


@dataclass(frozen=True, slots=True)
class _ProgramRow:
    """A row, with its coefficients by variable, and the data that have to cross its cut."""

    row: lp.LinearConstraint
    coefficients: Mapping[lp.Variable, int]
    demand: int


class _LabelImages:
    """The images of labels, and of links that share budgets, under symmetries.

    Attributes:
        generators: generators of a group. Empty: it is too large, or not computed.
    """

    def __init__(self, topology: Topology, collective: Collective, edges: Sequence[Edge]) -> None:
        self.generators: tuple[Permutation, ...] = ()
        self._group = np.arange(topology.ranks)[None, :]
        if edges:
            alike = automorphisms(topology, collective)
            group = closure(alike, topology.ranks, _MAX_GROUP_FACTOR)
            if group is not None:
                self.generators, self._group = alike, np.array(sorted(group))
        orbits = Orbits(edges)
        for image in self.generators:
            for u, v in edges:
                orbits.join((u, v), (image[u], image[v]))
        self.first = {edge: orbits.representative(edge) for edge in edges}

    def images_of(self, labels: Labels) -> list[Labels]:
        """Return all images of labels, each once, in their order."""
        images = np.unique(np.array(labels)[self._group], axis=0)
        return [tuple(image) for image in images.tolist()]


class TimedProgram:
    """Rounds by step, and loads of links with shared budgets, that satisfy all cuts so far.

    Attributes:
        apart: Indices of the links that share budgets.
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
        """Return the constraints of links that are apart, by content.

        The content is the number of links of each orbit that share a capacity, and that capacity.
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
        """Add a cut, and return False if an image of it exists or nothing has to cross it."""
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
            SolverError: no solver finds its optimum.
        """
        self._result = self._program.solve()
        value = self._result.variable_values()
        self.rounds = np.array([max(value[x], 0.0) for x in self._rho])
        loads = {use: max(value[x], 0.0) for use, x in self._load.items()}
        firsts, times = self._first.values(), range(self.steps)
        of_links = [[loads[first, s] for s in times] for first in firsts]
        self.loads = np.array(of_links).reshape(len(self.apart), self.steps)

    def bound(self, *, is_complete: bool) -> TimedRelaxation:
        """Return the bound that the last solution proves.

        Its duals are converted to fractions and scaled such that a round buys at most 1: the bound
        is then computed exactly and valid for any duals.
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
        """Return by step the value of a round. A link pays what budgets' prices do not cover.

        Shape (steps,).
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
        """Return the values and the duals of the last basis as fractions. None: it is none."""
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
