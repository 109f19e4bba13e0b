"""Write GOAL schedules for LogGOPSim and ATLAHS: sends and receives with their dependencies.

Source: LogGOPSim (Hoefler, Schneider, Lumsdaine 2010), its ``README`` and ``txt2bin``: ``num_ranks
N``, then for each rank ``rank r { ... }`` of lines ``label: send 8b to 1 tag 5``, ``label: recv 8b
from 0 tag 5`` and ``label requires label``. Labels are local to a rank. Times are not part of the
file: the simulator has parameters L, o, g, and G, which correspond to alpha and beta.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sccl.core.algorithm import Algorithm
from sccl.formats.common.contract import SizedPlan, WrittenFiles, write_only
from sccl.formats.common.messages import (
    Awaiting,
    Message,
    MessageOptions,
    algorithm_messages,
    sized_algorithm,
)

NAME = "goal"
ABOUT = "GOAL schedules for LogGOPSim and ATLAHS"
SOURCE = "LogGOPSim 1.1, README and txt2bin"
TAKES = (Algorithm,)
BY_SIZE = True
MIXES = False

MAX_MESSAGES = 2**22
"""Largest number of messages of a plan: a tag has 32 bits, and a line has about 40 bytes."""


Options = MessageOptions


def write(plans: Sequence[SizedPlan], options: MessageOptions) -> WrittenFiles:
    """Return a file for each plan.

    Raises:
        InputError: There are too many messages, or chunks have fractional bytes.
    """
    files = {
        f"{plan.name}.goal": "".join(_lines(plan, options.awaiting)).encode() for plan in plans
    }
    link = plans[0].plan.topology.links[0]
    costs = f"-L {round(link.alpha_us * 1000)} -o 0 -g 0 -G {1 / (link.gb_per_s * link.lanes):.6g}"
    file = "{path}" if len(plans) == 1 else "{path}/" + f"{plans[0].name}.goal"
    command = f"txt2bin -i {file} -o plan.bin && LogGOPSim -f plan.bin {costs}"
    note = (
        "LogGOPSim links every pair of ranks, and a rank sends one message at a time, so its "
        "times do not describe this machine; L and G are the costs of the machine's first link"
    )
    return WrittenFiles(files, command, (note,))


sniff, read = write_only("GOAL has the number of bytes of each transfer, not their chunks")


def _lines(plan: SizedPlan, awaiting: Awaiting) -> Iterator[str]:
    algorithm, chunk = sized_algorithm(plan, MAX_MESSAGES)
    ranks = algorithm.collective.ranks
    sent: list[list[Message]] = [[] for _ in range(ranks)]
    received: list[list[Message]] = [[] for _ in range(ranks)]
    for message in algorithm_messages(algorithm, awaiting):
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
