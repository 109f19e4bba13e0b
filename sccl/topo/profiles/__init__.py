"""Machines from measurements: alpha and beta of links."""
