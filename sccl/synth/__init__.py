"""Synthesisers, one folder each, and what they share: questions, stores, folders, claims."""
