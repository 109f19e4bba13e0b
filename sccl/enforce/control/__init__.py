"""Bring running jobs to another plan: decisions, messages, and the moment of the switch.

A rank has a :class:`Follower`. A :class:`Listener` calls it in its own thread. At boundaries
between iterations the follower contributes to the ranks' agreement. A controller has a
:class:`Coordinator`. Both use a store, such as the TCPStore of every torchrun job, through a
:class:`Ledger`, which defines its keys. Nothing here blocks.
"""

from sccl.enforce.control.blobs import key_of
from sccl.enforce.control.coordinator import Coordinator, Decision
from sccl.enforce.control.feedback import (
    Advice,
    FeedbackReader,
    IterationReport,
    IterationSeen,
    MotifTime,
    Replanning,
    Wish,
    encoded,
    merged,
)
from sccl.enforce.control.follower import Follower, Listener
from sccl.enforce.control.ledger import JobWire, Ledger, RankVote, announce, current, job_of
from sccl.enforce.control.stores import (
    DecisionError,
    JobStore,
    MemoryJobStore,
    RemoteJobStore,
    StoreError,
    TorchJobStore,
    connect,
)
from sccl.enforce.control.transitions import RankState

__all__ = [
    "Advice",
    "Coordinator",
    "Decision",
    "DecisionError",
    "FeedbackReader",
    "Follower",
    "IterationReport",
    "IterationSeen",
    "JobStore",
    "JobWire",
    "Ledger",
    "Listener",
    "MemoryJobStore",
    "MotifTime",
    "RankState",
    "RankVote",
    "RemoteJobStore",
    "Replanning",
    "StoreError",
    "TorchJobStore",
    "Wish",
    "announce",
    "connect",
    "current",
    "encoded",
    "job_of",
    "key_of",
    "merged",
]
