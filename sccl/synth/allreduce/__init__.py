"""Allreduce over all of its classes: what the other synthesisers find, in one frontier."""
