"""Find and convert files of plans and machines, of sccl and of other tools."""
