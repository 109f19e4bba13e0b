"""Steps of layered models, small ones: parameters gathered, experts called, gradients scattered.

Times are in microseconds, near those of a transformer with experts on two channels: a fast one
within machines, a slow one between them.
"""

from __future__ import annotations

from sccl.training.scheduling.step_problem import (
    CyclicProblem,
    LaggedWait,
    StepMotif,
    StepOp,
    StepOption,
    StepProblem,
)

FAST, SLOW, STREAM = 0, 1, 2


def _pieces(name: str, count: int, *phases: tuple[int, int]) -> StepOption:
    """Return as many pieces, each of which goes through phases: resources, and ticks of all."""
    motifs: list[StepMotif] = []
    for _ in range(count):
        for k, (resource, ticks) in enumerate(phases):
            after = (len(motifs) - 1,) if k else ()
            motifs.append(StepMotif(-(-ticks // count) + 8, (resource,), after))
    return StepOption(name, tuple(motifs))


def gathers(size: int) -> tuple[StepOption, ...]:
    """Return options of a gather that takes so long on the slow channel alone."""
    return (
        _pieces("flat", 1, (SLOW, size)),
        _pieces("flat, in two", 2, (SLOW, size)),
        _pieces("by levels", 1, (SLOW, size // 2), (FAST, size // 3)),
        _pieces("by levels, in two", 2, (SLOW, size // 2), (FAST, size // 3)),
    )


def scatters(size: int) -> tuple[StepOption, ...]:
    """Return options of a reduce-scatter."""
    return (
        _pieces("flat", 1, (SLOW, size)),
        _pieces("by levels", 1, (FAST, size // 3), (SLOW, size // 2)),
        _pieces("by levels, in two", 2, (FAST, size // 3), (SLOW, size // 2)),
    )


def exchanges(size: int) -> tuple[StepOption, ...]:
    """Return options of an all-to-all: by lanes, half of it is on each channel at once."""
    by_lanes = (*_pieces("", 1, (SLOW, size // 2)).motifs, *_pieces("", 1, (FAST, size)).motifs)
    return (
        _pieces("flat", 1, (SLOW, size)),
        _pieces("by levels", 1, (FAST, size // 2), (SLOW, size // 2)),
        _pieces("by levels, in two", 2, (FAST, size // 2), (SLOW, size // 2)),
        StepOption("by lanes", by_lanes),
    )


def layered(
    layers: int,
    gathered: int = 1200,
    exchanged: int = 500,
    attention: int = 600,
    experts: int = 900,
    held: int = 3,
) -> CyclicProblem:
    """Build a step: forward, backward, and an update that waits for all gradients.

    Args:
        gathered: Ticks of a gather, and of a reduce-scatter, on the slow channel.
        exchanged: Ticks of an all-to-all on the slow channel.
        attention: Ticks of a layer's first computation forward, which takes twice as long backward.
        experts: Ticks of its second computation forward, which takes twice as long backward.
        held: Number of layers whose parameters fit in memory.
    """
    ops: list[StepOp] = []
    chain: list[int] = []
    passed: list[int] = []  # after which parameters of each layer on the way can go

    def calls(name: str, options: tuple[StepOption, ...], *after: int) -> int:
        ops.append(StepOp(name, options, after))
        return len(ops) - 1

    def computes(name: str, ticks: int, *after: int) -> int:
        waits = tuple(sorted({*after, *chain[-1:]}))
        option = StepOption("", (StepMotif(ticks, (STREAM,)),))
        ops.append(StepOp(name, (option,), waits, communicates=False))
        chain.append(len(ops) - 1)
        return chain[-1]

    scattered = []
    order = [*range(layers), *reversed(range(layers))]
    for place, layer in enumerate(order):
        backward = place >= layers
        times, way = (2, "backward") if backward else (1, "forward")
        gate = passed[place - held : place - held + 1] if place >= held else []
        gather = calls(f"gather {layer} {way}", gathers(gathered), *gate)
        first = [gather, *passed[-1:]]
        parts = [("experts", experts), ("attention", attention)]
        for part, (name, ticks) in enumerate(parts if backward else parts[::-1]):
            done = computes(f"{name} {layer} {way}", times * ticks, *first)
            first = [calls(f"exchange {part} {layer} {way}", exchanges(exchanged), done)]
        passed.append(computes(f"norm {layer} {way}", 40, *first))
        if backward:
            scattered.append(calls(f"scatter {layer}", scatters(gathered), passed[-1]))
    computes("update", 300, *scattered)
    step = StepProblem(("fast", "slow", "stream"), tuple(ops))
    lagged = [LaggedWait(chain[-1], chain[0], 1)]
    lagged.extend(
        LaggedWait(chain[-1], number, 1)
        for number, op in enumerate(ops)
        if op.name.startswith("gather") and not op.after
    )
    return CyclicProblem(step, tuple(lagged))
