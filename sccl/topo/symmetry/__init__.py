"""Symmetries of machines, and algorithms that consist of orbits of sends."""
