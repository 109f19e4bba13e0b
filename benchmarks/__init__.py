"""Compare times of sccl with the SCCL paper and the public ``msccl`` (see README.md)."""
