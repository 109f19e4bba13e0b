"""The reference: SCCL's own encoding, written straight from section 3.4, on Z3.

Deliberately independent of ``sccl.encode``, so that it can judge the fast backends. Variables:
time_{c,n} (the step in which chunk c is available on n, 0 for at the start), snd_{n,c,n'} (n sends
c to n' at some step) and r_s. Constraints C1 to C6 carry the paper's numbers.

Z3 works in a child process: it may preprocess for minutes without heeding an interrupt, and a
KeyboardInterrupt that falls into one of its many finalizers is lost.
"""

from __future__ import annotations

import time as clock

import z3

from sccl.core.algorithm import Algorithm, send
from sccl.core.answer import Answer, Sat, Unknown, Unsat
from sccl.core.instance import Instance
from sccl.solvers.effort import Effort
from sccl.synth.ksync.child import Child

_RESOURCES = 2_000_000  # of Z3's own, in a unit of effort

_Encoding = tuple[
    z3.Solver,
    dict[tuple[int, int], z3.ArithRef],
    dict[tuple[int, int, int], z3.BoolRef],
    list[z3.ArithRef],
]


def answer(instance: Instance, effort: Effort) -> Answer:
    """Return Z3's answer, worked out in a child process."""
    with Child("z3", instance, effort) as child:
        return child.answer()


def answer_here(instance: Instance, effort: Effort) -> Answer:
    """Return Z3's answer, worked out in this process in a context of its own."""
    begin = clock.perf_counter()
    context = z3.Context()
    solver, time, snd, rounds = encode_paper(instance, context)
    solver.set("random_seed", effort.seed)
    if effort.units is not None:
        solver.set("rlimit", max(1, min(int(effort.units * _RESOURCES), 2**32 - 1)))
    if effort.timeout_s is not None:
        left = effort.timeout_s - (clock.perf_counter() - begin)
        solver.set("timeout", max(1, int(left * 1000)))
    verdict = solver.check()
    seconds = clock.perf_counter() - begin
    if verdict == z3.sat:
        return Sat(_decode(instance, solver.model(), time, snd, rounds), "z3", seconds)
    if verdict == z3.unsat:
        return Unsat("Z3 refuted C1 to C6 of SCCL section 3.4", "z3", seconds)
    return Unknown(f"{solver.reason_unknown()} after {seconds:.0f} s", "z3", seconds)


def encode_paper(instance: Instance, ctx: z3.Context) -> _Encoding:
    """Return a solver that holds C1 to C6, and the variables time, snd and r."""
    chunks, ranks = range(instance.collective.num_chunks), range(instance.collective.ranks)
    steps, edges = range(1, instance.steps + 1), sorted(instance.topology.edges)
    solver = z3.Solver(ctx=ctx)
    time = {(c, n): z3.Int(f"time_{c}_{n}", ctx) for c in chunks for n in ranks}
    snd = {(n, c, m): z3.Bool(f"snd_{n}_{c}_{m}", ctx) for c in chunks for n, m in edges}
    rounds = [z3.Int(f"r_{s}", ctx) for s in steps]
    for c in chunks:
        pre, post = instance.collective.holders(c), instance.collective.wanted(c)
        for n in ranks:
            solver.add(time[c, n] >= 0)
            if n in pre:
                solver.add(time[c, n] == 0)  # C1
            if n in post:
                solver.add(time[c, n] <= instance.steps)  # C2
            if n not in pre:  # C3: whoever comes to have a chunk received it exactly once
                received = [(snd[m, c, n], 1) for m, k in edges if k == n]
                once = z3.PbEq(received, 1) if received else z3.BoolVal(val=False, ctx=ctx)
                solver.add(z3.Implies(time[c, n] <= instance.steps, once))
        for n, m in edges:  # C4: a chunk is there before it is received elsewhere
            solver.add(z3.Implies(snd[n, c, m], time[c, n] < time[c, m]))
    for s in steps:  # C5: bandwidth, (L, b) by (L, b)
        for constraint in instance.topology.constraints():
            sent = [
                z3.And(snd[n, c, m], time[c, m] == s) for n, m in constraint.edges for c in chunks
            ]
            for extra in range(instance.rounds - instance.steps + 1):
                limit = constraint.chunks_per_round * (1 + extra)
                if limit < len(sent):
                    within = z3.PbLe([(x, 1) for x in sent], limit)
                    solver.add(z3.Implies(rounds[s - 1] <= 1 + extra, within))
    for r in rounds:  # section 3.1: every step has at least one round
        solver.add(r >= 1)
    solver.add(z3.Sum(rounds) == instance.rounds)  # C6
    return solver, time, snd, rounds


def _decode(
    instance: Instance,
    model: z3.ModelRef,
    time: dict[tuple[int, int], z3.ArithRef],
    snd: dict[tuple[int, int, int], z3.BoolRef],
    rounds: list[z3.ArithRef],
) -> Algorithm:
    """Return (Q, T): what arrives at time t was sent in step t - 1, steps counted from 0."""

    def value(term: z3.ArithRef) -> int:
        return int(model.eval(term, model_completion=True).as_long())

    sends = [
        send(c, n, m, value(time[c, m]) - 1)
        for (n, c, m), sent in snd.items()
        if z3.is_true(model.eval(sent))
        and value(time[c, m]) <= instance.steps
        and m not in instance.collective.holders(c)
    ]
    return Algorithm(
        instance.topology, instance.collective, tuple(value(r) for r in rounds), tuple(sends)
    )
