"""Machines: the catalogue in ``topologies/``, generators by name, files, and what is modelled."""

from sccl.topo.catalogue import catalogue_names, resolve
from sccl.topo.generators import Generator, generators
from sccl.topo.measures import Measures, measure
from sccl.topo.model import Model, model
from sccl.topo.naming import LinkName, added_to, links_of, rank_of

__all__ = [
    "Generator",
    "LinkName",
    "Measures",
    "Model",
    "added_to",
    "catalogue_names",
    "generators",
    "links_of",
    "measure",
    "model",
    "rank_of",
    "resolve",
]
