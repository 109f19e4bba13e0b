"""Encode an instance with fixed rounds per step as a propositional formula, from the definitions.

The checker rebuilds a certificate's formula and compares it with the file. So the formula that a
proof refutes is the claim. The encoding is therefore plain: it excludes no algorithm, except by the
order of interchangeable chunks, which is justified below. It shares no code with the encoders.

Variables: ``held(c, n, t)``: rank n holds chunk c before step t (t = S: after the last step).
``sent(c, u, v, s)``: chunk c is sent over (u, v) in step s (SCCL section 3.3: V_t and T). Clauses:

1. held(c, n, 0) if and only if (c, n) is in pre.
2. held(c, n, t) implies held(c, n, t+1).
3. held(c, v, s+1) needs held(c, v, s) or some sent(c, u, v, s).
4. sent(c, u, v, s) needs held(c, u, s).
5. held(c, n, S) for (c, n) in post.
6. For each (L, b) and step s, at most b * r_s of the sent(c, u, v, s) with (u, v) in L, by a
   sequential counter (Sinz 2005): x_1 .. x_i number at least j implies counted(i, j), and
   counted(n, k+1) never.
7. Two consecutive chunks with the same sources and destinations reach rank n in this order, where n
   is the first destination that does not hold them initially. This only fixes the names of chunks:
   exchanging two such chunks in all sends gives an algorithm again, so they can be sorted by
   arrival at n.

An algorithm (Q, T) whose Q are the rounds, with sorted chunks, gives a model by V_t and T.
Conversely, the sends of a model are an algorithm: by 1, 3 and 4, every chunk that is sent, or that
5 requires, is really held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sccl.core.instance import Instance

Clause = tuple[int, ...]


class Formula:
    """The formula: clauses over numbered variables.

    Attributes:
        clauses: Clauses of non-zero literals.
        variables: Number of variables.
    """

    def __init__(self, instance: Instance, rounds_per_step: Sequence[int]) -> None:
        self.instance, self.rounds = instance, tuple(rounds_per_step)
        self.edges = sorted(instance.topology.edges)
        self.chunks = range(instance.collective.num_chunks)
        self.ranks = range(instance.topology.ranks)
        self.steps = range(instance.steps)
        self.number = {edge: i for i, edge in enumerate(self.edges)}
        held = len(self.chunks) * len(self.ranks) * (instance.steps + 1)
        self.first_sent = 1 + held
        self.variables = held + len(self.chunks) * len(self.edges) * instance.steps
        self.clauses = (
            *self._holding(),
            *self._sending(),
            *self._order(),
            *self._bandwidth(),
        )

    def held(self, chunk: int, rank: int, time: int) -> int:
        """Return the variable of "``rank`` holds ``chunk`` before step ``time``"."""
        return 1 + (chunk * len(self.ranks) + rank) * (len(self.steps) + 1) + time

    def sent(self, chunk: int, edge: tuple[int, int], step: int) -> int:
        """Return the variable of "``chunk`` goes over ``edge`` in ``step``"."""
        place = chunk * len(self.edges) + self.number[edge]
        return self.first_sent + place * len(self.steps) + step

    def _holding(self) -> Iterator[Clause]:
        for c in self.chunks:
            holders = self.instance.collective.holders(c)
            wanted = self.instance.collective.destinations(c)
            for n in self.ranks:
                start = self.held(c, n, 0)
                yield (start if n in holders else -start,)
                for s in self.steps:
                    yield (-self.held(c, n, s), self.held(c, n, s + 1))
                if n in wanted:
                    yield (self.held(c, n, len(self.steps)),)

    def _sending(self) -> Iterator[Clause]:
        for c in self.chunks:
            for s in self.steps:
                for edge in self.edges:
                    yield (-self.sent(c, edge, s), self.held(c, edge[0], s))
                for v in self.ranks:
                    arrivals = (self.sent(c, edge, s) for edge in self.edges if edge[1] == v)
                    yield (-self.held(c, v, s + 1), self.held(c, v, s), *arrivals)

    def _order(self) -> Iterator[Clause]:
        for (holders, wanted), chunks in self.instance.collective.chunk_classes().items():
            missing = sorted(wanted - holders)
            for this, following in pairwise(chunks if missing else []):
                for t in range(len(self.steps) + 1):
                    yield (-self.held(following, missing[0], t), self.held(this, missing[0], t))

    def _bandwidth(self) -> Iterator[Clause]:
        for constraint in self.instance.topology.constraints():
            for s in self.steps:
                sends = [self.sent(c, edge, s) for c in self.chunks for edge in constraint.edges]
                yield from self._at_most(sends, constraint.chunks_per_round * self.rounds[s])

    def _at_most(self, literals: list[int], limit: int) -> Iterator[Clause]:
        if len(literals) <= limit:
            return
        before: list[int] = []
        for i, x in enumerate(literals):
            width = min(i + 1, limit)
            counted = list(range(self.variables + 1, self.variables + 1 + width))
            self.variables += width
            yield (-x, counted[0])
            for j, carried in enumerate(before):
                yield (-carried, counted[j])
                if j + 1 < width:
                    yield (-carried, -x, counted[j + 1])
            if len(before) == limit:
                yield (-before[-1], -x)
            before = counted


def dimacs(instance: Instance, rounds_per_step: Sequence[int]) -> str:
    """Return the formula in the DIMACS format."""
    formula = Formula(instance, rounds_per_step)
    lines = [f"p cnf {formula.variables} {len(formula.clauses)}"]
    lines += [" ".join(map(str, clause)) + " 0" for clause in formula.clauses]
    return "\n".join(lines) + "\n"
