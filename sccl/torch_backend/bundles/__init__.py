"""Calls served by bundles of generated host code."""
