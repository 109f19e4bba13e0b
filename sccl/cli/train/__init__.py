"""The verbs ``sccl train ...``: plans of training steps."""
