"""How running jobs come to another plan: who decides, who tells, and when all ranks switch.

A rank has a :class:`Follower`, to which a :class:`Listener` listens in a thread of its own, and at
boundaries between iterations asks it what to contribute to the ranks' agreement. A controller has a
:class:`Coordinator`. Both know a store, such as the TCPStore of every job of torchrun, by a
:class:`Ledger`, which says what lies where. Nothing here waits.
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
