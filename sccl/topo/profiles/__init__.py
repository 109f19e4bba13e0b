"""Machines from measurements: alpha and beta of links, and the GPUs at each PCIe switch."""
