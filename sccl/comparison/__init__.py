"""Comparison of synthesizers and classical algorithms on one machine by size."""
