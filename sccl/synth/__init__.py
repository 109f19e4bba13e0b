"""Synthesisers, one folder each, and their shared parts: requests, stores, folders, claims."""
