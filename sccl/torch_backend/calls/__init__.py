"""Collective calls of a PyTorch job: description, sequence, and execution under a plan."""
