"""Machines as drawings."""
