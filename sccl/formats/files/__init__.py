"""Files of plans and machines, of sccl and of other tools, by name, pattern, or folder."""
