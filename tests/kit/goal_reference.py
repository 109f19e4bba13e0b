"""Execute GOAL schedules by definition: a send carries the data that arrived before it."""

from __future__ import annotations

import re
from collections import defaultdict


def run_goal(text: str, size: int) -> int:
    """Return how many messages arrive, of a schedule that has one receive for each send.

    Args:
        size: bytes of every message.
    """
    head, *parts = re.split(r"\nrank (\d+) \{\n", text)
    assert head == f"num_ranks {len(parts) // 2}\n"
    waits: dict[tuple[int, str], set[str]] = defaultdict(set)
    sends: dict[tuple[int, str], tuple[int, int, int]] = {}
    receives: dict[tuple[int, int, int], str] = {}
    for number, body in zip(parts[::2], parts[1::2], strict=True):
        rank = int(number)
        for line in body.strip().removesuffix("}").splitlines():
            label, what, *words = re.split(r"[: ]+", line)
            if what == "requires":
                waits[rank, label].add(words[0])
            elif what == "send":
                told, _, peer, _, tag = words
                assert told == f"{size}b"
                sends[rank, label] = (rank, int(peer), int(tag))
            else:
                assert what == "recv"
                receives[int(words[2]), rank, int(words[4])] = label
    assert len(receives) == len(sends) == len(set(sends.values()))
    done, arrived = set[tuple[int, str]](), 0
    while ready := [s for s in sends if s not in done and not waits[s]]:
        for rank, label in ready:
            done.add((rank, label))
            src, dst, tag = sends[rank, label]
            came = receives[src, dst, tag]
            arrived += 1
            for (at, _), labels in waits.items():
                if at == dst:
                    labels.discard(came)
    return arrived
