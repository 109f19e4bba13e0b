"""Serve calls by bundles of generated host code."""
