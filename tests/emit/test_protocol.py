"""Every interleaving of a small model of the flags, epochs and gates of generated code.

Two ranks call one collective after another. In each epoch both send one chunk to the other: open
(wait for the peer to be far enough), write the slot, set the flag; await the own flag, read the
slot. Slot and flag exist twice, by parity. The model says what a rank reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

EPOCHS = 5
STAGES = ("enter", "open", "write", "flag", "await", "read")


@dataclass(frozen=True)
class Rank:
    """Where a rank is, and its window as the other one writes it."""

    epoch: int = 1
    stage: int = 0
    entered: int = 0
    slots: tuple[int, int] = (0, 0)
    flags: tuple[int, int] = (0, 0)


def put(pair: tuple[int, int], at: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if at == 0 else (pair[0], value)


def step(me: Rank, peer: Rank, behind: int, copies: int) -> tuple[Rank, Rank] | str | None:
    """Return both ranks after a move of the first; None if it must wait; a word if it is wrong.

    Args:
        behind: how many epochs the peer may be behind when its window is written.
        copies: of slots and flags, 2 as generated, 1 to see that it would not do.
    """
    e, odd = me.epoch, me.epoch % copies
    match STAGES[me.stage]:
        case "enter":
            me = replace(me, entered=e)
        case "open":
            if peer.entered < e - behind:
                return None
        case "write":
            peer = replace(peer, slots=put(peer.slots, odd, e))
        case "flag":
            peer = replace(peer, flags=put(peer.flags, odd, e))
        case "await":
            if me.flags[odd] < e:
                return None
        case "read":
            if me.slots[odd] != e:
                return f"read the chunk of epoch {me.slots[odd]} in epoch {e}"
            return replace(me, epoch=e + 1, stage=0), peer
    return replace(me, stage=me.stage + 1), peer


def explore(*, behind: int, copies: int, silent: bool = False) -> set[str]:
    """Return what goes wrong in some interleaving.

    Args:
        silent: rank 1 sends nothing, as the leaf of a broadcast: nothing slows rank 0 down but the
            gate.
    """
    wrong: set[str] = set()
    seen = set()
    todo = [(Rank(), Rank())]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        moved = False
        for who in (0, 1):
            me, peer = state[who], state[1 - who]
            if me.epoch > EPOCHS:
                continue
            stage = STAGES[me.stage]
            skipped = ("open", "write", "flag") if who == 1 else ("await", "read")
            if silent and stage in skipped:
                last = stage == "read"
                after = replace(me, epoch=me.epoch + last, stage=0 if last else me.stage + 1)
                result: tuple[Rank, Rank] | str | None = (after, peer)
            else:
                result = step(me, peer, behind, copies)
            if isinstance(result, str):
                wrong.add(result)
            elif result is not None:
                moved = True
                todo.append((result[0], result[1]) if who == 0 else (result[1], result[0]))
        if not moved and any(r.epoch <= EPOCHS for r in state):
            wrong.add("deadlock")
    return wrong


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("behind", [0, 1], ids=["direct", "eager"])
def test_nothing_goes_wrong(behind: int, silent: bool) -> None:
    assert explore(behind=behind, copies=2, silent=silent) == set()


def test_each_part_is_needed() -> None:
    assert explore(behind=2, copies=2, silent=True)  # two epochs ahead: the slot is still in use
    assert explore(behind=1, copies=1, silent=True)  # without a second copy, one ahead is too much
    assert explore(behind=EPOCHS, copies=2, silent=True)  # without the gate
