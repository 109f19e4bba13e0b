"""Switch running jobs to other plans: votes, decisions, and agreements.

Each rank has a :class:`~sccl.torch_backend.control.follower.Follower`, which a thread calls. At
boundaries between iterations the follower contributes to an agreement of the ranks. A controller
has a :class:`~sccl.torch_backend.control.coordinator.Coordinator`. Both use a store, such as the
TCPStore of every torchrun job, through a :class:`~sccl.torch_backend.control.ledger.Ledger`, which
defines its keys. Nothing in this package blocks.
"""
