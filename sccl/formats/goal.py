"""GOAL schedules, which LogGOPSim and ATLAHS simulate: sends and receives with what they require.

Source: LogGOPSim (Hoefler, Schneider, Lumsdaine 2010), its ``README`` and ``txt2bin``:
``num_ranks N``, then for each rank ``rank r { ... }`` of lines ``label: send 8b to 1 tag 5``,
``label: recv 8b from 0 tag 5`` and ``label requires label``. Labels are of a rank. Times are the
simulator's own: it is told L, o, g and G, which stand for alpha and beta here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta

from sccl.core.algorithm import Algorithm
from sccl.errors import FormatError, ParameterError, TooLargeError
from sccl.formats.contract import Foreign, FormatOptions, SizedPlan, WrittenFiles
from sccl.formats.messages import Awaiting, Message, messages_of

NAME = "goal"
ABOUT = "GOAL schedules for LogGOPSim and ATLAHS"
SOURCE = "LogGOPSim 1.1, README and txt2bin"
TAKES = (Algorithm,)
BY_SIZE = True

MAX_MESSAGES = 2**22
"""Of a plan: a tag is a number of 32 bits, and a line is some 40 bytes."""


class GoalOptions(FormatOptions, frozen=True, kw_only=True):
    """What can be told."""

    awaiting: Annotated[
        Awaiting,
        Meta(
            description="What a send waits for: data (all that came of its chunk) or step (all "
            "that came in earlier steps)."
        ),
    ] = Awaiting.DATA


Options = GoalOptions


def write(plans: Sequence[SizedPlan], options: GoalOptions) -> WrittenFiles:
    """Return a file for each plan.

    Raises:
        InputError: there are too many messages, or chunks are of no whole bytes.
    """
    files = {
        f"{plan.name}.goal": "".join(_lines(plan, options.awaiting)).encode() for plan in plans
    }
    link = plans[0].plan.topology.links[0]
    costs = f"-L {round(link.alpha_us * 1000)} -o 0 -g 0 -G {1 / (link.gb_per_s * link.lanes):.6g}"
    file = "{path}" if len(plans) == 1 else "{path}/" + f"{plans[0].name}.goal"
    command = f"txt2bin -i {file} -o plan.bin && LogGOPSim -f plan.bin {costs}"
    note = (
        "LogGOPSim joins every pair of ranks by a link of its own, and a rank sends one message "
        "at a time: its times are not those of this machine; L and G are of its first link"
    )
    return WrittenFiles(files, command, (note,))


def sniff(content: bytes) -> bool:  # noqa: ARG001 - the contract's
    """Return False: schedules of messages are not read."""
    return False


def read(content: bytes, where: str) -> Foreign:  # noqa: ARG001 - the contract's
    """Raise, for a schedule of messages does not say what they are.

    Raises:
        FormatError: always.
    """
    raise FormatError(f"{where}: GOAL says how many bytes go where, not what they are: no plan")


def _lines(plan: SizedPlan, awaiting: Awaiting) -> Iterator[str]:
    algorithm, size = plan.plan, plan.size_bytes
    assert isinstance(algorithm, Algorithm)
    assert size is not None
    if size % algorithm.collective.chunks:
        raise ParameterError(
            f"{plan.name}: {size} bytes do not divide into C={algorithm.collective.chunks} "
            "chunks: give a size that does"
        )
    if algorithm.num_sends > MAX_MESSAGES:
        raise TooLargeError(
            f"{plan.name}: {algorithm.num_sends} sends, and up to {MAX_MESSAGES} are written: "
            "give an algorithm of fewer chunks"
        )
    chunk, ranks = size // algorithm.collective.chunks, algorithm.collective.ranks
    sent: list[list[Message]] = [[] for _ in range(ranks)]
    received: list[list[Message]] = [[] for _ in range(ranks)]
    for message in messages_of(algorithm, awaiting):
        sent[message.src].append(message)
        received[message.dst].append(message)
    yield f"num_ranks {ranks}\n"
    for rank in range(ranks):
        yield f"\nrank {rank} {{\n"
        for m in received[rank]:
            yield f"r{m.number}: recv {chunk}b from {m.src} tag {m.number}\n"
        for m in sent[rank]:
            yield f"s{m.number}: send {chunk}b to {m.dst} tag {m.number}\n"
            yield from (f"s{m.number} requires r{before}\n" for before in m.after)
        yield "}\n"
