"""Symmetries of machines: found, known and checked; orbits of chunks, and sends made of them."""
