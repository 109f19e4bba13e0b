"""Synthesizers, a package for each paper or mathematical object."""
