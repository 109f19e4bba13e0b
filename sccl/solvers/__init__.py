"""Interfaces to solvers, with budgets, interrupts, and child processes."""
