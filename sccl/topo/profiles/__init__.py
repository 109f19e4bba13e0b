"""Machines from measurements: alpha and beta of links, and who shares a PCIe switch."""
