"""Machines: the catalogue in ``topologies/``, generators by name, files, and their model."""

from sccl.topo.catalogue import catalogue_names, resolve_topology, topology_makers

__all__ = ["catalogue_names", "resolve_topology", "topology_makers"]
