"""Nouns as files: their shapes, JSON text, and where files are read and written."""
