"""Simulation of a training step's messages on the links of a fabric."""
