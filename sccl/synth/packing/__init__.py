"""Packings of timed trees: limits of R/C by the number of steps, and the least time by size."""
