"""Schedules of training steps: problems, list scheduling, annealing, and exact search."""
