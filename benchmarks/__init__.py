"""How long sccl takes, beside the SCCL paper and the public ``msccl``: see README.md here."""
