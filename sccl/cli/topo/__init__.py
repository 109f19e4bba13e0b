"""The verbs ``sccl topo ...``: machines."""
