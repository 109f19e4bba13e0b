"""Switch running jobs to other plans: votes, decisions, and agreements.

Each rank has a :class:`Follower`, which a :class:`Listener` calls in a separate thread. At
boundaries between iterations the follower contributes to an agreement of the ranks. A controller
has a :class:`Coordinator`. Both use a store, such as the TCPStore of every torchrun job, through a
:class:`Ledger`, which defines its keys. Nothing in this package blocks.
"""

from sccl.torch_backend.control.coordinator import Coordinator, Decision
from sccl.torch_backend.control.feedback import (
    FeedbackReader,
    IterationReport,
    IterationSummary,
    MotifTime,
    ReplanAdvice,
    ReplanDecision,
    ReplanPolicy,
    encode_report,
    merge_times,
)
from sccl.torch_backend.control.follower import Follower, Listener
from sccl.torch_backend.control.job_stores import (
    DecisionError,
    JobStore,
    MemoryJobStore,
    RemoteJobStore,
    StoreError,
    TorchJobStore,
    connect_store,
)
from sccl.torch_backend.control.ledger import (
    JobWire,
    Ledger,
    RankVote,
    announce,
    current_ledger,
    describe_job,
    read_key,
)
from sccl.torch_backend.control.transitions import RankState

__all__ = [
    "Coordinator",
    "Decision",
    "DecisionError",
    "FeedbackReader",
    "Follower",
    "IterationReport",
    "IterationSummary",
    "JobStore",
    "JobWire",
    "Ledger",
    "Listener",
    "MemoryJobStore",
    "MotifTime",
    "RankState",
    "RankVote",
    "RemoteJobStore",
    "ReplanAdvice",
    "ReplanDecision",
    "ReplanPolicy",
    "StoreError",
    "TorchJobStore",
    "announce",
    "connect_store",
    "current_ledger",
    "describe_job",
    "encode_report",
    "merge_times",
    "read_key",
]
