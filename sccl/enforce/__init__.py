"""Plans inside running PyTorch jobs: a process group that records what a job calls, and orders it.

Nothing outside this room, and :mod:`sccl.torch`, which is its door for jobs, imports torch.
"""
