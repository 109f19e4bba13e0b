"""Describe a sketch in table rows, in sentences, and in the lines above its drawing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from sccl.core.cost import format_bytes
from sccl.core.formatting import format_count, format_runs
from sccl.synth.sketches.sketch import HyperedgePolicy, RelayPattern, RelayRules, Sketch
from sccl.synth.taccl.fitted_sketch import FittedSketch, SketchedChunks

_POLICIES = {
    HyperedgePolicy.MAX: "of the fastest routes, those over the most connections are used",
    HyperedgePolicy.MIN: "of the fastest routes, those over the fewest connections are used",
    HyperedgePolicy.FREE: "any connections may be used",
}


def number_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as text, with consecutive ones as ranges: ``"0 to 3, 8"``."""
    return _list_text(format_runs(numbers, through=" to "))


def _list_text(parts: Sequence[str], limit: int = 16) -> str:
    more = f" and {len(parts) - limit} more" if len(parts) > limit else ""
    return ", ".join(parts[:limit]) + more


def sketch_rows(sketch: Sketch, fit: FittedSketch | None) -> list[tuple[str, str]]:
    """Return the properties of a sketch as (name, value).

    Args:
        fit: The sketch on a machine. None: no machine.
    """
    rows = [("nodes", str(sketch.nodes))]
    if fit is not None:
        rows.append(
            ("machine", f"{fit.topology.name}, nodes of {format_count(fit.ranks_per_node, 'rank')}")
        )
    size = "not set" if sketch.size_bytes is None else format_bytes(sketch.size_bytes)
    rows += [("chunks of a part", str(sketch.chunks)), ("size of a buffer", size)]
    for edge in sketch.hyperedges:
        rows.append(("switch", f"ranks {number_ranges(edge.local)}: {edge.policy.value}"))
    rows.append(("within a node", _within_text(sketch)))
    rows.append(
        ("between nodes", "any link" if sketch.relays is None else relay_text(sketch.relays))
    )
    rows += list(_relay_rows(sketch.relays)) if sketch.relays else []
    for rotation in sketch.rotations:
        rows.append(("symmetry", f"[{rotation.offset}, {rotation.size}]"))
    if fit is not None:
        rows.append(("symmetries in all", str(fit.symmetries)))
        for name, between in (("routes within nodes", False), ("routes between nodes", True)):
            left, total = fit.count_routes(between=between)
            rows.append((name, f"{left} of {total}"))
    return rows


def _within_text(sketch: Sketch) -> str:
    if sketch.intranode_links is None:
        return "any link"
    return (
        _list_text([f"{src} to {number_ranges(to)}" for src, to in sketch.intranode_links if to])
        or "nothing"
    )


def relay_text(relays: RelayRules) -> str:
    """Return the senders and their receivers on other nodes, as text."""
    if relays.connections is RelayPattern.FULLY_CONNECTED:
        return "each to each"
    if relays.connections is RelayPattern.DIRECT_MAP:
        return "each to the rank with its number"
    assert not isinstance(relays.connections, RelayPattern)
    return _list_text([f"{sender} to {number_ranges(to)}" for sender, to in relays.connections])


def _relay_rows(relays: RelayRules) -> Iterator[tuple[str, str]]:
    if relays.leaves_by:
        yield "senders (chunks of ranks)", _egress_text(relays)
    if relays.relay_map:
        each, offset = relays.relay_map
        yield "senders (chunks of ranks)", f"chunks of rank r by r // {each} * {each} + {offset}"
    if relays.shares:
        shares = _list_text([f"{sender} has 1/{share}" for sender, share in relays.shares])
        yield "bandwidth between nodes", shares
    if relays.local_first:
        yield "order", "a sender's own chunks first"


def _egress_text(relays: RelayRules) -> str:
    if all(origins == (by,) for by, origins in relays.leaves_by):
        return "each its own"
    return _list_text(
        [f"{by} ({number_ranges(origins)})" for by, origins in relays.leaves_by if origins]
    )


def sketch_sentences(fit: FittedSketch, chunks: SketchedChunks | None) -> list[str]:
    """Return sentences on the permitted plans, with numbers.

    Args:
        chunks: Chunks of a collective. None: no collective.
    """
    return [
        *_machine_sentences(fit),
        *_relay_sentences(fit),
        *_switch_sentences(fit),
        *_symmetry_sentences(fit, chunks),
        *_size_sentences(fit.sketch),
    ]


def _machine_sentences(fit: FittedSketch) -> Iterator[str]:
    sketch, local = fit.sketch, fit.ranks_per_node
    yield (
        f"{fit.topology.name} has {format_count(sketch.nodes, 'node')} of "
        f"{format_count(local, 'rank')} each; rank r has number r % {local} in its node."
    )
    left, total = fit.count_routes(between=False)
    rest = "all of them" if left == total else f"{total - left} are left out"
    yield f"Within nodes {left} of {total} routes from rank to rank may be used: {rest}."
    if sketch.intranode_links is not None:
        yield f"Links of a node: {_within_text(sketch)}."


def _relay_sentences(fit: FittedSketch) -> Iterator[str]:
    sketch, relays = fit.sketch, fit.sketch.relays
    if sketch.nodes == 1:
        return
    left, total = fit.count_routes(between=True)
    yield f"Between nodes {left} of {total} routes may be used."
    if relays is None:
        yield "Any rank may send chunks to other nodes."
        return
    senders = [n for n in range(fit.ranks_per_node) if relays.receivers(n, fit.ranks_per_node)]
    yield (
        f"{len(senders)} of the {fit.ranks_per_node} ranks of a node send to other nodes: "
        f"{relay_text(relays)}."
    )
    if relays.relay_map:
        each, offset = relays.relay_map
        yield (
            f"Chunks of rank number r are sent to other nodes by number r // {each} * {each} + "
            f"{offset} only."
        )
    elif relays.leaves_by:
        assigned = {origin for _, origins in relays.leaves_by for origin in origins}
        rest = sorted(set(range(fit.ranks_per_node)) - assigned)
        yield f"Senders to other nodes, with the ranks that they serve: {_egress_text(relays)}."
        if rest:
            yield f"Any sender sends chunks of {number_ranges(rest)}."
    else:
        yield "Any sender may send chunks of any rank."
    for sender, share in relays.shares:
        if share > 1:
            yield (
                f"Sender {sender} gets 1/{share} of the bandwidth between nodes: its transfers "
                f"there take {share} times as long."
            )
    if relays.local_first:
        yield "A sender sends its own chunks before forwarded ones."


def _switch_sentences(fit: FittedSketch) -> Iterator[str]:
    for edge in fit.sketch.hyperedges:
        size = len(edge.local)
        yield (
            f"Ranks {number_ranges(edge.local)} of each node are joined by a switch, up to "
            f"{size * (size - 1)} connections ({edge.policy.value}): {_POLICIES[edge.policy]}."
        )


def _symmetry_sentences(fit: FittedSketch, chunks: SketchedChunks | None) -> Iterator[str]:
    for rotation in fit.sketch.rotations:
        yield (
            f"Symmetry [{rotation.offset}, {rotation.size}]: in each {rotation.size} ranks, the "
            "rank "
            f"{rotation.offset} after a rank repeats its sends, with the corresponding chunks."
        )
    if chunks is None:
        if fit.sketch.rotations:
            yield (
                f"These generate {fit.symmetries} symmetries: sccl plans 1 of {fit.symmetries} "
                "chunks."
            )
        return
    total = f"{chunks.collective} moves {format_count(chunks.chunks, 'chunk')}"
    if chunks.planned == chunks.chunks:
        yield f"{total}, and sccl plans each of them."
    else:
        yield (
            f"{total}; with {fit.symmetries} symmetries, sccl plans {chunks.planned}, and the "
            f"other {chunks.chunks - chunks.planned} follow."
        )


def _size_sentences(sketch: Sketch) -> Iterator[str]:
    yield (
        f"Each part of a rank's input or output is cut into {format_count(sketch.chunks, 'chunk')}."
    )
    if sketch.size_bytes is not None:
        yield f"A rank's buffer has {format_bytes(sketch.size_bytes)} by default."


def drawing_notes(fit: FittedSketch) -> tuple[str, ...]:
    """Return the lines above a drawing."""
    sketch, relays = fit.sketch, fit.sketch.relays
    routes = [
        f"{left} of {total} routes {where}"
        for where, (left, total) in (
            ("within nodes", fit.count_routes(between=False)),
            ("between nodes", fit.count_routes(between=True)),
        )
        if total
    ]
    size = f"{format_count(sketch.nodes, 'node')} of {format_count(fit.ranks_per_node, 'rank')}"
    lines = [
        f"{size}, {format_count(sketch.chunks, 'chunk')} per part",
        f"permitted: {', '.join(routes)}",
    ]
    if relays is not None:
        lines.append(f"between nodes: {relay_text(relays)}")
        lines += [f"{label}: {text}" for label, text in _relay_rows(relays)]
    if fit.symmetries > 1:
        rotation_text = ", ".join(
            f"[{rotation.offset}, {rotation.size}]" for rotation in sketch.rotations
        )
        lines.append(f"{fit.symmetries} symmetries, of {rotation_text}")
    together = (
        re.sub(r" \([^)]*\)", lambda part: _with_nonbreaking_spaces(part[0]), line)
        for line in lines
    )
    return tuple(part for line in together for part in wrap(line, 84))  # the width of a drawing


def _with_nonbreaking_spaces(text: str) -> str:
    return text.replace(" ", "\u00a0")
