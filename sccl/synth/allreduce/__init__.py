"""Allreduce over all of its classes: the results of other synthesizers in one frontier."""
