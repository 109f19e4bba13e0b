"""The paper's problem as SMT-LIB 2 text, through pySMT, for any solver that reads QF_LIA.

Constraints C1 to C6 of SCCL section 3.4 in pure linear integer arithmetic: pseudo-Booleans are sums
of if-then-else. pySMT's own Z3 module is not imported: it changes Z3's process-wide settings.
"""

from __future__ import annotations

from io import StringIO

from pysmt.environment import Environment, pop_env, push_env
from pysmt.fnode import FNode
from pysmt.formula import FormulaManager
from pysmt.logics import QF_LIA
from pysmt.smtlib.script import smtlibscript_from_formula
from pysmt.typing import BOOL, INT

from sccl.core.instance import Instance
from sccl.errors import TooLargeError

_MAX_TERMS = 2**20


def smtlib_text(instance: Instance) -> str:
    """Return the problem as an SMT-LIB 2 script that ends in ``(check-sat)``.

    A solver answers ``sat`` exactly if an algorithm exists. Names: ``time_C_N``, ``snd_N_C_M``,
    ``r_S``, as in the paper (chunk C, ranks N and M, step S counted from 1).

    Raises:
        TooLargeError: the text would be.
    """
    terms = instance.collective.num_chunks * len(instance.topology.links) * instance.steps
    if terms > _MAX_TERMS:
        raise TooLargeError(
            f"{instance.collective.num_chunks} chunks, {len(instance.topology.links)} links and "
            f"{instance.steps} steps make {terms} terms of C5 alone; this version writes up to "
            f"{_MAX_TERMS}: give fewer of one of them"
        )
    environment = Environment()
    push_env(environment)
    try:
        formula = _formula(instance, environment.formula_manager)
        script = smtlibscript_from_formula(formula, logic=QF_LIA)
        out = StringIO()
        script.serialize(out, daggify=False)
        return f"{_header(instance)}{out.getvalue()}"
    finally:
        pop_env()


def _header(instance: Instance) -> str:
    c = instance.collective
    return (
        f"; SYNCOLL, C1 to C6 of SCCL (PPoPP 2021) section 3.4\n"
        f"; P={c.ranks} ranks, G={c.num_chunks} chunks (C={c.chunks}), "
        f"S={instance.steps} steps, R={instance.rounds} rounds\n"
    )


def _formula(instance: Instance, m: FormulaManager) -> FNode:
    chunks, ranks = range(instance.collective.num_chunks), range(instance.collective.ranks)
    steps, edges = range(1, instance.steps + 1), sorted(instance.topology.edges)
    time = {(c, n): m.Symbol(f"time_{c}_{n}", INT) for c in chunks for n in ranks}
    snd = {(u, c, v): m.Symbol(f"snd_{u}_{c}_{v}", BOOL) for c in chunks for u, v in edges}
    rounds = {s: m.Symbol(f"r_{s}", INT) for s in steps}
    zero, unit, last = m.Int(0), m.Int(1), m.Int(instance.steps)

    def count(conditions: list[FNode]) -> FNode:
        """Return how many conditions hold."""
        return m.Plus([m.Ite(x, unit, zero) for x in conditions]) if conditions else zero

    parts: list[FNode] = []
    for c in chunks:
        pre, post = instance.collective.holders(c), instance.collective.destinations(c)
        for n in ranks:
            parts.append(m.GE(time[c, n], zero))
            if n in pre:
                parts.append(m.Equals(time[c, n], zero))  # C1
            if n in post:
                parts.append(m.LE(time[c, n], last))  # C2
            if n not in pre:  # C3
                received = count([snd[u, c, v] for u, v in edges if v == n])
                parts.append(m.Implies(m.LE(time[c, n], last), m.Equals(received, unit)))
        for u, v in edges:  # C4
            parts.append(m.Implies(snd[u, c, v], m.LT(time[c, u], time[c, v])))
    for s in steps:  # C5
        for constraint in instance.topology.constraints():
            sent = count(
                [
                    m.And(snd[u, c, v], m.Equals(time[c, v], m.Int(s)))
                    for u, v in constraint.edges
                    for c in chunks
                ]
            )
            allowed = m.Times(m.Int(constraint.chunks_per_round), rounds[s])
            parts.append(m.LE(sent, allowed))
    parts += [m.GE(r, unit) for r in rounds.values()]  # section 3.1
    parts.append(m.Equals(m.Plus(list(rounds.values())), m.Int(instance.rounds)))  # C6
    return m.And(parts)
