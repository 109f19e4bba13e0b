"""Represent machines and demands as arrays, and compute lower bounds on completion times.

A machine becomes a network of routes from rank to rank, through switches. A collective becomes a
demand: the sources and destinations of each chunk. :mod:`.tick_bounds` computes lower bounds on the
completion time of schedules of these chunks.
"""
