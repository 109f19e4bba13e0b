"""The reference: SCCL's own encoding, written straight from section 3.4, on Z3.

Deliberately independent of ``sccl.encode``, so that it can judge the fast backends. Variables:
time_{c,n} (the step in which chunk c is available on n, 0 for at the start), snd_{n,c,n'} (n sends
c to n' at some step) and r_s. Constraints C1 to C6 carry the paper's numbers.

Z3 works in a child process, because it cannot be interrupted.
"""

from __future__ import annotations

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.solvers import smt
from sccl.solvers.effort import Effort, EffortMeter
from sccl.synth.syncoll.solver_process import SolverChild

_Encoding = tuple[
    smt.Solver,
    dict[tuple[int, int], smt.ArithRef],
    dict[tuple[int, int, int], smt.BoolRef],
    list[smt.ArithRef],
]


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return Z3's answer, worked out in a child process."""
    with SolverChild("z3", instance, effort) as child:
        return child.answer()


def answer_in_process(instance: Instance, effort: Effort) -> Answer:
    """Return Z3's answer, worked out in this process in a context of its own."""
    spending = EffortMeter(effort)
    solver, time, snd, rounds = encode_paper(instance, smt.Context())
    left = spending.remaining()
    if left is None:
        return Unknown(effort.timeout_reason, "z3", spending.elapsed_seconds())
    result = smt.solve(solver, left)
    seconds = spending.elapsed_seconds()
    if result.model is not None:
        return Sat(_decode(instance, result.model, time, snd, rounds), "z3", seconds)
    if result.is_infeasible:
        return Unsat("Z3 refuted C1 to C6 of SCCL section 3.4", "z3", seconds)
    return Unknown(f"{result.reason} after {seconds:.0f} s", "z3", seconds)


def encode_paper(instance: Instance, ctx: smt.Context) -> _Encoding:
    """Return a solver that holds C1 to C6, and the variables time, snd and r."""
    chunks, ranks = range(instance.collective.num_chunks), range(instance.collective.ranks)
    steps, edges = range(1, instance.steps + 1), sorted(instance.topology.edges)
    solver = smt.Solver(ctx=ctx)
    time = {(c, n): smt.Int(f"time_{c}_{n}", ctx) for c in chunks for n in ranks}
    snd = {(n, c, m): smt.Bool(f"snd_{n}_{c}_{m}", ctx) for c in chunks for n, m in edges}
    rounds = [smt.Int(f"r_{s}", ctx) for s in steps]
    for c in chunks:
        pre, post = instance.collective.holders(c), instance.collective.destinations(c)
        for n in ranks:
            solver.add(time[c, n] >= 0)
            if n in pre:
                solver.add(time[c, n] == 0)  # C1
            if n in post:
                solver.add(time[c, n] <= instance.steps)  # C2
            if n not in pre:  # C3: whoever comes to have a chunk received it exactly once
                received = [(snd[m, c, n], 1) for m, k in edges if k == n]
                once = smt.PbEq(received, 1) if received else smt.BoolVal(val=False, ctx=ctx)
                solver.add(smt.Implies(time[c, n] <= instance.steps, once))
        for n, m in edges:  # C4: a chunk is there before it is received elsewhere
            solver.add(smt.Implies(snd[n, c, m], time[c, n] < time[c, m]))
    for s in steps:  # C5: bandwidth, (L, b) by (L, b)
        for constraint in instance.topology.constraints():
            sent = [
                smt.And(snd[n, c, m], time[c, m] == s) for n, m in constraint.edges for c in chunks
            ]
            for extra in range(instance.rounds - instance.steps + 1):
                capacity = constraint.chunks_per_round * (1 + extra)
                if capacity < len(sent):
                    within = smt.PbLe([(x, 1) for x in sent], capacity)
                    solver.add(smt.Implies(rounds[s - 1] <= 1 + extra, within))
    for r in rounds:  # section 3.1: every step has at least one round
        solver.add(r >= 1)
    solver.add(smt.Sum(rounds) == instance.rounds)  # C6
    return solver, time, snd, rounds


def _decode(
    instance: Instance,
    model: smt.ModelRef,
    time: dict[tuple[int, int], smt.ArithRef],
    snd: dict[tuple[int, int, int], smt.BoolRef],
    rounds: list[smt.ArithRef],
) -> Algorithm:
    """Return (Q, T). An arrival at time t is a send in step t - 1, with steps counted from 0."""

    def value(term: smt.ArithRef) -> int:
        """Return the value of a term in the model."""
        return int(model.eval(term, model_completion=True).as_long())

    sends = [
        make_send(c, n, m, value(time[c, m]) - 1)
        for (n, c, m), sent in snd.items()
        if smt.is_true(model.eval(sent))
        and value(time[c, m]) <= instance.steps
        and m not in instance.collective.holders(c)
    ]
    return Algorithm(
        instance.topology, instance.collective, tuple(value(r) for r in rounds), tuple(sends)
    )
