"""Simulate plans on their machines, and compare synthesizers, networks, and failures."""
