"""The verbs ``sccl project ...``: generated projects."""
