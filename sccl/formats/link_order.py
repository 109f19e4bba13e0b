"""The order in which links of ASTRA-sim serve messages, as control dependencies.

Sends that become free at one nanosecond are issued there in the order of a hash table, and one that
waits for its data is overtaken by those behind it. A send that waited for the one before it would
pay alpha twice: a send is done when it has arrived. So it waits for a computation of a nanosecond
that becomes free together with the one before, and comes to the link right behind it. No link is
idle for that, as every message keeps its link busy for a nanosecond or more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sccl.formats.algorithm_messages import Message

MAX_VISITED = 64
"""Messages that are looked at for one whose data dependencies imply the order."""


def order_links(
    messages: Sequence[Message], link_of: Callable[[Message], tuple[int, ...]]
) -> dict[int, int]:
    """Return for messages which one has to be issued before, where data do not imply it.

    Args:
        messages: Messages of a plan, by number.
        link_of: Returns the first link that serves a message.
    """
    last: dict[tuple[int, ...], Message] = {}
    predecessors: dict[int, int] = {}
    for message in messages:
        link = link_of(message)
        before = last.get(link)
        if before is not None and not _is_implied(messages, before, message, predecessors):
            predecessors[message.number] = before.number
        last[link] = message
    return predecessors


def _is_implied(
    messages: Sequence[Message], before: Message, message: Message, order: dict[int, int]
) -> bool:
    """Return whether a message waits for data that come only after another was issued."""
    if message.after and not before.after and before.number not in order:
        return True  # that one was issued at the start
    seen: set[int] = set()
    open_ = list(message.after)
    while open_ and len(seen) < MAX_VISITED:
        number = open_.pop()
        if number == before.number:
            return True
        if number > before.number and number not in seen:
            seen.add(number)
            open_ += messages[number].after
    return False
