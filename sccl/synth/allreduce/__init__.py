"""Allreduce over all of its classes: the results of other synthesisers in one frontier."""
