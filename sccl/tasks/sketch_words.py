"""Describe a sketch in table rows, in sentences, and in the lines above its drawing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from sccl.core.cost import bytes_text
from sccl.core.sketch import HyperedgePolicy, Joining, Relays, Sketch
from sccl.core.words import counted, runs_of
from sccl.tasks.fitted_sketch import FittedSketch, SketchedChunks

_MOST = 16
"""Largest number of listed senders, and of listed ranks without a pattern."""

_LINE = 84
"""Characters below the title of a drawing."""

_POLICIES = {
    HyperedgePolicy.MOST: "of the fastest routes, those over the most connections are used",
    HyperedgePolicy.LEAST: "of the fastest routes, those over the fewest connections are used",
    HyperedgePolicy.FREE: "any connections may be used",
}


def spans(numbers: Sequence[int]) -> str:
    """Return numbers, those in a row by the first and the last: ``"0 to 3, 8"``."""
    return _listed(runs_of(numbers, through=" to "))


def _listed(parts: Sequence[str], most: int = _MOST) -> str:
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


def rows_of(sketch: Sketch, fit: FittedSketch | None) -> list[tuple[str, str]]:
    """Return the properties of a sketch as (name, value).

    Args:
        fit: The sketch on a machine. None: no machine.
    """
    rows = [("nodes", str(sketch.nodes))]
    if fit is not None:
        rows.append(("machine", f"{fit.topology.name}, nodes of {counted(fit.local, 'rank')}"))
    size = "not set" if sketch.size_bytes is None else bytes_text(sketch.size_bytes)
    rows += [("chunks of a part", str(sketch.chunks)), ("size of a buffer", size)]
    for edge in sketch.hyperedges:
        rows.append(("switch", f"ranks {spans(edge.local)}: {edge.policy.value}"))
    rows.append(("within a node", _within(sketch)))
    rows.append(("between nodes", "any link" if sketch.relays is None else joins(sketch.relays)))
    rows += list(_relayed(sketch.relays)) if sketch.relays else []
    for one in sketch.rotations:
        rows.append(("symmetry", f"[{one.offset}, {one.size}]"))
    if fit is not None:
        rows.append(("symmetries in all", str(fit.symmetries)))
        for name, between in (("ways within nodes", False), ("ways between nodes", True)):
            left, every = fit.count(between=between)
            rows.append((name, f"{left} of {every}"))
    return rows


def _within(sketch: Sketch) -> str:
    if sketch.within is None:
        return "any link"
    return _listed([f"{src} to {spans(to)}" for src, to in sketch.within if to]) or "nothing"


def joins(relays: Relays) -> str:
    """Return who sends to whom on other nodes."""
    if relays.joined is Joining.ALL:
        return "each to each"
    if relays.joined is Joining.SAME:
        return "each to the one of its number"
    assert not isinstance(relays.joined, Joining)
    return _listed([f"{sender} to {spans(to)}" for sender, to in relays.joined])


def _relayed(relays: Relays) -> Iterator[tuple[str, str]]:
    if relays.leaves_by:
        yield "chunks leave by (those of)", _leaving(relays)
    if relays.by_number:
        each, offset = relays.by_number
        yield "chunks leave by (those of)", f"chunks of rank r by r // {each} * {each} + {offset}"
    if relays.shares:
        shares = _listed([f"{sender} has 1/{share}" for sender, share in relays.shares])
        yield "bandwidth between nodes", shares
    if relays.own_first:
        yield "order", "a sender's own chunks first"


def _leaving(relays: Relays) -> str:
    if all(own == (by,) for by, own in relays.leaves_by):
        return "each its own"
    return _listed([f"{by} ({spans(own)})" for by, own in relays.leaves_by if own])


def sentences_of(fit: FittedSketch, chunks: SketchedChunks | None) -> list[str]:
    """Return sentences on the permitted plans, with numbers.

    Args:
        chunks: Chunks of a collective. None: no collective.
    """
    return [
        *_of_machine(fit),
        *_of_relays(fit),
        *_of_switches(fit),
        *_of_symmetries(fit, chunks),
        *_of_sizes(fit.sketch),
    ]


def _of_machine(fit: FittedSketch) -> Iterator[str]:
    sketch, local = fit.sketch, fit.local
    yield (
        f"{fit.topology.name} is taken as {counted(sketch.nodes, 'node')} of "
        f"{counted(local, 'rank')} each; rank r is number r % {local} of its node."
    )
    left, every = fit.count(between=False)
    rest = "all of them" if left == every else f"{every - left} are left out"
    yield f"Within nodes {left} of {every} ways from rank to rank may be used: {rest}."
    if sketch.within is not None:
        yield f"Of a node: {_within(sketch)}."


def _of_relays(fit: FittedSketch) -> Iterator[str]:
    sketch, relays = fit.sketch, fit.sketch.relays
    if sketch.nodes == 1:
        return
    left, every = fit.count(between=True)
    yield f"Between nodes {left} of {every} ways may be used."
    if relays is None:
        yield "Chunks leave a node over any of them."
        return
    senders = [n for n in range(fit.local) if relays.receivers(n, fit.local)]
    yield (
        f"{len(senders)} of the {fit.local} ranks of a node send to other nodes: {joins(relays)}."
    )
    if relays.by_number:
        each, offset = relays.by_number
        yield (
            f"Chunks of rank number r leave their node by number r // {each} * {each} + {offset}, "
            "and by no other."
        )
    elif relays.leaves_by:
        told = {origin for _, origins in relays.leaves_by for origin in origins}
        rest = sorted(set(range(fit.local)) - told)
        yield f"Chunks leave their node by (those of ranks): {_leaving(relays)}."
        if rest:
            yield f"Chunks of {spans(rest)} leave by any sender."
    else:
        yield "Any sender takes chunks of any rank."
    for sender, share in relays.shares:
        if share > 1:
            yield (
                f"Number {sender} has 1/{share} of the bandwidth between nodes: its transfers "
                f"there take {share} times as long."
            )
    if relays.own_first:
        yield "A sender sends its own chunks before forwarded ones."


def _of_switches(fit: FittedSketch) -> Iterator[str]:
    for edge in fit.sketch.hyperedges:
        size = len(edge.local)
        yield (
            f"Ranks {spans(edge.local)} of each node are joined by a switch, up to "
            f"{size * (size - 1)} connections ({edge.policy.value}): {_POLICIES[edge.policy]}."
        )


def _of_symmetries(fit: FittedSketch, chunks: SketchedChunks | None) -> Iterator[str]:
    for one in fit.sketch.rotations:
        yield (
            f"Symmetry [{one.offset}, {one.size}]: in each {one.size} ranks, the rank "
            f"{one.offset} after a rank repeats its sends, with the corresponding chunks."
        )
    if chunks is None:
        if fit.sketch.rotations:
            yield f"That makes {fit.symmetries} symmetries: 1 chunk of {fit.symmetries} is planned."
        return
    total = f"{chunks.collective} moves {counted(chunks.chunks, 'chunk')}"
    if chunks.planned == chunks.chunks:
        yield f"{total}, each of which is planned."
    else:
        yield (
            f"{total}; with {fit.symmetries} symmetries {chunks.planned} of them are planned, and "
            f"the other {chunks.chunks - chunks.planned} follow."
        )


def _of_sizes(sketch: Sketch) -> Iterator[str]:
    yield (
        f"Each part that a rank sends or is to get is cut into {counted(sketch.chunks, 'chunk')}."
    )
    if sketch.size_bytes is not None:
        yield f"A rank's buffer has {bytes_text(sketch.size_bytes)} by default."


def notes_of(fit: FittedSketch) -> tuple[str, ...]:
    """Return the lines above a drawing."""
    sketch, relays = fit.sketch, fit.sketch.relays
    ways = [
        f"{left} of {every} ways {where}"
        for where, (left, every) in (
            ("within nodes", fit.count(between=False)),
            ("between nodes", fit.count(between=True)),
        )
        if every
    ]
    size = f"{counted(sketch.nodes, 'node')} of {counted(fit.local, 'rank')}"
    lines = [f"{size}, {counted(sketch.chunks, 'chunk')} a part", f"left: {', '.join(ways)}"]
    if relays is not None:
        lines.append(f"between nodes: {joins(relays)}")
        lines += [f"{what}: {text}" for what, text in _relayed(relays)]
    if fit.symmetries > 1:
        told = ", ".join(f"[{one.offset}, {one.size}]" for one in sketch.rotations)
        lines.append(f"{fit.symmetries} symmetries, of {told}")
    together = (re.sub(r" \([^)]*\)", lambda part: _unbroken(part[0]), line) for line in lines)
    return tuple(part for line in together for part in wrap(line, _LINE))


def _unbroken(text: str) -> str:
    return text.replace(" ", "\u00a0")
