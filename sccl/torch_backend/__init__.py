"""Execute plans in running PyTorch jobs: a process group that records and orders a job's calls.

Only this package, and :mod:`sccl.torch`, its interface for jobs, import torch.
"""
