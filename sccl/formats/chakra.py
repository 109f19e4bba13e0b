"""Write Chakra execution traces of MLCommons: the sends, receives, and dependencies of each rank.

Source: ``et_def.proto`` of MLCommons Chakra 1.0.0 (2026-05), and its readers. Custom collectives of
ASTRA-sim used bytes of ``comm_size`` up to 2025, and have used ``msg_chunk_cnt``, ``msg_chunk_idx``
and ``total_chunk_cnt`` (``workload_chunk_cnt``) of the call's bytes since. Viewers use
``local_time_step``, ``chunk_offset``, ``tb_id`` and ``is_rrc``. Both sets are written. A send and
its receive have the same unique ``comm_tag``.

A trace has the number of bytes of each transfer, and not their chunks, so it is only written. For a
schedule it has the order and the dependencies, but not the times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sccl.core.algorithm import Algorithm
from sccl.core.files.chakra_records import NodeKind
from sccl.core.schedule import Schedule
from sccl.errors import TooLargeError
from sccl.formats.algorithm_messages import (
    Awaiting,
    Message,
    MessageOptions,
    algorithm_messages,
    sized_algorithm,
)
from sccl.formats.chakra_encoding import SCHEMA, Node, encode_trace
from sccl.formats.format_contract import SizedPlan, WrittenFiles, write_only
from sccl.formats.link_order import order_links
from sccl.formats.timed_messages import chunk_sizes, schedule_messages

NAME = "chakra"
ABOUT = "Chakra execution traces (MLCommons), one file per rank"
SOURCE = "et_def.proto of MLCommons Chakra 1.0.0; attributes as ASTRA-sim of 2026-03 reads them"
TAKES = (Algorithm, Schedule)
BY_SIZE = True
MIXES = False

MAX_MESSAGES = 2**20
"""Largest number of messages of a plan: numbers and tags have 32 bits, and simulators keep all
nodes.
"""


Options = MessageOptions


def write(plans: Sequence[SizedPlan], options: MessageOptions) -> WrittenFiles:
    """Return a file for each rank, of each plan.

    Raises:
        TooLargeError: there are more messages than are numbered.
    """
    files = {
        f"{plan.name}.{rank}.et": content
        for plan in plans
        for rank, content in enumerate(rank_traces(plan, options.awaiting))
    }
    command = "chakra_visualizer --input_filename {path}/" + f"{plans[0].name}.0.et"
    size = plans[0].size_bytes
    of = "the schedule" if size is None else f"{size} bytes a rank, the C chunks"
    return WrittenFiles(files, command + " --output_filename trace.pdf", (f"sizes are for {of}",))


sniff, read = write_only("a trace has the number of bytes of each transfer, not their chunks")


def rank_traces(
    plan: SizedPlan,
    awaiting: Awaiting,
    link_of: Callable[[Message], tuple[int, ...]] | None = None,
) -> list[bytes]:
    """Return the file of each rank.

    Args:
        link_of: Returns the first link of a message, whose order control dependencies keep. None:
            sends wait for data alone.

    Raises:
        ParameterError: chunks are of no whole bytes.
        TooLargeError: there are more messages than are numbered.
    """
    collective = plan.plan.collective
    messages, sizes = _plan_messages(plan, awaiting)
    order = order_links(messages, link_of) if link_of else {}
    turns, first_turn = set(order.values()), 2 * len(messages)
    nodes: list[list[Node]] = [[] for _ in range(collective.ranks)]
    for message in messages:
        details = _message_attributes(
            message, sum(sizes[c] for c in message.chunks), collective.num_chunks
        )
        sent = {"comm_type": int(NodeKind.SEND), "comm_dst": message.dst, **details}
        received = {"comm_type": int(NodeKind.RECEIVE), "comm_src": message.src, **details}
        after = tuple(2 * number for number in message.after)
        number = 2 * message.number
        control = (first_turn + order[message.number],) if message.number in order else ()
        nodes[message.src].append(
            Node(number + 1, NodeKind.SEND, after, attributes=sent, control=control)
        )
        if message.number in turns:
            turn = first_turn + message.number
            nodes[message.src].append(Node(turn, NodeKind.COMPUTE, after, control=control))
        nodes[message.dst].append(Node(number, NodeKind.RECEIVE, attributes=received))
    head = {"schema": SCHEMA, "collective": collective.name}
    return [encode_trace(rank_nodes or [Node(0, NodeKind.COMPUTE)], head) for rank_nodes in nodes]


def _plan_messages(plan: SizedPlan, awaiting: Awaiting) -> tuple[list[Message], tuple[int, ...]]:
    """Return the messages of a plan, and the bytes of each chunk."""
    if not isinstance(plan.plan, Schedule):
        algorithm, size = sized_algorithm(plan, MAX_MESSAGES)
        return algorithm_messages(algorithm, awaiting), (size,) * algorithm.collective.num_chunks
    if len(plan.plan.start) > MAX_MESSAGES:
        raise TooLargeError(
            f"{plan.name}: {len(plan.plan.start)} transfers, and up to {MAX_MESSAGES} are written: "
            "give a schedule of fewer chunks"
        )
    return schedule_messages(plan.plan, awaiting), chunk_sizes(plan.plan, plan.size_bytes)


def _message_attributes(message: Message, size_bytes: int, chunks: int) -> dict[str, int | bool]:
    return {
        "comm_size": size_bytes,
        "comm_tag": message.number,
        "msg_chunk_cnt": len(message.chunks),
        "msg_chunk_idx": message.chunk,
        "total_chunk_cnt": chunks,
        "workload_chunk_cnt": chunks,
        "chunk_offset": message.chunk,
        "local_time_step": message.step,
        "tb_id": 0,
        "hasdep": int(bool(message.after)),
        "deps": -1,
        "depid": -1,
        "is_rrc": message.reduce,
    }
