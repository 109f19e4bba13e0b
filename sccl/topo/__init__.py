"""Machines: the catalogue in ``topologies/``, generators by name, files, and their model."""

from sccl.topo.catalogue import catalogue_names, resolve_topology, topology_makers
from sccl.topo.fabrics import FABRIC_NAMES as FABRICS
from sccl.topo.fabrics import resolve_fabric
from sccl.topo.generators import Generator, generators
from sccl.topo.machine_model import MachineModel, machine_model
from sccl.topo.measures import Measures, measure_topology, unreachable_pair
from sccl.topo.multihop import multihop_machine
from sccl.topo.node_names import LinkName, parse_added_lanes, parse_links, parse_rank

__all__ = [
    "FABRICS",
    "Generator",
    "LinkName",
    "MachineModel",
    "Measures",
    "catalogue_names",
    "generators",
    "machine_model",
    "measure_topology",
    "multihop_machine",
    "parse_added_lanes",
    "parse_links",
    "parse_rank",
    "resolve_fabric",
    "resolve_topology",
    "topology_makers",
    "unreachable_pair",
]
