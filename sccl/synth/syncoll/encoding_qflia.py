"""SCCL's encoding of an instance (section 3.4) in quantifier-free linear integer arithmetic.

Z3 (:mod:`sccl.synth.syncoll.solve_z3`) solves only this formula. It is also written as SMT-LIB 2
for other solvers. For ranks ``u`` and ``v``, a chunk ``c``, and a step ``s`` from 1 to S, all
variables are Boolean:

- ``snd_u_c_v_s``: u sends c to v in step s,
- ``held_c_v_s``: v holds c after step s,
- ``more_s_j``: step s has more than j rounds.

The paper's integers follow from them: ``time_{c,v}`` is the first s with ``held_c_v_s``, and
``r_s = 1 + sum_j more_s_j``. A variable for each step makes C5 a sum over variables, where the
paper counts conjunctions ``snd and time = s``. On allgather (6, 3, 7) of a DGX-1 Z3 took 0.2 s, and
more than 120 s with the paper's integers (``docs/results/tables.md``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from io import StringIO

from pysmt.environment import Environment
from pysmt.fnode import FNode
from pysmt.logics import QF_LIA
from pysmt.smtlib.script import smtlibscript_from_formula
from pysmt.typing import BOOL

from sccl.core.algorithm import Algorithm, Send
from sccl.core.graphs import UNREACHED, distances
from sccl.core.ids import ChunkId, Rank, Step
from sccl.core.instance import Instance
from sccl.errors import TooLargeError

MAX_SENDS = 2**18
"""Limit on variables of sends. pySMT takes 16 s and 1 GB for 196,000 of them."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """C1 to C6 for an instance.

    Attributes:
        instance: The instance.
        text: SMT-LIB 2 script. A solver answers ``sat`` exactly if an algorithm exists.
        sends: Send of each variable ``snd_u_c_v_s``.
        extra_rounds: Variables ``more_s_j`` of each step.
    """

    instance: Instance
    text: str
    sends: dict[str, Send]
    extra_rounds: tuple[tuple[str, ...], ...]

    def decode(self, true_names: Collection[str]) -> Algorithm:
        """Return the algorithm of a model, given by the variables that are true."""
        rounds = tuple(1 + sum(n in true_names for n in names) for names in self.extra_rounds)
        sends = tuple(send for name, send in self.sends.items() if name in true_names)
        return Algorithm(self.instance.topology, self.instance.collective, rounds, sends)


def encode(instance: Instance) -> Encoding:
    """Return C1 to C6 for an instance.

    Raises:
        TooLargeError: There are more than :data:`MAX_SENDS` variables of sends.
    """
    sends = _useful_sends(instance)
    environment = Environment()
    m = environment.formula_manager

    def variables(names: Iterable[str]) -> list[FNode]:
        """Return the variables with these names."""
        return [m.Symbol(name, BOOL) for name in names]

    def count(conditions: list[FNode]) -> FNode:
        """Return the number of true conditions, as an integer term."""
        terms = [m.Ite(x, m.Int(1), m.Int(0)) for x in conditions]
        return m.Plus(terms) if terms else m.Int(0)

    collective, steps = instance.collective, range(1, instance.steps + 1)
    arriving: dict[tuple[int, int, int], list[FNode]] = {}
    on_link: dict[tuple[int, int, int], list[FNode]] = {}
    for name, send in sends.items():
        variable = m.Symbol(name, BOOL)
        arriving.setdefault((send.chunk, send.dst, send.step + 1), []).append(variable)
        on_link.setdefault((send.src, send.dst, send.step + 1), []).append(variable)

    def held(chunk: int, rank: int, step: int) -> FNode:
        """Return whether a rank holds a chunk after a step. C1: at the start, holders do."""
        if rank in collective.holders(chunk):
            return m.TRUE()
        return m.Symbol(f"held_{chunk}_{rank}_{step}", BOOL) if step else m.FALSE()

    parts: list[FNode] = []
    for chunk in range(collective.num_chunks):
        destinations = collective.destinations(chunk)
        for rank in range(collective.ranks):
            if rank in collective.holders(chunk):
                continue
            for s in steps:  # definition of held_c_v_s
                received = m.Or([held(chunk, rank, s - 1), *arriving.get((chunk, rank, s), ())])
                parts.append(m.Iff(held(chunk, rank, s), received))
            if rank in destinations:
                parts.append(held(chunk, rank, instance.steps))  # C2
            received_ever = [x for s in steps for x in arriving.get((chunk, rank, s), ())]
            parts.append(m.LE(count(received_ever), m.Int(1)))  # C3: with C2 exactly 1 if wanted
    for name, send in sends.items():  # C4: a chunk sent in step s is held after step s - 1
        holds = held(send.chunk, send.src, send.step)
        parts.append(m.Implies(m.Symbol(name, BOOL), holds))
    max_rounds = (
        instance.rounds - instance.steps + 1
    )  # every step has at least one round (section 3.1)
    more = tuple(tuple(f"more_{s}_{j}" for j in range(1, max_rounds)) for s in steps)
    for s in steps:
        extra = variables(more[s - 1])
        parts += [m.Implies(extra[j + 1], extra[j]) for j in range(len(extra) - 1)]
        for constraint in instance.topology.constraints():  # C5
            sent = [x for u, v in constraint.edges for x in on_link.get((u, v, s), ())]
            for j in range(1, max_rounds + 1):  # r_s <= j implies sum <= b * j
                if (capacity := constraint.chunks_per_round * j) >= len(sent):
                    break
                fits = m.LE(count(sent), m.Int(capacity))
                parts.append(m.Or(extra[j - 1], fits) if j < max_rounds else fits)
    extra_rounds = count([x for names in more for x in variables(names)])
    parts.append(m.Equals(extra_rounds, m.Int(instance.rounds - instance.steps)))  # C6
    script = smtlibscript_from_formula(m.And(parts), logic=QF_LIA)
    out = StringIO()
    script.serialize(out, daggify=False)
    return Encoding(instance, f"{_header(instance)}{out.getvalue()}", sends, more)


def _useful_sends(instance: Instance) -> dict[str, Send]:
    """Return the sends that an algorithm may need, by the names of their variables.

    Before ``step`` a chunk is at most ``step`` links away from its source. An arrival is useless if
    no destination can be reached from there in time.
    """
    successors = instance.topology.successors()
    predecessors = instance.topology.reversed().successors()
    windows: list[tuple[int, int, range, list[int]]] = []
    for (holders, wanted), chunks in instance.collective.chunk_classes().items():
        before, after = distances(successors, holders), distances(predecessors, wanted)
        windows += (
            (u, v, range(before[u], instance.steps - after[v]), chunks)
            for u, v in sorted(instance.topology.edges)
            if v not in holders and UNREACHED not in {before[u], after[v]}
        )
    if (count := sum(len(steps) * len(chunks) for *_, steps, chunks in windows)) > MAX_SENDS:
        c = instance.collective
        raise TooLargeError(
            f"{c.num_chunks} chunks, {len(instance.topology.links)} links and {instance.steps} "
            f"steps make {count} variables; this version writes up to {MAX_SENDS}: give fewer of "
            "one of them"
        )
    return {
        f"snd_{u}_{chunk}_{v}_{step + 1}": Send(Step(step), ChunkId(chunk), Rank(u), Rank(v))
        for u, v, steps, chunks in windows
        for step in steps
        for chunk in chunks
    }


def _header(instance: Instance) -> str:
    c = instance.collective
    return (
        f"; SYNCOLL, C1 to C6 of SCCL (PPoPP 2021) section 3.4\n"
        f"; P={c.ranks} ranks, G={c.num_chunks} chunks (C={c.chunks}), "
        f"S={instance.steps} steps, R={instance.rounds} rounds\n"
    )
