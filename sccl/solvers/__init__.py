"""Doors to solvers: how long they may work, how they are interrupted and where they run."""
