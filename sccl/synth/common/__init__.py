"""Shared by all synthesizers: contract, registry, step limits, stored answers, settings."""
