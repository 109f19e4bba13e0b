"""Steps of many layers, made by hand.

A layer gathers its parameters, dispatches tokens to experts and combines them; backward it does so
again, and reduces its gradients to shards. Collectives may go over a fast or a slow channel, whole,
in up to 15 parts, or over both.
"""

from __future__ import annotations

from sccl.train import StepMotif, StepOp, StepOption, StepProblem
from sccl.train.cyclic import CyclicProblem, Lagged

FAST, SLOW, COMPUTE = 0, 1, 2

_LAUNCH = 20
"""Ticks that each motif takes beside what it moves."""

_SLOWER = 3
"""How many times as long the slow channel takes."""


def layered(layers: int, compute: int = 900) -> StepProblem:
    """Return a step of so many layers, seven collectives each.

    Args:
        compute: ticks of a computation forward; backward it takes twice as long.
    """
    gather, exchange, reduce = _options(700), _options(500), _options(900)
    ops: list[StepOp] = []

    def add(name: str, options: tuple[StepOption, ...], *after: int) -> int:
        ops.append(StepOp(name, options, tuple(sorted(set(after)))))
        return len(ops) - 1

    def computes(name: str, ticks: int, *after: int) -> int:
        option = StepOption("", (StepMotif(ticks, (COMPUTE,)),))
        ops.append(StepOp(name, (option,), tuple(sorted(set(after))), communicates=False))
        return len(ops) - 1

    last = computes("begin", 1)
    for layer in range(layers):
        shard = add(f"gather {layer}", gather)
        last = computes(f"attend {layer}", compute, last, shard)
        there = add(f"dispatch {layer}", exchange, last)
        last = computes(f"experts {layer}", compute, last, there)
        back = add(f"combine {layer}", exchange, last)
        last = computes(f"add {layer}", compute // 10, last, back)
    for layer in reversed(range(layers)):
        shard = add(f"gather again {layer}", gather)
        there = add(f"dispatch back {layer}", exchange, last)
        last = computes(f"experts back {layer}", 2 * compute, last, there, shard)
        back = add(f"combine back {layer}", exchange, last)
        last = computes(f"attend back {layer}", 2 * compute, last, back)
        add(f"reduce {layer}", reduce, last)
    return StepProblem(("fast", "slow", "compute"), tuple(ops))


def repeating(step: StepProblem) -> CyclicProblem:
    """Return the step repeated: parameters are gathered after their gradients were reduced."""
    number = {op.name: k for k, op in enumerate(step.ops)}
    ops = [k for k, op in enumerate(step.ops) if not op.communicates]
    rows = [
        Lagged(number[f"reduce {name.split()[-1]}"], k, 1)
        for name, k in number.items()
        if name.startswith("gather") and "again" not in name
    ]
    return CyclicProblem(step, (*rows, Lagged(ops[-1], ops[0], 1)))


def _options(ticks: int) -> tuple[StepOption, ...]:
    def parts(count: int, channel: int, times: int) -> tuple[StepMotif, ...]:
        return (StepMotif(-(-ticks * times // count) + _LAUNCH, (channel,)),) * count

    lanes = (
        *(StepMotif(ticks * 3 // 4 // 3 + _LAUNCH, (FAST,)) for _ in range(3)),
        StepMotif(ticks * _SLOWER // 4 + _LAUNCH, (SLOW,)),
    )
    return (
        *(StepOption(f"seg({k})", parts(k, FAST, 1)) for k in (1, 2, 4, 8, 15)),
        *(StepOption(f"slow seg({k})", parts(k, SLOW, _SLOWER)) for k in (1, 4)),
        StepOption("lanes", lanes),
    )
