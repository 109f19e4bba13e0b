"""Machines: the catalogue in ``topologies/``, generators by name, files, and their model."""

from sccl.topo.catalogue import catalogue_names, makers, resolve
from sccl.topo.fabrics import NAMES as FABRICS
from sccl.topo.fabrics import fabric_of
from sccl.topo.generators import Generator, generators
from sccl.topo.machine_model import MachineModel, machine_model
from sccl.topo.measures import Measures, measure, unreachable
from sccl.topo.naming import LinkName, added_to, links_of, rank_of
from sccl.topo.routing import routed

__all__ = [
    "FABRICS",
    "Generator",
    "LinkName",
    "MachineModel",
    "Measures",
    "added_to",
    "catalogue_names",
    "fabric_of",
    "generators",
    "links_of",
    "machine_model",
    "makers",
    "measure",
    "rank_of",
    "resolve",
    "routed",
    "unreachable",
]
