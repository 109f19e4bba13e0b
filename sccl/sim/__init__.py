"""Times of transfers on a machine, by simulation: whole ticks, the same on every computer."""
