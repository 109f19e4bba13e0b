"""Represent machines and demands as arrays, and compute lower bounds on completion times.

A machine becomes a net of paths from rank to rank, through switches, and a collective a demand: the
source and the destinations of each chunk. :mod:`.least` computes lower bounds on the completion
time of schedules of these chunks. :mod:`.turned` reverses schedules in time, for reductions.
"""
