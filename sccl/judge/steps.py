"""Re-execution of an algorithm, step by step, with every violation named.

Shares nothing with encoders, solvers or transformations: it reads the definitions of SCCL sections
3.2 and 3.3 (run V_0 .. V_S, bandwidth per constraint and step, postcondition) and, for combining
collectives, follows which contributions every partial result is made of.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from sccl.core.algorithm import Algorithm, Send
from sccl.core.ids import Edge
from sccl.judge.violation import Contributions, Violation, ranks_text


def violations(algorithm: Algorithm) -> list[Violation]:
    """Return everything that is wrong with an algorithm. Empty means it is valid.

    Checks that each step has at least one round. That each send is over a link, of a chunk that
    its sender holds when the step begins. That no bandwidth constraint carries more than b * r_s.
    That the postcondition holds in the end, and for combining collectives that each partial result
    counts a contribution at most once and the final ones count every contribution exactly once.
    """
    faults = list(_malformed_violations(algorithm))
    sends = [s for s in algorithm.sends if _is_in_range(algorithm, s)]
    faults += _off_link_violations(algorithm, sends)
    faults += _budget_violations(algorithm, sends)
    run = _run_combining if algorithm.collective.combining else _run_copying
    faults += run(algorithm, sends)
    return faults


def _is_in_range(algorithm: Algorithm, send: Send) -> bool:
    ranks = algorithm.topology.ranks  # switches forward and hold nothing: they take no part
    return (
        0 <= send.step < algorithm.steps
        and 0 <= send.chunk < algorithm.collective.num_chunks
        and 0 <= send.src < ranks
        and 0 <= send.dst < ranks
    )


def _malformed_violations(algorithm: Algorithm) -> Iterator[Violation]:
    if algorithm.collective.ranks != algorithm.topology.ranks:
        text = (
            f"{algorithm.collective.name} is for {algorithm.collective.ranks} ranks and the "
            f"topology has {algorithm.topology.ranks}"
        )
        yield Violation("collective", text)
    for step, rounds in enumerate(algorithm.rounds_per_step):
        if rounds < 1:
            text = f"step {step} has {rounds} rounds, at least 1 expected"
            yield Violation("rounds", text, step=step)
    for send in algorithm.sends:
        if not _is_in_range(algorithm, send):
            text = f"{describe_send(send)}: that step, chunk or rank does not exist"
            yield Violation("range", text, send.step, send.chunk, send.dst)
        elif send.reduce and not algorithm.collective.combining:
            text = f"{describe_send(send)} reduces, but {algorithm.collective.name} does not"
            yield Violation("conflict", text, send.step, send.chunk, send.dst)


def describe_send(send: Send) -> str:
    """Return a send in the words of SCCL's appendix A.5.1."""
    how = "reduce-send" if send.reduce else "send"
    return f"{how} {send.chunk} from {send.src} to {send.dst} at step {send.step}"


def _off_link_violations(algorithm: Algorithm, sends: list[Send]) -> Iterator[Violation]:
    edges = algorithm.topology.edges
    for send in sends:
        if send.edge not in edges:
            text = f"{describe_send(send)}: there is no link {send.src}->{send.dst}"
            yield Violation("link", text, send.step, send.chunk, send.dst)


def _budget_violations(algorithm: Algorithm, sends: list[Send]) -> Iterator[Violation]:
    load: Counter[tuple[int, Edge]] = Counter((s.step, s.edge) for s in sends)
    for constraint in algorithm.topology.constraints():
        for step, rounds in enumerate(algorithm.rounds_per_step):
            used = sum(load[step, edge] for edge in constraint.edges)
            allowed = constraint.chunks_per_round * max(rounds, 0)
            if used > allowed:
                text = (
                    f"step {step}: {constraint.name} carries {used} chunks, "
                    f"{constraint.chunks_per_round} per round x {rounds} rounds = {allowed} allowed"
                )
                yield Violation("bandwidth", text, step=step, rank=constraint.edges[0][0])


def _run_copying(algorithm: Algorithm, sends: list[Send]) -> Iterator[Violation]:
    """Run V_{s+1} = V_s + the chunks that holders send in step s (SCCL section 3.3)."""
    collective = algorithm.collective
    held: set[tuple[int, int]] = {
        (c, r) for c in range(collective.num_chunks) for r in collective.holders(c)
    }
    by_step = _sends_by_step(sends)
    for step in range(algorithm.steps):
        arrived: list[tuple[int, int]] = []
        for send in by_step[step]:
            if (send.chunk, send.src) in held:
                arrived.append((send.chunk, send.dst))
            else:
                yield _unavailable_violation(send)
        held.update(arrived)
    for chunk in range(collective.num_chunks):
        for rank in sorted(collective.destinations(chunk)):
            if (chunk, rank) not in held:
                text = f"after the last step rank {rank} does not hold chunk {chunk}"
                yield Violation("postcondition", text, chunk=chunk, rank=rank)


def _unavailable_violation(send: Send) -> Violation:
    text = f"{describe_send(send)}: rank {send.src} does not hold chunk {send.chunk} when it begins"
    return Violation("availability", text, send.step, send.chunk, send.src)


def _sends_by_step(sends: list[Send]) -> dict[int, list[Send]]:
    grouped: dict[int, list[Send]] = defaultdict(list)
    for send in sends:
        grouped[send.step].append(send)
    return grouped


def _run_combining(algorithm: Algorithm, sends: list[Send]) -> Iterator[Violation]:
    """Run with sets of contributions instead of data (SCCL section 3.5)."""
    collective = algorithm.collective
    value: dict[tuple[int, int], Contributions] = {
        (c, r): 1 << r for c in range(collective.num_chunks) for r in collective.holders(c)
    }
    by_step = _sends_by_step(sends)
    for step in range(algorithm.steps):
        arrivals: dict[tuple[int, int], list[tuple[Send, Contributions]]] = defaultdict(list)
        for send in by_step[step]:
            sent = value.get((send.chunk, send.src))
            if sent is None:
                yield _unavailable_violation(send)
            else:  # all sends of a step carry the values from its beginning
                arrivals[send.chunk, send.dst].append((send, sent))
        for place, incoming in arrivals.items():
            yield from _receive(value, place, incoming)
    for chunk in range(collective.num_chunks):
        everyone = sum(1 << r for r in collective.holders(chunk))
        for rank in sorted(collective.destinations(chunk)):
            yield from _final_violations(chunk, rank, value.get((chunk, rank)), everyone)


def _receive(
    value: dict[tuple[int, int], Contributions],
    place: tuple[int, int],
    incoming: list[tuple[Send, Contributions]],
) -> Iterator[Violation]:
    """Store or reduce all that one rank receives of one chunk in one step.

    Reducing into a place that holds nothing stores: a relay has no contribution of its own.
    """
    chunk, rank = place
    copies = [item for item in incoming if not item[0].reduce]
    if copies and (len(copies) < len(incoming) or len({sent for _, sent in copies}) > 1):
        text = (
            f"step {copies[0][0].step}: rank {rank} receives different values of chunk {chunk} "
            "and at least one overwrites, so the result depends on their order"
        )
        yield Violation("conflict", text, copies[0][0].step, chunk, rank)
    for _, sent in copies:
        value[place] = sent
    for send, sent in incoming:
        if not send.reduce:
            continue
        held = value.get(place, 0)
        if both := held & sent:
            text = f"{describe_send(send)} counts the contribution of {ranks_text(both)} twice"
            yield Violation("double-count", text, send.step, chunk, rank)
        value[place] = held | sent


def _final_violations(chunk: int, rank: int, got: int | None, everyone: int) -> Iterator[Violation]:
    if got is None:
        text = f"after the last step rank {rank} does not hold chunk {chunk}"
        yield Violation("postcondition", text, chunk=chunk, rank=rank)
    elif missing := everyone & ~got:
        text = (
            f"after the last step chunk {chunk} on rank {rank} lacks the contribution of "
            f"{ranks_text(missing)}"
        )
        yield Violation("incomplete", text, chunk=chunk, rank=rank)
