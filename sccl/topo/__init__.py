"""Machines: the catalogue in ``topologies/``, generators by name, files."""

from sccl.topo.catalogue import catalogue_names, resolve
from sccl.topo.generators import Generator, generators
from sccl.topo.measures import Measures, measure

__all__ = ["Generator", "Measures", "catalogue_names", "generators", "measure", "resolve"]
