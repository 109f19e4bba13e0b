"""The verbs ``sccl doctor ...``: tools, stored answers, and schemas."""
